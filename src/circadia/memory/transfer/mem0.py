"""Exports of mem0: what `get_all` returns, as JSON (MEM-16)."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from circadia.errors import InvalidRequest
from circadia.memory.episodes import NewEpisode
from circadia.memory.redaction import redact
from circadia.memory.transfer.reading import as_list, as_mapping, as_name, parse_time, split_text
from circadia.records.bank import Trust
from circadia.records.episode import EpisodeKind


def mem0_entries(document: object) -> Sequence[object] | None:
    """Return the memories of a document: `{"results": […]}`, or the list alone; none if it is none of mem0."""
    entries = as_list(document) or as_list(as_mapping(document).get("results"))
    return entries if entries and "memory" in as_mapping(entries[0]) else None


def read_mem0(entries: Sequence[object]) -> Iterator[NewEpisode]:
    """Yield the memories as facts; a model of mem0 has worded them, so they are trusted like an agent.

    A memory that mem0 has changed since the last import is another fact.

    Raises:
        InvalidRequest: an entry is no memory, with its place.
    """
    for number, each in enumerate(entries, 1):
        entry = as_mapping(each)
        text, identity = entry.get("memory"), entry.get("id")
        if not isinstance(text, str) or not isinstance(identity, str):
            raise InvalidRequest(f"entry {number} is no memory of mem0: it has no `id` or no `memory`")
        at = parse_time(entry.get("updated_at") or entry.get("created_at"), number)
        for part in split_text(redact(text)):
            digest = hashlib.sha256(f"{identity} {part}".encode("utf-8", "surrogatepass")).hexdigest()
            yield NewEpisode(
                text=part,
                speaker=as_name(entry.get("user_id")) or as_name(entry.get("agent_id")) or "mem0",
                trust=Trust.AGENT,
                at=at,
                kind=EpisodeKind.FACT,
                session=as_name(entry.get("run_id")),
                metadata={"source": "mem0", "mem0_id": identity[:200], **_extra_metadata(entry)},
                key=f"mem0:{digest[:40]}",
            )


def _extra_metadata(entry: Mapping[str, Any]) -> dict[str, object]:
    """Return what mem0 knows besides, as far as there is room for it."""
    given = {"mem0": entry.get("metadata"), "categories": entry.get("categories")}
    return {key: value for key, value in given.items() if value and len(str(value)) <= 4_000}
