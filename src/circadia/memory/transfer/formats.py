"""Detect the format of a file, and convert it to lines of an import (MEM-16).

The plain format is JSON Lines of `{"at": …, "speaker": …, "text": …, "session": …}`. Its speakers `assistant`, `tool`
and `program` have the trust of an agent or a tool; each other speaker is a person.
"""

import hashlib
import zipfile
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from circadia.errors import InvalidRequest, TooLarge
from circadia.memory.transfer.chat_exports import find_conversations, read_conversations
from circadia.memory.transfer.chroma import is_chroma, read_chroma
from circadia.memory.transfer.claude_code import read_claude_code_line
from circadia.memory.transfer.codex import LINE_KINDS, read_codex_line
from circadia.memory.transfer.import_format import ImportFormat
from circadia.memory.transfer.letta import load_letta, read_letta_blocks, read_letta_turns
from circadia.memory.transfer.lines import head_line, new_episode_line
from circadia.memory.transfer.memory_exports import (
    ReadEntry,
    langmem_entries,
    mem0_entries,
    openmemory_entries,
    openmemory_reader,
    read_entries,
    read_langmem_item,
    read_mem0_memory,
)
from circadia.memory.transfer.openclaw import (
    DATABASE,
    DAY,
    list_database_sessions,
    read_database_lines,
    read_openclaw_line,
    read_openclaw_notes,
)
from circadia.memory.transfer.transcripts import (
    LineReader,
    Speaker,
    TranscriptFacts,
    TranscriptTurn,
    as_mapping,
    as_name,
    parse_time,
    read_episodes,
    read_transcript,
    user_text,
)
from circadia.records.episode import EpisodeKind

_SPEAKERS: Final[Mapping[str, Speaker]] = {speaker.value: speaker for speaker in Speaker}
LONGEST_LINE: Final = 64 * 2**20
"""Bytes of a transcript line, which may contain pictures; a mem0 or LangMem document may have four times as many."""
_DETECTION_LINES: Final = 20
_ZIP: Final = b"PK\3\4"
_PARTS: Final = ("conversations.json", "memories.json")
"""What is read of a zip file: of the data exports of ChatGPT and claude.ai, or of OpenMemory's backup."""
_CLAUDE_CODE_KEYS: Final = frozenset({"sessionId", "uuid", "leafUuid"})
"""Each line of a transcript of Claude Code has one of these keys."""
_LONGEST_OWN_LINE: Final = 900_000
"""Bytes of a line of our own format, which must fit into a call."""


def read_plain_line(line: Mapping[str, Any], number: int, facts: TranscriptFacts) -> Iterator[TranscriptTurn]:
    """Yield the turn of a line. Raises InvalidRequest: its text is not text, or its time cannot be read."""
    if "text" not in line or "speaker" not in line:
        facts.unknown_lines += 1
        return
    name, text = as_name(line["speaker"]), line["text"]
    if name is None or not isinstance(text, str):
        raise InvalidRequest(f"line {number}: `speaker` and `text` must be texts, and `speaker` not empty")
    speaker = _SPEAKERS.get(name, Speaker.PERSON)
    session = as_name(line.get("session")) or facts.session
    parts = (session, name, str(line.get("at")), text)
    if spoken := user_text(text):
        yield TranscriptTurn(
            line=number,
            speaker=speaker,
            text=spoken,
            at=parse_time(line.get("at"), number),
            conversation=session,
            key="plain:" + hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:40],
            kind=EpisodeKind.TOOL if speaker is Speaker.TOOL else EpisodeKind.TURN,
            name=name,
        )


_LINE_READERS: Final[Mapping[ImportFormat, LineReader]] = {
    ImportFormat.CLAUDE_CODE: read_claude_code_line,
    ImportFormat.CODEX: read_codex_line,
    ImportFormat.OPENCLAW: read_openclaw_line,
    ImportFormat.PLAIN: read_plain_line,
}


def detect_format(file: Path) -> ImportFormat:
    """Return the format of a file by its first lines. Raises InvalidRequest: it is unknown or unreadable."""
    if file.name == DATABASE:
        return ImportFormat.OPENCLAW
    if is_chroma(file):
        return ImportFormat.CHROMA
    for line in _first_lines(file):
        if line.get("type") in ("bank", "episode", "note", "block"):
            return ImportFormat.JSONL
    transcript = detect_transcript(file)
    if transcript is not None:
        return transcript
    try:
        document = _load_document(file)
    except InvalidRequest:
        document = None
    if mem0_entries(document) is not None or as_mapping(document).get("results") == []:  # its empty answer
        return ImportFormat.MEM0
    if openmemory_entries(document) is not None:
        return ImportFormat.OPENMEMORY
    if load_letta(document) is not None:
        return ImportFormat.LETTA
    if langmem_entries(document) is not None:
        return ImportFormat.LANGMEM
    if (chats := find_conversations(document)) is not None:
        return chats[0]
    raise InvalidRequest(f"{str(file)!r} is in no known format; name its format with --format")


def detect_transcript(file: Path) -> ImportFormat | None:
    """Return the format of a transcript by its first lines, None if it is none. Raises InvalidRequest: unreadable."""
    for line in _first_lines(file):
        if not _CLAUDE_CODE_KEYS.isdisjoint(line):
            return ImportFormat.CLAUDE_CODE
        if "payload" in line and line.get("type") in LINE_KINDS:
            return ImportFormat.CODEX
        if line.get("type") == "session" and "id" in line:
            return ImportFormat.OPENCLAW
        if "type" not in line and "speaker" in line and "text" in line:
            return ImportFormat.PLAIN
    return ImportFormat.OPENCLAW if is_daily_note(file) else None


def is_daily_note(file: Path) -> bool:
    return file.suffix.lower() == ".md" and DAY.fullmatch(file.stem) is not None


def read_turns(
    file: Path, kind: ImportFormat, lines: Iterable[tuple[int, bytes]], facts: TranscriptFacts
) -> Iterator[TranscriptTurn]:
    """Yield the turns in a transcript's numbered lines; malformed lines are counted."""
    if kind is ImportFormat.OPENCLAW and is_daily_note(file):
        return read_openclaw_notes(lines, facts)
    return read_transcript(lines, _LINE_READERS[kind], facts)


def import_lines(
    file: Path, kind: ImportFormat, bank: str, *, person: str, tools: bool, saw: Callable[[int], None],
    facts: TranscriptFacts | None = None,
) -> Iterator[bytes]:  # fmt: skip
    """Yield the import lines of a file; `saw` receives the number of bytes read for the next line.

    Lines of our own format are passed through, including empty ones. `person` and `tools` are for transcripts: the
    person's name, and whether to include tool calls and results; `facts` receives the number of unknown lines, and of
    those that cannot be read. An export of Circadia is whole or an error.

    Raises:
        InvalidRequest, TooLarge: the file cannot be read, or a line is too long.
    """
    if kind is ImportFormat.JSONL:
        yield from (line for _, line in _read_lines(file, _LONGEST_OWN_LINE, saw))
        return
    yield head_line(bank)
    facts = facts or TranscriptFacts.from_name(file)
    spoken = partial(read_episodes, source=kind, person=person, tools=tools)
    match kind:
        case ImportFormat.CHROMA:
            yield from map(new_episode_line, read_chroma(file, facts, saw))
        case ImportFormat.OPENCLAW if file.name == DATABASE:
            for facts.session, _, _ in list_database_sessions(file):
                turns = read_turns(file, kind, read_database_lines(file, facts.session), facts)
                yield from map(new_episode_line, spoken(turns))
            saw(file.stat().st_size)
        case ImportFormat.CLAUDE_CODE | ImportFormat.CODEX | ImportFormat.OPENCLAW | ImportFormat.PLAIN:
            lines = _read_lines(file, LONGEST_LINE, saw)
            yield from map(new_episode_line, spoken(read_turns(file, kind, lines, facts)))
        case ImportFormat.LETTA:
            agents = load_letta(_load_document(file, saw))
            if agents is None:
                raise _not_an_export(file, kind)
            yield from map(new_episode_line, spoken(read_letta_turns(agents, facts)))
            yield from read_letta_blocks(agents, facts)
        case _:
            entries, read = _find_entries(file, kind, _load_document(file, saw))
            read_all = (
                spoken(read_conversations(entries, kind, facts))
                if read is None
                else (read_entries(entries, read, facts))
            )
            yield from map(new_episode_line, read_all)


def _find_entries(file: Path, kind: ImportFormat, document: object) -> tuple[Sequence[object], ReadEntry | None]:
    """Return the entries of a document, and what reads one; None for conversations, which are read as a whole.

    Raises:
        InvalidRequest: the document is of another format.
    """
    read: ReadEntry | None = None
    match kind:
        case ImportFormat.MEM0:
            entries, read = mem0_entries(document), read_mem0_memory
        case ImportFormat.OPENMEMORY:
            entries, read = openmemory_entries(document), openmemory_reader(document)
        case ImportFormat.LANGMEM:
            entries, read = langmem_entries(document), read_langmem_item
        case _:
            found = find_conversations(document)
            entries = None if found is None or found[0] is not kind else found[1]
    if entries is None and [] not in (document, as_mapping(document).get("results"), as_mapping(document).get("items")):
        raise _not_an_export(file, kind)
    return entries or [], read


def _not_an_export(file: Path, kind: ImportFormat) -> InvalidRequest:
    return InvalidRequest(f"{str(file)!r} is not an export of {kind}")


def _first_lines(file: Path) -> Iterator[Mapping[str, object]]:
    """Yield the JSON objects among the first lines; transcripts begin with lines of many kinds."""
    with open_utf8(file) as opened:
        for _ in range(_DETECTION_LINES):
            try:
                yield as_mapping(orjson.loads(opened.readline(LONGEST_LINE)))
            except ValueError:
                continue


def _read_lines(file: Path, longest: int, saw: Callable[[int], None]) -> Iterator[tuple[int, bytes]]:
    with open_utf8(file) as opened:
        number = 0
        while line := opened.readline(longest + 1):
            number += 1
            if len(line) > longest:
                raise TooLarge(f"line {number} has more than {longest} bytes")
            saw(len(line))
            yield number, line


def _load_document(file: Path, saw: Callable[[int], None] | None = None) -> object:
    with open_utf8(file) as opened:
        raw = opened.read(4 * LONGEST_LINE + 1)
    if len(raw) > 4 * LONGEST_LINE:
        raise TooLarge(f"{str(file)!r} has more than {4 * LONGEST_LINE} bytes; split it")
    if saw is not None:
        saw(file.stat().st_size)  # of a zip file, more was read than it has
    try:
        return orjson.loads(raw)
    except ValueError as error:
        raise InvalidRequest(f"{str(file)!r} is not JSON in UTF-8: {error}") from error


class _Recoded:
    """A file in another encoding, read as UTF-8."""

    def __init__(self, opened: BinaryIO, encoding: str) -> None:
        self._text = TextIOWrapper(opened, encoding, errors="replace", newline="\n")

    def __enter__(self) -> "_Recoded":
        return self

    def __exit__(self, *_: object) -> None:
        self._text.close()

    def readline(self, size: int) -> bytes:
        return self._text.readline(size).encode(errors="replace")

    def read(self, size: int) -> bytes:
        return self._text.read(size).encode(errors="replace")


def open_utf8(file: Path) -> BinaryIO | _Recoded:
    """Open a file that is read as UTF-8 without a mark, whatever it begins with. Raises InvalidRequest: it cannot be.

    UTF-16 is what some shells of Windows write; without a mark it shows in the zeros beside ASCII (RFC 4627, 3).
    """
    try:
        opened = file.open("rb")
        first = opened.read(4)
        opened.seek(len(BOM_UTF8) if first.startswith(BOM_UTF8) else 0)
    except OSError as error:
        raise InvalidRequest(f"cannot read {str(file)!r}: {error.strerror or error}") from error
    if first.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return _Recoded(opened, "utf-16")
    if first == _ZIP:
        opened.close()
        return _open_in_zip(file)
    if len(first) == 4 and 0 in first:
        return _Recoded(opened, "utf-16-le" if first[1] == 0 else "utf-16-be")
    return opened


def _open_in_zip(file: Path) -> BinaryIO:
    """Open the part of a zip file that is an export. Raises InvalidRequest: it has none, or is damaged."""
    try:
        with zipfile.ZipFile(file) as archive:
            places = {Path(name).name: name for name in reversed(archive.namelist())}
            place = next((places[part] for part in _PARTS if part in places), None)
            if place is None:
                raise InvalidRequest(f"{str(file)!r} has none of {', '.join(_PARTS)}; unpack it and name a file in it")
            with archive.open(place) as part:
                return BytesIO(part.read(4 * LONGEST_LINE + 1))
    except (zipfile.BadZipFile, zlib.error, OSError, RuntimeError, NotImplementedError) as error:
        raise InvalidRequest(f"{str(file)!r} cannot be unpacked: {error}") from error
