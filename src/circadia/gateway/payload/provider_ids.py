"""Where ids of files, batches, caches, vector stores and containers stand in requests and answers: a table per API.

One provider key serves all agents, so such an id belongs to the agent that received it (GATE-60, GATE-99).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple, cast
from urllib.parse import unquote

Api = Literal["openai", "anthropic", "gemini"]


class IdMembers(NamedTuple):
    asked: frozenset[str]
    """Members of a request, at any depth, that hold an id or a list of ids."""
    marks: tuple[bytes, ...]
    """What a body must contain if it has one of them; an escape may hide a name."""
    issued: tuple[str, ...]
    """Members of an answer to a call that generates nothing, or of its `file`, that hold new ids."""


ID_MEMBERS: Final[Mapping[Api, IdMembers]] = {
    "openai": IdMembers(
        frozenset({
            "batch_id", "container", "container_id", "file_id", "file_ids", "input_file_id", "training_file",
            "validation_file", "vector_store_id", "vector_store_ids",
        }),
        (b"file_id", b"vector_store_id", b'"container', rb"\u00"),
        ("id", "output_file_id", "error_file_id", "result_files"),
    ),
    "anthropic": IdMembers(frozenset({"container", "file_id"}), (b"file_id", b'"container', rb"\u00"), ("id",)),
    "gemini": IdMembers(
        frozenset({
            "cachedContent", "cached_content", "fileUri", "file_uri", "fileName", "file_name", "fileSearchStoreNames",
            "file_search_store_names",
        }),
        (b'"cached', b'"file', rb"\u00"),
        ("name", "responsesFile"),
    ),
}  # fmt: skip
_OPAQUE: Final = frozenset({
    "args", "attributes", "input_schema", "json_schema", "metadata", "parameters", "response", "responseSchema",
    "schema",
})  # fmt: skip
"""Members whose content is the caller's own: schemas, arguments and results of its tools, labels."""
_GOOGLE: Final = re.compile(r"\b(?:files|cachedContents|batches|fileSearchStores|operations)/([^/?#:]+)")
"""Google's names and addresses; a path knows the last part alone."""


def asked_ids(api: Api, request: object, body: bytes | None = None) -> tuple[str, ...]:
    """Return the ids that a request refers to; its `body` spares the search in one that has none."""
    members = ID_MEMBERS[api]
    if body is not None and not any(mark in body for mark in members.marks):
        return ()
    return tuple(_own_names(api, find_ids(request, members.asked)))


def issued_ids(api: Api, answer: Mapping[str, object]) -> list[str]:
    """Return the ids that the answer to a call that generates nothing hands out."""
    found: list[object] = []
    for holder in (answer, answer.get("file"), answer.get("response")):
        if isinstance(holder, dict):
            found += [cast("dict[str, object]", holder).get(name) for name in ID_MEMBERS[api].issued]
    return list(_own_names(api, _texts(found)))


def find_ids(value: object, names: frozenset[str]) -> Iterator[str]:
    """Yield the texts that members with these names hold, at any depth but within what is the caller's own."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += cast("list[object]", each)
        elif isinstance(each, dict):
            members = cast("dict[str, object]", each)
            for name, inner in members.items():
                if name in names and isinstance(inner, dict):  # a container as an object
                    yield from _texts([cast("dict[str, object]", inner).get("id")])
                elif name in names:
                    yield from _texts(cast("list[object]", inner) if isinstance(inner, list) else [inner])
                if name not in _OPAQUE and not (name == "input" and isinstance(inner, dict)):
                    waiting.append(members[name])


def _texts(values: Iterable[object]) -> Iterator[str]:
    for value in values:
        if isinstance(value, list):
            yield from _texts(cast("list[object]", value))
        elif isinstance(value, str) and value:
            yield value


def _own_names(api: Api, ids: Iterable[str]) -> Iterator[str]:
    """Yield each id as its owner is recorded. Of Google's, an object in a bucket is no file of the API."""
    for each in ids:
        if api != "gemini":
            yield each
        elif not each.startswith("gs://"):
            yield from _GOOGLE.findall(unquote(each))
