"""The last step of a run: all that a finished folder holds besides its shards, and the manifest at the very end."""

from schemegen.seal.base_model import base_model_id, base_of, hub_id
from schemegen.seal.card import argument, default_name
from schemegen.seal.folder import seal
from schemegen.seal.sealing import Sealing

__all__ = ["Sealing", "argument", "base_model_id", "base_of", "default_name", "hub_id", "seal"]
