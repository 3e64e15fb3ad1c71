"""Entity tags (RFC 9110, section 8.8.3): a change of settings can require that they are as the caller has read them."""

from collections.abc import Collection
from hashlib import blake2b
from typing import Annotated, Any, Final

import orjson
from fastapi import Header, Response
from pydantic_core import to_jsonable_python

from circadia.errors import PreconditionFailed
from circadia.records.agent import Agent
from circadia.records.event import EventType
from circadia.stores.base import Tx

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
