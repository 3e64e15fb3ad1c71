"""Client methods for people: what waits for them, alerts, tokens, and who owns this client's token."""

from circadia.client.connection import ApiConnection
from circadia.schemas.fleet import (
    AccessTokenCreated,
    AccessTokenList,
    AccessTokenView,
    AlertPage,
    AlertRecordView,
    PrincipalLink,
    PrincipalView,
    WaitingCountView,
)
from circadia.schemas.passes import WaitingChangeList


class PeopleCalls:
    """One method per endpoint of what people do."""

    _http: ApiConnection

    async def count_for_you(self) -> WaitingCountView:
        """Return how much waits for a person: approvals, proposals, dreams, dead letters, alerts."""
        return await self._http.fetch(WaitingCountView, "GET", "for-you")

    async def list_proposals(
        self, *, bank: str | None = None, after: str | None = None, limit: int = 50
    ) -> WaitingChangeList:
        """Return the changes of passes that wait for a person, with the texts that they concern and rest on."""
        query = {"bank": bank, "after": after, "limit": limit}
        return await self._http.fetch(WaitingChangeList, "GET", "proposals", query=query)

    async def list_alerts(
        self, *, cause: str | None = None, open: bool = False, before: str | None = None, limit: int = 100
    ) -> AlertPage:
        """Return the alerts that were raised, newest first; with `open`, those that nobody has acknowledged."""
        query = {"cause": cause, "open": open, "before": before, "limit": limit}
        return await self._http.fetch(AlertPage, "GET", "alerts", query=query)

    async def show_alert(self, alert: str) -> AlertRecordView:
        return await self._http.fetch(AlertRecordView, "GET", "alerts", alert)

    async def acknowledge_alert(self, alert: str) -> AlertRecordView:
        """Say that a person takes care of an alert. A second time changes nothing."""
        return await self._http.fetch(AlertRecordView, "POST", "alerts", alert, "acknowledge")

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
