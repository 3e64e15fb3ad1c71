"""Circadia: the sleep-wake-dream runtime for AI agents."""

import importlib
from typing import TYPE_CHECKING, Any

from circadia.errors import CircadiaError

if TYPE_CHECKING:
    from circadia.client import Client, SyncClient

__all__ = ["CircadiaError", "Client", "SyncClient"]


def __getattr__(name: str) -> Any:
    """Import the client on first use: its HTTP library is slow to load."""
    if name in ("Client", "SyncClient"):
        return getattr(importlib.import_module("circadia.client"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
