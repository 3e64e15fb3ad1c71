"""The Python client for the REST API."""

from circadia.client.blocking import SyncClient
from circadia.client.calls import Client

__all__ = ["Client", "SyncClient"]
