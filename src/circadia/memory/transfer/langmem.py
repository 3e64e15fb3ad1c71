"""Exports of LangMem: items of a LangGraph store, as their `dict()` in JSON (MEM-16)."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from circadia.errors import InvalidRequest
from circadia.memory.episodes import NewEpisode
from circadia.memory.redaction import redact
from circadia.memory.transfer.reading import as_list, as_mapping, as_name, parse_time, split_text
from circadia.records.bank import Trust
from circadia.records.episode import EpisodeKind


def langmem_entries(document: object) -> Sequence[object] | None:
    """Return the items of a document: a list, or `{"items": […]}` as its REST API answers; none if there are none."""
    entries = as_list(document) or as_list(as_mapping(document).get("items"))
    first = as_mapping(entries[0] if entries else None)
    return entries if "namespace" in first and "key" in first and "value" in first else None


def read_langmem(entries: Sequence[object]) -> Iterator[NewEpisode]:
    """Yield the items as facts; a model has worded them, so they are trusted like an agent.

    An item that was changed since the last import is another fact.

    Raises:
        InvalidRequest: an entry is no item, with its place.
    """
    for number, each in enumerate(entries, 1):
        item = as_mapping(each)
        value, key = item.get("value"), item.get("key")
        if not isinstance(value, dict) or not isinstance(key, str):
            raise InvalidRequest(f"entry {number} is no item of a store: it has no `key` or no `value`")
        namespace = [str(part) for part in as_list(item.get("namespace"))]
        at = parse_time(item.get("updated_at") or item.get("created_at"), number)
        for part in split_text(redact(_item_text(as_mapping(item["value"])))):
            digest = hashlib.sha256("\0".join((*namespace, key, part)).encode("utf-8", "surrogatepass")).hexdigest()
            yield NewEpisode(
                text=part,
                speaker=(as_name(namespace[-1]) if namespace else None) or "langmem",  # LangMem puts the user last
                trust=Trust.AGENT,
                at=at,
                kind=EpisodeKind.FACT,
                metadata={"source": "langmem", "namespace": "/".join(namespace)[:1000], "item": key[:200]},
                key=f"langmem:{digest[:40]}",
            )


def _item_text(value: Mapping[str, Any]) -> str:
    """Return what an item says: LangMem nests it as `content`, once or twice; of other items, their JSON."""
    content: object = value.get("content", value)
    inner = as_mapping(content).get("content", content)
    return inner if isinstance(inner, str) else orjson.dumps(inner, default=str).decode()
