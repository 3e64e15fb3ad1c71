"""Tokens of people in answers."""

from datetime import datetime
from typing import Final

from pydantic import Field

from circadia.records.principal import AccessRole
from circadia.schemas.view import View

ROLE: Final = "An `operator` may do everything; a `viewer` sees everything and changes nothing."


class AccessTokenView(View):
    """A token of a person, without the secret."""

    name: str = Field(description="The person who has it.", examples=["ann"])
    role: AccessRole = Field(description=ROLE)
    created_at: datetime = Field(description="Time of creation.")
    created_by: str = Field(description="Creator.", examples=["operator"])


class AccessTokenCreated(AccessTokenView):
    """A new token; no other answer has its secret."""

    token: str = Field(description="The secret, which is stored only as a hash.")


class AccessTokenList(View):
    """The tokens of people."""

    tokens: list[AccessTokenView] = Field(description="By name.")


class PrincipalLink(View):
    """A link that signs its caller in to the dashboard, once."""

    path: str = Field(description="Path at this server; it works once, within a minute.", examples=["/ui/enter?code=…"])


class PrincipalView(View):
    """The owner of the request's token."""

    name: str = Field(description="Name in events and rows.", examples=["operator/ann"])
    role: str = Field(description="`operator`, `viewer` or `agent`.", examples=["operator"])
