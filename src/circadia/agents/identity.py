"""Authentication: the principal of a token, a limit for failed tokens, and the tokens of people."""

import hmac
from collections.abc import Collection, Mapping
from contextvars import ContextVar
from typing import Final

from circadia.agents.database_contact import DatabaseContact
from circadia.agents.registry import require_name
from circadia.caches import BoundedDict
from circadia.clock import Clock
from circadia.errors import Conflict, Forbidden, LimitReached, NotFound, Unauthenticated
from circadia.ids import TOKEN_PREFIX, AgentId, hash_token, new_token
from circadia.records.event import AccessChange, EventType
from circadia.records.principal import AccessRole, AccessToken, Principal
from circadia.stores.base import Store, Tx
from circadia.stores.event_log import EventLog
from circadia.stores.signals.base import Signals
from circadia.stores.time_limit import limit_wait
from circadia.suggestions import did_you_mean

CALLER: Final[ContextVar[str]] = ContextVar("caller", default="")
"""Address of the current request's caller; empty if unknown, as on a socket in the file system."""
_WINDOW_SECONDS: Final = 60.0
_ADDRESSES: Final = 10_000
"""Addresses to remember, about 200 bytes each; the oldest are dropped."""


class FailedTokens:
    """Failed tokens by address. A valid token is never refused for the failures of others."""

    def __init__(self, clock: Clock, most: int | None) -> None:
        """Allow an address `most` failed tokens a minute; None is no limit."""
        self._clock = clock
        self._most = most
        self._recent: BoundedDict[str, tuple[float, int]] = BoundedDict(_ADDRESSES)
        self.total = 0

    def add(self) -> None:
        """Count a failed token of the current request. Raises LimitReached if its address has tried too many."""
        self.total += 1
        now, caller = self._clock.monotonic(), CALLER.get()
        began, count = self._recent.get(caller, (now, 0))
        if now - began >= _WINDOW_SECONDS:
            began, count = now, 0
        self._recent[caller] = began, count + 1
        if self._most is not None and count >= self._most:
            wait = began + _WINDOW_SECONDS - now
            message = f"too many invalid tokens from this address; check the token, and wait {wait:.0f} s"
            raise LimitReached(message, retry_after_seconds=wait)


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


class AccessTokenService:
    """The only writer of access tokens."""

    def __init__(self, clock: Clock, events: EventLog) -> None:
        self._clock = clock
        self._events = events

    async def grant(self, tx: Tx, name: str, role: AccessRole, *, by: str) -> tuple[AccessToken, str]:
        """Make a token; return it with its secret, of which only a hash is stored.

        Raises:
            InvalidRequest: a bad name. Conflict: there is a token of this name.
        """
        secret = new_token(role.value)
        token = AccessToken(
            name=require_name(name, "token"),
            role=role,
            token_hash=hash_token(secret),
            created_at=self._clock.now(),
            created_by=by,
        )
        if not await tx.access_tokens.add(token):
            raise Conflict(f"there is a token {name!r} already; revoke it first, or take another name")
        await self._record(tx, EventType.ACCESS_GRANTED, token, by)
        return token, secret

    async def revoke(self, tx: Tx, name: str, *, by: str) -> None:
        """Delete a token, and end what was signed in with it. Raises NotFound."""
        tokens = {token.name: token for token in await tx.access_tokens.find_all()}
        if name not in tokens or not await tx.access_tokens.remove(name):
            raise NotFound(f"no token {name!r}{did_you_mean(name, tokens)}")
        await self._record(tx, EventType.ACCESS_REVOKED, tokens[name], by)

    async def _record(self, tx: Tx, kind: EventType, token: AccessToken, by: str) -> None:
        await self._events.record(tx, kind, AccessChange(name=token.name, role=token.role, by=by))
        self._events.signal(tx, ACCESS_TOPIC, token.name, {})
