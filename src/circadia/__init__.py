"""Circadia: the sleep-wake-dream runtime for AI agents."""

import importlib
from typing import TYPE_CHECKING, Any

from circadia.errors import CircadiaError

if TYPE_CHECKING:
    from circadia.client import Client

__all__ = ["CircadiaError", "Client"]


def __getattr__(name: str) -> Any:
    """Import the client on first use: its HTTP library is slow to load."""
    if name == "Client":
        return importlib.import_module("circadia.client").Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
