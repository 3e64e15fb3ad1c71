"""Rules for request bodies, agent references, instants, and entity tags (RFC 9110, section 8.8.3)."""

from collections.abc import Collection
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Annotated, Any, ClassVar, Final, cast

import orjson
from fastapi import Header, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError, to_jsonable_python

from circadia.agents.directory import find_agent_by_reference, find_own_session
from circadia.agents.registry import NAME
from circadia.errors import Conflict, Forbidden, PreconditionFailed
from circadia.records.agent import Agent, FirstMistake, Name
from circadia.records.bank import NAME as BANK_NAME
from circadia.records.event import EventType
from circadia.records.principal import Principal
from circadia.stores.base import Tx
from circadia.stores.nul_check import NUL, holds_nul
from circadia.suggestions import closest

_SHOWN_KEY: Final = 80
_MAX_REPORTED_ERRORS: Final = 5


Names = Annotated[list[Name], FirstMistake()]


def _in_document(**schema: object) -> WithJsonSchema:
    """Return what the OpenAPI document says of a text whose rule is checked behind the entrances."""
    return WithJsonSchema({"type": "string", **schema})


AgentName = Annotated[Name, _in_document(pattern=f"^{NAME.pattern}$")]
SessionName = Annotated[Name, _in_document(pattern=f"^({NAME.pattern})?$")]
"""An empty one is generated."""
BankName = Annotated[Name, _in_document(pattern=f"^{BANK_NAME.pattern}$")]
ThreadName = Annotated[str, _in_document(minLength=1, maxLength=200)]
Content = Annotated[str, _in_document(minLength=1)]


class Body(BaseModel):
    """A request body. An unknown key is an error that suggests the nearest known key; so is a NUL in a text."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    bears_nul: ClassVar[bool] = False
    """Whether the server later removes NULs from the texts, for programs that would lose too much by an error."""

    @model_validator(mode="before")
    @classmethod
    def _keys_are_known(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if not cls.bears_nul and holds_nul(cast("dict[str, object]", value)):
            raise PydanticCustomError("nul", "{message}", {"message": NUL})
        keys = [str(key) for key in cast("dict[object, object]", value)]
        known = {field.alias or name for name, field in cls.model_fields.items()}
        unknown = [key for key in keys if key not in known]
        if unknown:
            first_unknown = [key[:_SHOWN_KEY] for key in unknown[:_MAX_REPORTED_ERRORS]]
            message = ", ".join(f"unknown key {key!r}{_near(key, known)}" for key in first_unknown)
            if not all(_near(key, known) for key in first_unknown):  # once: an agent's policy has fifty
                message += f"; known keys: {', '.join(sorted(known))}"
            raise PydanticCustomError("unknown_key", "{message}", {"message": message})
        return cast("dict[str, Any]", value)


def drop_defaults(schema: dict[str, Any]) -> None:
    """Remove the defaults from the schema of a body whose missing keys mean something else."""
    for key in schema["properties"].values():
        key.pop("default", None)


def _near(key: str, known: set[str]) -> str:
    near = closest(key, known, count=1)
    return f"; did you mean {near[0]!r}?" if near else ""


async def named_agent(tx: Tx, principal: Principal, reference: str) -> Agent:
    """Return the agent with the reference `name` (in the caller's session) or `session:name`.

    Raises:
        NotFound: there is none; the message suggests names. Forbidden: its session is not granted.
    """
    return await find_agent_by_reference(tx, principal, await find_own_session(tx, principal), reference)


async def own_agent(tx: Tx, principal: Principal, reference: str) -> Agent:
    """Return the agent if the caller is the operator or the agent itself.

    Raises:
        NotFound: there is none. Forbidden: the caller is another agent.
    """
    agent = await named_agent(tx, principal, reference)
    require_own(principal, agent)
    return agent


def require_own(principal: Principal, agent: Agent) -> None:
    """Raise Forbidden unless the caller is the operator or the agent itself."""
    if not principal.is_operator and (principal.agent is None or principal.agent.id != agent.id):
        raise Forbidden(
            f"{principal.name!r} may not look into the affairs of {agent.reference!r}; use its own token, or the "
            "operator's"
        )


def require_enabled(agent: Agent) -> None:
    """Raise Conflict if the agent is disabled."""
    if not agent.enabled:
        raise Conflict(f"{agent.reference!r} is disabled; the operator can enable it")


def _instant(value: Any) -> Any:
    """Parse a date or a time; without a time zone it is UTC."""
    if not isinstance(value, str):
        return value
    try:
        instant = datetime.fromisoformat(value.strip().replace(" ", "+"))  # a bare + in a query is a space
        aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
        return aware.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError("write a date or a time as in 2026-01-31 or 2026-01-31T12:00:00Z") from error


Instant = Annotated[datetime | None, BeforeValidator(_instant)]


_LATEST_EVENTS: Final = 100
"""Maximum number of events in which to look for the author of the last change."""

TAGGED: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "headers": {
            "ETag": {
                "description": "Tag of the settings; send it as `If-Match` with a change.",
                "schema": {"type": "string"},
            }
        }
    }
}
"""What the document says of an answer with a tag."""

IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        description="`ETag` that you have read; if the settings have changed since, the call fails with 412.",
    ),
]


def entity_tag(*settings: object) -> str:
    """Return the tag of settings: equal settings have equal tags, at every server."""
    content = orjson.dumps(to_jsonable_python(settings), option=orjson.OPT_SORT_KEYS)
    return f'"{blake2b(content, digest_size=12).hexdigest()}"'


def set_etag(response: Response, tag: str) -> None:
    response.headers["ETag"] = tag


async def require_match(
    tx: Tx,
    if_match: str | None,
    tag: str,
    what: str,
    *,
    agent: Agent | None = None,
    changes: Collection[EventType] = (),
) -> None:
    """Require that the settings have the tag that the caller has read, if it sent one.

    Call it in the write block that changes them, after the block holds their agent or bank: of two callers with the
    same tag, one then fails. `changes` are the kinds of events that name who changed the settings of the agent. A tag
    may be marked as weak, as a proxy does that compresses answers: it names settings, not bytes.

    Raises:
        PreconditionFailed: they have changed.
    """
    if if_match is None or if_match.strip() == "*":
        return
    if tag in (each.strip().removeprefix("W/") for each in if_match.split(",")):
        return
    author = await _find_last_author(tx, agent, changes) if agent is not None and changes else None
    by = f", last by {author!r}" if author else ""
    raise PreconditionFailed(f"{what} changed after you read it{by}: read it again, then write")


async def _find_last_author(tx: Tx, agent: Agent, changes: Collection[EventType]) -> object:
    events = await tx.events.find_newest(limit=_LATEST_EVENTS, session=agent.session, agent=agent.name, types=changes)
    authors = (event.data.get("by") or event.data.get("changed_by") for event in events)
    return next(filter(None, authors), None)
