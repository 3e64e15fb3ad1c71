"""The client's calls about the tokens of people."""

from circadia.client.connection import ApiConnection
from circadia.schemas.tokens import AccessTokenCreated, AccessTokenList, AccessTokenView, PrincipalLink, PrincipalView


class TokenCalls:
    """Tokens of people."""

    _http: ApiConnection

    async def create_token(self, name: str, role: str) -> AccessTokenCreated:
        """Create a token for a person, as `operator` or `viewer`; only this answer has its secret."""
        return await self._http.fetch(AccessTokenCreated, "POST", "tokens", body={"name": name, "role": role})

    async def list_tokens(self) -> list[AccessTokenView]:
        """Return the tokens of people, by name."""
        return (await self._http.fetch(AccessTokenList, "GET", "tokens")).tokens

    async def revoke_token(self, name: str) -> None:
        """Revoke a token."""
        await self._http.call("DELETE", "tokens", name)

    async def create_sign_in_link(self) -> PrincipalLink:
        """Return a link that opens the dashboard signed in, once and within a minute."""
        return await self._http.fetch(PrincipalLink, "POST", "me", "links")

    async def show_principal(self) -> PrincipalView:
        """Return the owner of this client's token."""
        return await self._http.fetch(PrincipalView, "GET", "me")
