"""The group of verbs: what stands in its table is what the commands say, and it imports none before it must."""

from __future__ import annotations

import click
import pytest

from schemegen.cli.verbs import VERBS, Verb, schemegen

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Cli, Start
