"""The export format: JSON Lines, each with its `type`, and its writer (MEM-16).

The first line is the bank, the last line counts the lines before it. Vectors and word hashes are left out, since the
importing server computes them.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self, cast, get_args

import orjson
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from circadia.errors import InvalidRequest
from circadia.memory.episodes import NewEpisode
from circadia.records.bank import Bank, BankPolicy, Trust
from circadia.records.block import Block
from circadia.records.conversation import MAX_NAME_LENGTH, shorten_name
from circadia.records.episode import Episode, EpisodeKind
from circadia.records.note import Note, NoteKind
from circadia.stores.base import Tx

VERSION: Final = 1
"""The version that is written, and the only one that is read."""
_ID: Final = r"^[A-Za-z0-9_-]{1,80}$"
_MAX_SOURCES: Final = 10_000

Id = Annotated[str, Field(pattern=_ID)]
Share = Annotated[float, Field(ge=0, le=1)]
READ_AT_ONCE: Final = 500


def _bounded_name(name: str | None) -> str | None:
    """Return an end user's name, shortened if the export was edited by hand; exports have bounded names."""
    return name if name is None or len(name) <= MAX_NAME_LENGTH else shorten_name(name)


EndUser = Annotated[str | None, Field(max_length=1000), AfterValidator(_bounded_name)]


class ExportLine(BaseModel):
    """One line. An unknown key is an error, so that nothing is dropped silently."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class PolicyPart(BankPolicy, ExportLine):
    """The bank's policy."""


class BankLine(ExportLine):
    """The first line: the bank, in case it must be created."""

    type: Literal["bank"]
    version: int
    name: str | None = None
    description: str = Field("", max_length=4000)
    template: str | None = Field(None, max_length=200)
    end_user: EndUser = None
    policy: PolicyPart = PolicyPart()
    exported_at: AwareDatetime | None = None


class StalePart(ExportLine):
    by: str = Field(max_length=1000)
    reason: str = Field(max_length=10_000)
    evidence: str = Field(max_length=1000)
    at: AwareDatetime
    weight: float = Field(gt=0, le=1)
    valid_to: AwareDatetime | None = None


class EpisodeLine(ExportLine):
    """An episode; without `id` and `key`, its conversation, speaker, time and text identify it."""

    type: Literal["episode"]
    id: Id | None = None
    at: AwareDatetime | None = None
    speaker: str
    text: str
    trust: Trust = Trust.EXTERNAL
    kind: EpisodeKind = EpisodeKind.TURN
    conversation: str | None = None
    importance: float | None = None
    metadata: dict[str, Any] = {}
    incomplete: bool = False
    key: str | None = None
    expires_at: AwareDatetime | None = None
    repeats: int = Field(0, ge=0, le=2**31 - 1)
    stale: Annotated[list[StalePart], Field(max_length=1000)] = []


class NoteLine(ExportLine):
    type: Literal["note"]
    id: Id
    kind: NoteKind
    at: AwareDatetime
    text: str
    trust: Trust
    importance: Share | None = None
    evidence: Annotated[list[Id], Field(min_length=1, max_length=_MAX_SOURCES)]
    pass_id: str | None = Field(None, max_length=200)
    created_at: AwareDatetime
    retired_at: AwareDatetime | None = None
    valid_to: AwareDatetime | None = None
    used_at: AwareDatetime | None = None

    @model_validator(mode="after")
    def _require_retired(self) -> Self:
        if self.valid_to is not None and self.retired_at is None:
            raise ValueError("a note with `valid_to` needs `retired_at`, too")
        return self


class SpanPart(ExportLine):
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    episodes: Annotated[list[Id], Field(max_length=_MAX_SOURCES)]


class BlockLine(ExportLine):
    """A version of a block; without `version` and `at`, what the block says now, unless it has said so before."""

    type: Literal["block"]
    label: str
    version: int | None = Field(None, ge=1, le=2**31 - 1)
    parent: int | None = None
    value: str
    description: str = Field("", max_length=10_000)
    limit: int
    pinned: bool = True
    read_only: bool = False
    deleted: bool = False
    spans: Annotated[list[SpanPart], Field(max_length=_MAX_SOURCES)] = []
    by: str = Field(max_length=1000)
    why: str = Field("", max_length=10_000)
    at: AwareDatetime | None = None

    @model_validator(mode="after")
    def _require_whole_version(self) -> Self:
        has_version = self.version is not None
        if {has_version, "parent" in self.model_fields_set, self.at is not None} != {has_version}:
            raise ValueError("`version`, `parent` and `at` belong together")
        return self


class EndLine(ExportLine):
    """The last line; a file without it is incomplete."""

    type: Literal["end"]
    lines: int = Field(ge=0)


AnyLine = BankLine | EpisodeLine | NoteLine | BlockLine | EndLine
_ANY: Final[TypeAdapter[AnyLine]] = TypeAdapter(Annotated[AnyLine, Field(discriminator="type")])


def read_line(raw: bytes, number: int) -> AnyLine:
    """Parse one line. Raises InvalidRequest: it does not fit the format; the message names its number."""
    try:
        parsed: Any = orjson.loads(raw)
    except ValueError as error:
        raise InvalidRequest(f"line {number} is not JSON in UTF-8: {error}") from error
    entry = cast("dict[str, object]", parsed) if isinstance(parsed, dict) else {}
    if entry.get("type") == "bank" and entry.get("version") != VERSION:
        version = repr(entry.get("version"))[:40]
        raise InvalidRequest(
            f"line {number}: the file has version {version} of the format; this server reads {VERSION}"
        )
    try:
        return _ANY.validate_json(raw)
    except ValidationError as error:
        raise InvalidRequest(f"line {number}: {_describe_error(error)}") from error


def _describe_error(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part)[:80] for part in first["loc"][1:])
    return f"{where}: {first['msg']}" if where else first["msg"]


def head_line(name: str) -> bytes:
    return _dump_line({"type": "bank", "version": VERSION, "name": name})


def bank_line(bank: Bank, at: AwareDatetime) -> bytes:
    return _row_line(BankLine, bank, version=VERSION, policy=bank.policy.model_dump(), exported_at=at)


def episode_line(episode: Episode) -> bytes:
    return _row_line(EpisodeLine, episode)


def new_episode_line(new: NewEpisode) -> bytes:
    return _dump_line({"type": "episode", **{field.name: getattr(new, field.name) for field in fields(new)}})


def note_line(note: Note) -> bytes:
    used_at = note.created_at if note.returned and note.used_at is None else note.used_at
    return _row_line(NoteLine, note, used_at=used_at)


def block_line(block: Block) -> bytes:
    return _row_line(BlockLine, block)


def new_block_line(**fields: object) -> bytes:
    return _dump_line({"type": "block", **fields})


def _row_line(line: type[ExportLine], row: object, **others: object) -> bytes:
    """Return a row as a line: the fields of the line's model, some of them with other values."""
    kind, *names = line.model_fields.items()
    values = {name: others[name] if name in others else getattr(row, name) for name, _ in names}
    return _dump_line({"type": get_args(kind[1].annotation)[0], **values})


def end_line(lines: int) -> bytes:
    return _dump_line({"type": "end", "lines": lines})


def _dump_line(line: Mapping[str, object]) -> bytes:
    return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE, default=dict)


async def export_lines(tx: Tx, bank: Bank, at: datetime) -> AsyncGenerator[bytes]:
    """Yield the lines of a bank: itself, episodes, notes (also retired ones), and all versions of blocks."""
    yield bank_line(bank, at)
    lines = 1
    after = 0
    while episodes := await tx.episodes.find_all(bank.id, after=after, limit=READ_AT_ONCE):
        after = episodes[-1].number
        lines += len(episodes)
        yield b"".join(map(episode_line, episodes))
    after = 0
    while notes := await tx.notes.find_all(bank.id, after=after, limit=READ_AT_ONCE, retired=True):
        after = notes[-1].number
        lines += len(notes)
        yield b"".join(map(note_line, notes))
    for label in await tx.blocks.labels(bank.id):
        history = await tx.blocks.history(bank.id, label)
        lines += len(history)
        yield b"".join(map(block_line, history))
    yield end_line(lines)
