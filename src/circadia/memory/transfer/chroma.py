"""A folder of Chroma's persistent client: the documents in its `chroma.sqlite3`, with their metadata (MEM-40).

Chroma may go on writing. The file is opened for reading alone, and in pages, between which a writer finds no lock.
Where a document came from is not known, so its trust is `external`.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from circadia.errors import InvalidRequest
from circadia.memory.episodes import NewEpisode
from circadia.memory.transfer.memory_exports import build_facts, merge_metadata
from circadia.memory.transfer.transcripts import TranscriptFacts, as_name, parse_time
from circadia.records.bank import Trust

_BEGINS: Final = b"SQLite format 3\0"
_PAGE: Final = 500
"""Rows read at once."""
_DOCUMENT: Final = "chroma:document"
"""Key of the metadata under which Chroma keeps the text."""
_ENTRIES: Final = """
SELECT e.id, e.embedding_id, e.created_at, c.name AS collection FROM embeddings e
JOIN segments s ON s.id = e.segment_id JOIN collections c ON c.id = s.collection
WHERE e.id > ? ORDER BY e.id LIMIT ?
"""
_METADATA: Final = "SELECT * FROM embedding_metadata WHERE id BETWEEN ? AND ?"
_LISTS: Final = "SELECT * FROM embedding_metadata_array WHERE id BETWEEN ? AND ? ORDER BY rowid"
"""Of Chroma 1.5 and later."""


def is_chroma(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(len(_BEGINS)) == _BEGINS
    except OSError:
        return False


def read_chroma(file: Path, facts: TranscriptFacts, saw: Callable[[int], None]) -> Iterator[NewEpisode]:
    """Yield the documents of all collections as facts; entries without one are counted as of an unknown kind.

    Raises:
        InvalidRequest: the file cannot be read, or is no database of Chroma.
    """
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            database.text_factory = _decode
            last: int = database.execute("SELECT max(id) FROM embeddings").fetchone()[0] or 0
            size, read_bytes = file.stat().st_size, 0
            for page in _read_pages(database):
                for entry, metadata in page:
                    yield from _read_entry(entry, metadata, facts)
                share = min(page[-1][0]["id"] / max(last, 1), 1.0)
                saw(int(size * share) - read_bytes)
                read_bytes = int(size * share)
            saw(size - read_bytes)
    except sqlite3.Error as error:
        raise InvalidRequest(f"{str(file)!r} cannot be read as a database of Chroma: {error}") from error


def _read_pages(database: sqlite3.Connection) -> Iterator[Sequence[tuple[sqlite3.Row, Mapping[str, object]]]]:
    has_lists = bool(database.execute("PRAGMA table_info(embedding_metadata_array)").fetchall())
    after = 0
    while entries := database.execute(_ENTRIES, (after, _PAGE)).fetchall():
        first, after = entries[0]["id"], entries[-1]["id"]
        metadata: dict[int, dict[str, Any]] = {}
        for row in database.execute(_METADATA, (first, after)).fetchall():
            metadata.setdefault(row["id"], {})[row["key"]] = _read_value(row)
        for row in database.execute(_LISTS, (first, after)).fetchall() if has_lists else ():
            metadata.setdefault(row["id"], {}).setdefault(row["key"], []).append(_read_value(row))
        yield [(entry, metadata.get(entry["id"], {})) for entry in entries]


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _read_value(row: sqlite3.Row) -> object:
    values: dict[str, Any] = dict(row)
    flag = values.get("bool_value")  # which the oldest files lack
    if flag is not None:
        return bool(flag)
    kinds = ("string_value", "int_value", "float_value")
    return next((values[kind] for kind in kinds if values[kind] is not None), None)


def _read_entry(entry: sqlite3.Row, metadata: Mapping[str, object], facts: TranscriptFacts) -> Iterator[NewEpisode]:
    text, collection, identity = metadata.get(_DOCUMENT), str(entry["collection"]), str(entry["embedding_id"])
    if text is None:
        facts.unknown_lines += 1
        return
    try:
        if not isinstance(text, str):
            raise InvalidRequest(f"the document of entry {identity!r} is no text")
        at = parse_time(entry["created_at"], entry["id"])
    except InvalidRequest:
        facts.count_broken(f"{collection}: {identity}")
        return
    yield from build_facts(
        "chroma", text, f"{collection}\0{identity}\0", trust=Trust.EXTERNAL, speaker=as_name(collection) or "chroma",
        at=at, metadata=merge_metadata(
            {"source": "chroma", "collection": collection[:200], "item": identity[:200]},
            {name: value for name, value in metadata.items() if name != _DOCUMENT},
        ),
    )  # fmt: skip
