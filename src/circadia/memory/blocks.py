"""Write blocks and keep their versions (MEM-09 … MEM-11)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import accumulate
from typing import Final, TypeVar

from circadia.clock import Clock
from circadia.errors import Conflict, Forbidden, InvalidRequest, NotFound
from circadia.ids import EpisodeId
from circadia.memory.episodes import require_text
from circadia.memory.redaction import redact
from circadia.records.bank import Bank
from circadia.records.block import Block, BlockSpan
from circadia.records.event import BlockWrite, EventType
from circadia.records.principal import Principal
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog

T = TypeVar("T")

DEFAULT_LIMIT: Final = 5_000
"""Characters of a block without a limit, as in Letta."""
MAX_LIMIT: Final = 100_000
"""Highest limit in characters: blocks go into each call."""
MAX_LABEL: Final = 100


class BlockAuthor(StrEnum):
    """The kind of writer, which alone decides what it may write, through any interface (MEM-10)."""

    PERSON = "person"
    """May write everything."""
    SLEEP = "sleep"
    """A pass, or an agent whose policy has `sleeptime_agent`: may write blocks that are not read-only."""
    HOT = "hot"
    """An agent that somebody waits for: as SLEEP, but only if the bank's policy has `hot_edits`."""


def writer_of(who: Principal) -> BlockAuthor:
    """Return the kind of writer that a principal is (MEM-10)."""
    if who.is_operator:
        return BlockAuthor.PERSON
    return BlockAuthor.SLEEP if who.agent is not None and who.agent.policy.sleeptime_agent else BlockAuthor.HOT


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockUpdate:
    """A new version of a block; fields that are None keep their value."""

    value: str | None = None
    description: str | None = None
    limit: int | None = None
    """In characters."""
    pinned: bool | None = None
    """Whether the block is in every context."""
    read_only: bool | None = None
    """Whether only people may write it."""
    spans: Sequence[BlockSpan] | None = None
    """Episodes behind parts of the value; None carries over the spans of the parts that remain."""
    expected_version: int | None = None
    """The version that the writer has read, 0 for none; None overwrites any version."""
    why: str = ""
    operation: str | None = None
    """The pass operation that writes; None keeps the previous one."""


class BlockService:
    def __init__(self, clock: Clock, events: EventLog) -> None:
        self._clock = clock
        self._events = events

    async def write(self, tx: Tx, bank: Bank, label: str, edit: BlockUpdate, *, writer: BlockAuthor, by: str) -> Block:
        """Write the next version of a block, or its first; secrets from a writer that is not a person are redacted.

        Raises:
            Conflict: somebody else has written meanwhile; nothing is changed. Forbidden: the writer may not.
            InvalidRequest: a value over the limit, or a bad label.
        """
        _require_label(label)
        latest = await tx.blocks.get_latest(bank.id, label)
        present_block = None if latest is None or latest.deleted else latest
        _require_version(label, present_block, edit.expected_version)
        _require_writer(bank, label, latest, edit, writer)  # read_only and the limit outlive a deletion
        value = edit.value if edit.value is not None else present_block.value if present_block else ""
        if writer is not BlockAuthor.PERSON and edit.spans is None:
            value = _without_secrets(value, present_block.value if present_block else "")
        limit = _or_default(edit.limit, latest.limit if latest else DEFAULT_LIMIT)
        _require_fit(label, value, limit, edit.spans)
        require_text(value=value, description=edit.description, why=edit.why)
        return await self._add_version(
            tx,
            bank,
            Block(
                bank_id=bank.id,
                label=label,
                version=latest.version + 1 if latest else 1,
                parent=latest.version if latest else None,
                value=value,
                description=_or_default(edit.description, present_block.description if present_block else ""),
                limit=limit,
                pinned=_or_default(edit.pinned, present_block.pinned if present_block else True),
                read_only=_or_default(edit.read_only, latest.read_only if latest else False),
                spans=_or_default(edit.spans, carry_spans(present_block, value) if present_block else ()),
                by=by,
                operation=_or_default(edit.operation, present_block.operation if present_block else None),
                why=edit.why,
                at=self._clock.now(),
            ),
            writer=writer,
        )

    async def insert(
        self,
        tx: Tx,
        bank: Bank,
        label: str,
        text: str,
        *,
        line: int | None,
        expected: int | None,
        writer: BlockAuthor,
        by: str,
    ) -> Block:
        """Insert a text before a line, counted from 1, or at the end. Raises as `write`, and NotFound."""
        block = await self.get(tx, bank, label)
        lines = block.value.split("\n") if block.value else []
        at = len(lines) + 1 if line is None else line
        if not 1 <= at <= len(lines) + 1:
            raise InvalidRequest(f"block {label!r} has {len(lines)} lines; give a line from 1 to {len(lines) + 1}")
        lines[at - 1 : at - 1] = [text]
        edit = BlockUpdate(value="\n".join(lines), expected_version=block.version if expected is None else expected)
        return await self.write(tx, bank, label, edit, writer=writer, by=by)

    async def replace(
        self, tx: Tx, bank: Bank, label: str, old: str, new: str, *, expected: int | None, writer: BlockAuthor, by: str
    ) -> Block:
        """Replace `old` by `new`. Raises as `write`, NotFound, and InvalidRequest: `old` must occur exactly once."""
        block = await self.get(tx, bank, label)
        times = sum(block.value.startswith(old, at) for at in range(len(block.value))) if old else 0
        if times != 1:
            hint = "it must be there once; give more of the text around it" if times else "read the block again"
            raise InvalidRequest(f"the text to replace occurs {times} times in block {label!r}; {hint}")
        edit = BlockUpdate(
            value=block.value.replace(old, new), expected_version=block.version if expected is None else expected
        )
        return await self.write(tx, bank, label, edit, writer=writer, by=by)

    async def get(self, tx: Tx, bank: Bank, label: str) -> Block:
        latest = await tx.blocks.get_latest(bank.id, label)
        if latest is None or latest.deleted:
            labels = [block.label for block in await tx.blocks.find_all(bank.id)]
            existing = f"; there are {', '.join(map(repr, labels))}" if labels else "; it has none yet"
            raise NotFound(f"no block {label!r} in bank {bank.name!r}{existing}")
        return latest

    async def delete(
        self,
        tx: Tx,
        bank: Bank,
        label: str,
        *,
        writer: BlockAuthor,
        by: str,
        why: str = "",
        expected: int | None = None,
    ) -> Block:
        """Write a version that marks the block as deleted; `undo` reverts it. Raises NotFound, Conflict, Forbidden."""
        block = await self.get(tx, bank, label)
        _require_version(label, block, expected)
        _require_writer(bank, label, block, BlockUpdate(value=""), writer)
        deleted_block = replace(block, value="", spans=(), deleted=True)
        return await self._restore_version(tx, bank, deleted_block, block, by=by, why=why or "deleted", writer=writer)

    async def undo(
        self, tx: Tx, bank: Bank, label: str, *, to: int | None = None, by: str, expected: int | None = None
    ) -> Block:
        """Restore the previous version, or `to`, as a new version that branches off from it (MEM-11).

        Raises NotFound: there is no such version. Conflict: another version than the expected one.
        """
        history = await tx.blocks.history(bank.id, label)
        if not history:
            raise NotFound(f"no block {label!r} in bank {bank.name!r} ever")
        latest = history[-1]
        _require_version(label, latest, expected)
        target = (
            _previous_version(history)
            if to is None
            else next((block for block in history if block.version == to), None)
        )
        if target is None:
            what = f"version {to}; it has 1 to {latest.version}" if to is not None else "version before the present one"
            raise NotFound(f"block {label!r} has no {what}")
        return await self._restore_version(tx, bank, target, latest, by=by, why=f"back to version {target.version}")

    async def restore(self, tx: Tx, bank: Bank, at: datetime, *, by: str) -> Sequence[Block]:
        """Restore all blocks to what they were at a time; return the blocks that this changed."""
        restored: list[Block] = []
        for label in await tx.blocks.labels(bank.id):
            history = await tx.blocks.history(bank.id, label)
            then = next((block for block in reversed(history) if block.at <= at), None)
            then = then or replace(history[-1], value="", spans=(), deleted=True, version=0)
            if _content_of(then) != _content_of(history[-1]):
                why = f"as it was at {at.isoformat()}"
                restored.append(await self._restore_version(tx, bank, then, history[-1], by=by, why=why))
        return restored

    async def _restore_version(
        self,
        tx: Tx,
        bank: Bank,
        wanted: Block,
        latest: Block,
        *,
        by: str,
        why: str,
        writer: BlockAuthor = BlockAuthor.PERSON,
    ) -> Block:
        parent = latest.version if wanted.deleted else wanted.version
        version = latest.version + 1
        return await self._add_version(
            tx, bank, replace(wanted, version=version, parent=parent, by=by, why=why, at=self._clock.now()),
            writer=writer,
        )  # fmt: skip

    async def _add_version(self, tx: Tx, bank: Bank, block: Block, *, writer: BlockAuthor) -> Block:
        if writer is not BlockAuthor.SLEEP:
            await tx.banks.mark_edited(bank.id, block.at)  # makes a pass due (SLEEP-02); what a pass wrote does not
        if not await tx.blocks.add(block):
            raise Conflict(f"block {block.label!r} was written at the same moment; read it again")
        data = BlockWrite(bank=bank.name, label=block.label, version=block.version, by=block.by, deleted=block.deleted)
        await self._events.record(tx, EventType.BLOCK, data, at=block.at)
        return block


def carry_spans(before: Block, value: str) -> Sequence[BlockSpan]:
    """Return a version's spans at their places in the new value, without those whose text is gone.

    A span of lines that are still there goes with them. Another that was changed inside keeps its episodes if at least
    half of it is unchanged.
    """
    old = before.value
    head = _common_prefix_length(old, value)
    tail = _common_prefix_length(old[head:][::-1], value[head:][::-1])
    grown = len(value) - len(old)
    ordered = sorted(before.spans, key=lambda span: span.start)
    places = _place_whole_lines(ordered, _find_common_lines(old, value))
    end = 0
    for at, span in enumerate(ordered):
        length = span.end - span.start
        if at not in places:
            changed = min(span.end, len(old) - tail) - max(span.start, head)
            last = min((start for number, (start, _) in places.items() if number > at), default=len(value))
            if span.end <= head:
                place = (span.start, span.end)
            elif span.start >= len(old) - tail:
                place = (span.start + grown, span.end + grown)
            elif span.start <= head and span.end >= len(old) - tail and 2 * changed <= length:
                place = (span.start, span.end + grown)
            else:
                start = value.find(old[span.start : span.end], max(end, head), min(len(value) - tail, last))
                place = (start, start + length)
            if not end <= place[0] < place[1] <= last:
                continue
            places[at] = place
        end = places[at][1]
    return tuple(replace(ordered[at], start=start, end=last) for at, (start, last) in sorted(places.items()))


def _place_whole_lines(spans: Sequence[BlockSpan], runs: Sequence[tuple[int, int, int]]) -> dict[int, tuple[int, int]]:
    """Return the places of the spans that lie in lines which stay, by their numbers."""
    places: dict[int, tuple[int, int]] = {}
    for at, span in enumerate(spans):
        shift = next((shift for first, last, shift in runs if first <= span.start and span.end <= last), None)
        if shift is not None and span.start < span.end:
            places[at] = (span.start + shift, span.end + shift)
    return places


def _find_common_lines(old: str, new: str) -> Sequence[tuple[int, int, int]]:
    """Return each run of lines that both texts have, as start and end in the old one, and its shift in the new one."""
    olds, news = old.split("\n"), new.split("\n")
    starts = [[0, *accumulate(len(line) + 1 for line in lines)] for lines in (olds, news)]
    first = _common_prefix_length(olds, news)
    last = _common_prefix_length(olds[first:][::-1], news[first:][::-1])
    middle = SequenceMatcher(None, olds[first : len(olds) - last], news[first : len(news) - last], autojunk=False)
    runs = [(0, 0, first), *((first + i, first + j, size) for i, j, size in middle.get_matching_blocks())]
    runs.append((len(olds) - last, len(news) - last, last))
    return [(starts[0][i], starts[0][i + size] - 1, starts[1][j] - starts[0][i]) for i, j, size in runs if size]


def _common_prefix_length(one: Sequence[str], other: Sequence[str]) -> int:
    differences = (at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
    return next(differences, min(len(one), len(other)))


def remove_episodes(block: Block, gone: frozenset[EpisodeId]) -> Block:
    """Return the block without the parts that rest on any of these episodes, and without lines left empty."""
    value = block.value
    kept_spans = list(block.spans)
    while lost := next((span for span in reversed(kept_spans) if not gone.isdisjoint(span.episodes)), None):
        kept_spans.remove(lost)
        start, end = lost.start, lost.end
        alone = (start == 0 or value[start - 1] == "\n") and (end == len(value) or value[end] == "\n")
        if alone and end < len(value):
            end += 1
        elif alone and start > 0:
            start -= 1
        value = value[:start] + value[end:]
        moved_spans = [_shrink_span(span, start, end) for span in kept_spans]
        kept_spans = [span for span in moved_spans if span.start < span.end]
    return replace(block, value=value, spans=tuple(kept_spans))


def _shrink_span(span: BlockSpan, start: int, end: int) -> BlockSpan:
    places = [at - max(0, min(at, end) - start) for at in (span.start, span.end)]
    return replace(span, start=places[0], end=places[1])


def _content_of(block: Block) -> tuple[object, ...]:
    return (block.value, block.description, block.limit, block.pinned, block.read_only, block.deleted)


def _previous_version(history: Sequence[Block]) -> Block | None:
    """Return the last version on the current branch whose content differs from the present one."""
    versions = {block.version: block for block in history}
    at: Block | None = history[-1]
    while at is not None and _content_of(at) == _content_of(history[-1]):
        at = None if at.parent is None else versions.get(at.parent)
    return at


def _without_secrets(value: str, before: str) -> str:
    """Return the value without secrets that are new in it; those that a person wrote down stay."""
    if redact(before) == before:
        return redact(value)
    known_lines = set(before.split("\n"))
    return "\n".join(line if line in known_lines else redact(line) for line in value.split("\n"))


def _or_default(value: T | None, other: T) -> T:
    return other if value is None else value


def require_valid_version(label: str, value: str, limit: int) -> None:
    """Check an imported version against the rules of `write`. Raises InvalidRequest: it breaks one."""
    _require_label(label)
    _require_fit(label, value, limit, None)


def _require_label(label: str) -> None:
    if not 0 < len(label) <= MAX_LABEL or not label.isprintable():
        raise InvalidRequest(f"a label has 1 to {MAX_LABEL} printable characters")


def _require_version(label: str, found: Block | None, expected: int | None) -> None:
    present = found.version if found else 0
    if expected is not None and expected != present:
        what = f"is at version {present}" if found else "does not exist"
        raise Conflict(f"block {label!r} {what}, not at version {expected}: read it again, then write")


def _require_writer(bank: Bank, label: str, found: Block | None, edit: BlockUpdate, writer: BlockAuthor) -> None:
    if writer is BlockAuthor.PERSON:
        return
    if writer is BlockAuthor.HOT and not bank.policy.hot_edits:
        raise Forbidden(
            f"blocks of bank {bank.name!r} are written by people and while its agents sleep; a person can allow it "
            "with `hot_edits: true` in the bank's policy"
        )
    if found is not None and found.read_only:
        raise Forbidden(f"block {label!r} is read-only; a person can change that")
    if edit.read_only is not None or (found is not None and edit.limit is not None and edit.limit != found.limit):
        raise Forbidden(f"only a person may change the limit of block {label!r}, or make it read-only")


def _require_fit(label: str, value: str, limit: int, spans: Sequence[BlockSpan] | None) -> None:
    if not 0 < limit <= MAX_LIMIT:
        raise InvalidRequest(f"the limit of a block is 1 to {MAX_LIMIT} characters, not {limit}")
    if len(value) > limit:
        raise InvalidRequest(
            f"block {label!r} may have {limit} characters; this would be {len(value)}: shorten it by "
            f"{len(value) - limit}"
        )
    end = 0
    for span in sorted(spans or (), key=lambda span: span.start):
        if not end <= span.start < span.end <= len(value):
            raise InvalidRequest(f"the spans of block {label!r} must lie in its text and not overlap")
        end = span.end
