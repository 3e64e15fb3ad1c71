"""Signs people in to the dashboard: a cookie in place of their token, which any server can check alone (UI-02)."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from circadia.agents.identity import Identity
from circadia.clock import Clock
from circadia.errors import Forbidden, Unauthenticated
from circadia.ids import hash_token
from circadia.records.principal import Principal
from circadia.stores.base import Store
from circadia.stores.time_limit import limit_wait

COOKIE_LIFETIME: Final = timedelta(days=7)
LINK_LIFETIME: Final = timedelta(minutes=1)
LINK_PATH: Final = "/ui/enter"
_OPERATOR: Final = "operator"
"""Stands for the server's own token, whose hash would let a weak one be guessed. Another token changes the key."""
_SIGNED_OUT: Final = "you are signed out; sign in with your token"


@lru_cache(maxsize=2)
def _derive_key(admin_token: str) -> bytes:
    """Return the key of all seals. Slow to compute, since whoever has a cookie could guess at a weak token."""
    return hashlib.scrypt(admin_token.encode(), salt=b"circadia sign-in", n=2**14, r=8, p=1, dklen=32)


class SignIn:
    """Seals cookies and the codes of links. Each names the hash of a token and ends with that token."""

    def __init__(self, clock: Clock, store: Store, identity: Identity, admin_tokens: Sequence[str]) -> None:
        """The first of the operator's tokens seals; what any of them has sealed is opened."""
        self._clock = clock
        self._store = store
        self._identity = identity
        self._keys = [_derive_key(token) for token in admin_tokens]
        self.cookie_names: Final = [f"circadia-{hashlib.sha256(key).hexdigest()[:8]}" for key in self._keys]
        """Those of this installation: the servers on one host share their cookies. New ones get the first."""

    async def create_cookie(self, token: str) -> tuple[Principal, str]:
        """Return the owner of a person's token and the value of a cookie.

        Raises:
            Forbidden: the token is not a person's. Others: as `Identity.authenticate`.
        """
        principal = await self._identity.authenticate(token)
        return principal, self._seal("cookie", _owner_of(principal), COOKIE_LIFETIME)

    def create_link(self, principal: Principal) -> str:
        """Return the path of a link that signs a person in once, within a minute. Raises Forbidden for others."""
        code = self._seal("link", f"{_owner_of(principal)}.{secrets.token_hex(8)}", LINK_LIFETIME)
        return f"{LINK_PATH}?code={code}"

    async def follow_link(self, code: str) -> str:
        """Return the value of a cookie for a link's code. Raises Unauthenticated, StorageUnavailable."""
        sealed_owner, expires_at = self._open(
            "link", code, "this link is not valid or too old; run `circadia ui` again"
        )
        owner = sealed_owner.partition(".")[0]
        await self._find_principal(owner)
        async with limit_wait(), self._store.begin_write() as tx:
            if not await tx.access_tokens.use_link(hash_token(code), expires_at, self._clock.now()):
                raise Unauthenticated("this link was used already; run `circadia ui` again")
        return self._seal("cookie", owner, COOKIE_LIFETIME)

    async def authenticate(self, cookies: str) -> Principal | None:
        """Return the owner of the cookie among those of Cookie headers, or None without one.

        Raises:
            As `Identity.authenticate_hash`.
        """
        pairs = (cookie.strip().partition("=") for cookie in cookies.split(";"))
        value = next((value.strip('"') for name, _, value in pairs if name in self.cookie_names), None)
        if value is None:
            return None
        return await self._find_principal(self._open("cookie", value, _SIGNED_OUT)[0])

    async def _find_principal(self, owner: str) -> Principal:
        return Principal() if owner == _OPERATOR else await self._identity.authenticate_hash(owner, _SIGNED_OUT)

    def _seal(self, purpose: str, owner: str, lifetime: timedelta) -> str:
        text = f"{owner}.{int((self._clock.now() + lifetime).timestamp())}"
        return f"{text}.{_sign(self._keys[0], purpose, text)}"

    def _open(self, purpose: str, sealed: str, why_not: str) -> tuple[str, datetime]:
        """Return the owner and the end of what was sealed for the purpose. Raises Unauthenticated."""
        text, _, signature = sealed.rpartition(".")
        signatures = [_sign(key, purpose, text) for key in self._keys]
        if not any(hmac.compare_digest(signature.encode(), each.encode()) for each in signatures):
            raise Unauthenticated(why_not)
        owner, _, ends = text.rpartition(".")
        expires_at = datetime.fromtimestamp(int(ends), UTC)
        if expires_at <= self._clock.now():
            raise Unauthenticated(why_not)
        return owner, expires_at


def _sign(key: bytes, purpose: str, text: str) -> str:
    digest = hmac.digest(key, f"{purpose}\n{text}".encode("utf-8", "surrogateescape"), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _owner_of(principal: Principal) -> str:
    if not principal.is_operator:
        raise Forbidden("this token is not a person's; sign in with an operator's or a viewer's")
    return _OPERATOR if principal.access is None else principal.access.token_hash
