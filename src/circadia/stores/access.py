"""Store protocol for the tokens of people."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from circadia.records.principal import AccessToken


class AccessTokens(Protocol):
    """Tokens of people. A revoked token is deleted; events tell who had it."""

    async def add(self, token: AccessToken) -> bool:
        """Add a token; return False if there is one of this name."""
        ...

    async def remove(self, name: str) -> bool:
        """Delete a token; return False if there is none of this name."""
        ...

    async def get_by_hash(self, token_hash: str) -> AccessToken | None: ...

    async def find_all(self) -> Sequence[AccessToken]:
        """Return all tokens, by name."""
        ...

    async def use_link(self, code_hash: str, expires_at: datetime, now: datetime) -> bool:
        """Mark the code of a sign-in link as used; return False if it was used before. Forget expired ones."""
        ...
