"""The last step of a run: all that a finished folder holds besides its shards, and the manifest at the very end."""

from schemegen.seal.card import default_name
from schemegen.seal.folder import Sealing, seal

__all__ = ["Sealing", "default_name", "seal"]
