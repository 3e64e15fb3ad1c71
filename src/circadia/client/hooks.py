"""Client methods for inbound webhooks."""

from collections.abc import Mapping
from typing import Any

from circadia.client.connection import ApiConnection
from circadia.schemas.hooks import HookDeliveryList, HookDeliveryView, HookList, HookView


class HookCalls:
    """One method per endpoint of hooks."""

    _http: ApiConnection

    async def list_hooks(self) -> list[HookView]:
        """Return all inbound webhooks by name."""
        return (await self._http.fetch(HookList, "GET", "hooks")).hooks

    async def show_hook(self, hook: str) -> HookView:
        """Return an inbound webhook."""
        return await self._http.fetch(HookView, "GET", "hooks", hook)

    async def set_hook(self, hook: str, keys: Mapping[str, Any]) -> HookView:
        """Create or replace an inbound webhook: `agent`, `signature`, `secret_env` and the optional keys."""
        return await self._http.fetch(HookView, "PUT", "hooks", hook, body=keys)

    async def delete_hook(self, hook: str) -> None:
        """Delete an inbound webhook."""
        await self._http.call("DELETE", "hooks", hook)

    async def list_hook_deliveries(self, hook: str, *, limit: int = 100) -> list[HookDeliveryView]:
        """Return the last deliveries that a hook accepted, newest first."""
        query = {"limit": limit}
        return (await self._http.fetch(HookDeliveryList, "GET", "hooks", hook, "deliveries", query=query)).deliveries
