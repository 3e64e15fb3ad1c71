"""Authentication: find the principal of a token."""

import hmac
from collections.abc import Collection, Mapping
from typing import Final

from circadia.agents.database_contact import DatabaseContact
from circadia.agents.failed_tokens import FailedTokens
from circadia.errors import Forbidden, Unauthenticated
from circadia.ids import TOKEN_PREFIX, AgentId, hash_token
from circadia.records.principal import Principal
from circadia.stores.base import Store, Tx
from circadia.stores.signals.base import Signals
from circadia.stores.time_limit import limit_wait

ACCESS_TOPIC: Final = "access"
"""Signal that the tokens of people have changed."""
_GONE: Final = "this token is not valid; it may have been rotated, or its agent or pulse has ended"
_FOREIGN: Final = (
    f"this is not a Circadia token, which begins with {TOKEN_PREFIX!r}; where a provider's key is expected, "
    "give the agent's token (`circadia agents token NAME` makes a new one): the provider's key stays at the server"
)


class Identity:
    """Finds the principal of a token, and caches it until a signal reports a change of the agent."""

    def __init__(
        self,
        store: Store,
        signals: Signals,
        *,
        admin_token_hashes: Collection[str],
        metrics_token_hash: str | None = None,
        failed: FailedTokens | None = None,
        contact: DatabaseContact | None = None,
    ) -> None:
        self._store = store
        self._contact = contact
        self._admin = admin_token_hashes
        self._metrics = metrics_token_hash
        self._failed = failed
        self._known: dict[str, Principal] = {}
        self._hashes: dict[str, set[str]] = {}
        self._changes = 0
        signals.listen("agent", self._on_agent_changed)
        signals.listen("agent_ended", self._on_agent_changed)
        signals.listen("pulse", self._on_pulse_moved)
        signals.listen(ACCESS_TOPIC, lambda _, __: self.forget_all())

    async def authenticate(self, token: str | None) -> Principal:
        """Return the principal of the token.

        Raises:
            Unauthenticated: no token, or one that opens nothing. LimitReached: the caller has sent too many of those.
            Forbidden: the agent is disabled.
            StorageUnavailable: the database does not answer, and nothing is cached or it is too old.
        """
        if not token:
            raise Unauthenticated("no token; send `Authorization: Bearer TOKEN` (or `x-api-key`)")
        return await self.authenticate_hash(hash_token(token), _GONE if token.startswith(TOKEN_PREFIX) else _FOREIGN)

    async def authenticate_hash(self, hashed: str, why_not: str = _GONE) -> Principal:
        """Return the principal of the token with this hash. Raises as `authenticate`, with this reason."""
        known = self._known.get(hashed)
        if known is not None:
            if self._contact is not None:
                self._contact.require_cache()
            return known
        if any(hmac.compare_digest(hashed, admin) for admin in self._admin):
            return Principal()
        if self._metrics is not None and hmac.compare_digest(hashed, self._metrics):
            return Principal(metrics_only=True)
        changes = self._changes
        async with limit_wait(), self._store.begin_read() as tx:
            principal = await self._find_owner(tx, hashed)
        agent = principal.agent if principal is not None else None
        if principal is None or (agent is not None and agent.deleted_at is not None):
            if self._failed is not None:
                self._failed.add()
            raise Unauthenticated(why_not)
        if agent is not None and not agent.enabled:
            raise Forbidden(f"agent {agent.reference!r} is disabled; the operator can enable it")
        if changes == self._changes:  # else the row may have changed during the read
            self._known[hashed] = principal
            if agent is not None:
                self._hashes.setdefault(agent.id, set()).add(hashed)
        return principal

    async def _find_owner(self, tx: Tx, hashed: str) -> Principal | None:
        """Return the agent or person that owns the token, with the pulse if it is a pulse's; None if nobody does."""
        agent = await tx.agents.get_by_token(hashed)
        if agent is not None:
            return Principal(agent=agent)
        pulse = await tx.pulses.get_by_token(hashed)
        if pulse is not None:
            agent = await tx.agents.get(pulse.agent_id)
            return None if agent is None else Principal(agent=agent, pulse_id=pulse.id)
        access = await tx.access_tokens.get_by_hash(hashed)
        return None if access is None else Principal(access=access)

    def forget(self, agent_id: AgentId) -> None:
        self._changes += 1
        for hashed in self._hashes.pop(agent_id, ()):
            self._known.pop(hashed, None)

    def forget_all(self) -> None:
        self._changes += 1
        self._hashes.clear()
        self._known.clear()

    def _on_agent_changed(self, key: str, _: Mapping[str, object]) -> None:
        self.forget(AgentId(key))

    def _on_pulse_moved(self, _: str, data: Mapping[str, object]) -> None:
        """Forget the tokens of an agent whose pulse moved: a pulse's token dies with it (WAKE-52)."""
        self.forget(AgentId(str(data["agent"])))
