"""Tokens of people: operators and viewers."""

from pydantic import Field

from circadia.agents.access import require_operator
from circadia.api.bodies import Body
from circadia.api.parts import Parts, Who, noun_router
from circadia.records.principal import AccessRole
from circadia.schemas.tokens import (
    ROLE,
    AccessTokenCreated,
    AccessTokenList,
    AccessTokenView,
    PrincipalLink,
    PrincipalView,
)

router = noun_router("tokens")


class TokenBody(Body):
    name: str = Field(description="The person who gets it; events call that person ROLE/NAME.", examples=["ann"])
    role: AccessRole = Field(description=ROLE)


@router.post("/tokens", status_code=201)
async def create_token(body: TokenBody, who: Who, parts: Parts) -> AccessTokenCreated:
    """Create a token for a person. Only this answer has its secret. Operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        token, secret = await parts.tokens.grant(tx, body.name, body.role, by=who.name)
    return AccessTokenCreated.of(token, token=secret)


@router.get("/tokens")
async def list_tokens(who: Who, parts: Parts) -> AccessTokenList:
    """List the tokens of people, without their secrets. Operator only."""
    require_operator(who)
    async with parts.store.begin_read() as tx:
        return AccessTokenList(tokens=[AccessTokenView.of(token) for token in await tx.access_tokens.find_all()])


@router.delete("/tokens/{name}", status_code=204)
async def revoke_token(name: str, who: Who, parts: Parts) -> None:
    """Revoke a token at all servers. Operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        await parts.tokens.revoke(tx, name, by=who.name)


@router.get("/me")
async def show_principal(who: Who) -> PrincipalView:
    """Show the owner of the request's token."""
    return PrincipalView.of(who)


@router.post("/me/links", status_code=201)
async def create_sign_in_link(who: Who, parts: Parts) -> PrincipalLink:
    """Create a link that opens the dashboard signed in, once and within a minute. Access: people."""
    return PrincipalLink(path=parts.sign_in.create_link(who))
