"""What each environment variable does; a test holds the first table to the sources."""

from __future__ import annotations

from typing import Final

VARIABLES: Final = {
    "SCHEMEGEN_CACHE": "the folder for compiled kernels, samples and listings of the Hub, instead of the user's cache",
    "SCHEMEGEN_DEBUG": "`1` prints the traceback of an error before its message",
    "SCHEMEGEN_PLUGINS": "`off` loads no plugin",
    "SCHEMEGEN_STRICT": "`1` makes the first fault of a plugin an error, where the plugin would be skipped",
}
OF_THE_HUB: Final = {
    "HF_HOME": "the folder of its cache and token",
    "HF_HUB_CACHE": "the folder of its cache",
    "HF_TOKEN": "the token for private and gated models; `hf auth login` stores one",
    "HF_ENDPOINT": "another Hub, such as a mirror",
    "HF_HUB_OFFLINE": "`1` uses the cache alone and asks nobody",
}
