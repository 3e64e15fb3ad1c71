"""Gives people tokens of their own, and takes them back."""

from circadia.agents.identity import ACCESS_TOPIC
from circadia.agents.registry import require_name
from circadia.clock import Clock
from circadia.errors import Conflict, NotFound
from circadia.ids import hash_token, new_token
from circadia.records.event import EventType
from circadia.records.event_data import AccessChange
from circadia.records.principal import AccessRole, AccessToken
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog
from circadia.suggestions import did_you_mean


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
