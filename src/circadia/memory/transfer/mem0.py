"""Exports of mem0: what `get_all` returns, as JSON (MEM-16)."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from circadia.errors import InvalidRequest
from circadia.memory.episodes import NewEpisode
from circadia.memory.redaction import redacted
from circadia.memory.transfer.reading import listed, mapping, moment, name, parts_of
from circadia.records.bank import Trust
from circadia.records.episode import EpisodeKind


def mem0_entries(document: object) -> Sequence[object] | None:
    """Return the memories of a document: `{"results": […]}`, or the list alone; none if it is none of mem0."""
    entries = listed(document) or listed(mapping(document).get("results"))
    return entries if entries and "memory" in mapping(entries[0]) else None


def read_mem0(entries: Sequence[object]) -> Iterator[NewEpisode]:
    """Yield the memories as facts; a model of mem0 has worded them, so they are trusted like an agent.

    A memory that mem0 has changed since the last import is another fact.

    Raises:
        InvalidRequest: an entry is no memory, with its place.
    """
    for number, each in enumerate(entries, 1):
        entry = mapping(each)
        text, identity = entry.get("memory"), entry.get("id")
        if not isinstance(text, str) or not isinstance(identity, str):
            raise InvalidRequest(f"entry {number} is no memory of mem0: it has no `id` or no `memory`")
        at = moment(entry.get("updated_at") or entry.get("created_at"), number)
        for part in parts_of(redacted(text)):
            digest = hashlib.sha256(f"{identity} {part}".encode("utf-8", "surrogatepass")).hexdigest()
            yield NewEpisode(
                text=part,
                speaker=name(entry.get("user_id")) or name(entry.get("agent_id")) or "mem0",
                trust=Trust.AGENT,
                at=at,
                kind=EpisodeKind.FACT,
                session=name(entry.get("run_id")),
                metadata={"source": "mem0", "mem0_id": identity[:200], **_more(entry)},
                key=f"mem0:{digest[:40]}",
            )


def _more(entry: Mapping[str, Any]) -> dict[str, object]:
    """Return what mem0 knows besides, as far as there is room for it."""
    given = {"mem0": entry.get("metadata"), "categories": entry.get("categories")}
    return {key: value for key, value in given.items() if value and len(str(value)) <= 4_000}
