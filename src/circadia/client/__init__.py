"""The Python client: REST from a program."""

from circadia.client.calls import Client

__all__ = ["Client"]
