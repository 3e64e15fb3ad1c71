"""Whose token this is."""

import hmac
from collections.abc import Mapping

from circadia.errors import Forbidden, Unauthenticated
from circadia.ids import hash_token
from circadia.records.principal import Principal
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals


class Identity:
    """Finds the principal of a token; an agent's row is remembered until a signal says that it changed."""

    def __init__(
        self, store: Store, signals: Signals, *, admin_token_hash: str, metrics_token_hash: str | None = None
    ) -> None:
        self._store = store
        self._admin = admin_token_hash
        self._metrics = metrics_token_hash
        self._known: dict[str, Principal] = {}
        self._hashes: dict[str, str] = {}
        self._changes = 0
        signals.listen("agent", self._forget)
        signals.listen("agent_ended", self._forget)

    async def of(self, token: str | None) -> Principal:
        """Return the owner of the token.

        Raises:
            Unauthenticated: no token, or one that opens nothing. Forbidden: the agent is disabled.
            StorageUnavailable: the database does not answer.
        """
        if not token:
            raise Unauthenticated("no token; send `Authorization: Bearer TOKEN` (or `x-api-key`)")
        hashed = hash_token(token)
        known = self._known.get(hashed)
        if known is not None:
            return known
        if hmac.compare_digest(hashed, self._admin):
            return Principal()
        if self._metrics is not None and hmac.compare_digest(hashed, self._metrics):
            return Principal(metrics_only=True)
        changes = self._changes
        async with self._store.read() as tx:
            agent = await tx.agents.by_token(hashed)
        if agent is None:
            raise Unauthenticated("this token opens nothing; it may have been rotated, or its agent deleted")
        if not agent.enabled:
            raise Forbidden(f"agent {agent.reference!r} is disabled; the operator can enable it")
        principal = Principal(agent=agent)
        if changes == self._changes:  # else the row may have changed while it was read
            self._known[hashed] = principal
            self._hashes[agent.id] = hashed
        return principal

    def _forget(self, key: str, _: Mapping[str, object]) -> None:
        self._changes += 1
        hashed = self._hashes.pop(key, None)
        if hashed is not None:
            self._known.pop(hashed, None)
