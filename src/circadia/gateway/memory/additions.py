"""What the gateway added to the turns of a conversation, so that each later call has it again (MEM-37).

What stands behind a turn is a pure function of the ids that the conversation's row keeps, the version of the form, and
the rows that these ids name, which do not change. So any process, after any restart, puts the same bytes behind the
same turn, and a provider reads nothing of the conversation again. A later turn gets only what no earlier one shows, and
what has to go (forgotten, out of rights, over the budget) goes in one step that is counted.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final, cast

import orjson

from circadia.caches import BoundedDict
from circadia.characters import visible_text
from circadia.gateway.answers.serving import render_hint
from circadia.gateway.payload.prompt import RequestPrompt
from circadia.ids import AnswerId, BankId
from circadia.memory.context import (
    ContextBuilder,
    Hit,
    estimate_tokens,
    fence_memory,
    render_block,
    render_correction,
    render_day,
    render_stable_part,
)
from circadia.memory.search.index import SUPERSEDED
from circadia.records.bank import Bank
from circadia.records.block import Block
from circadia.records.change import ChangeKind
from circadia.records.fast_record import fast_record
from circadia.records.index_entry import Layer
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.sleeptime.triggers.pass_lifecycle import TOPIC
from circadia.stores.base import Tx
from circadia.stores.signals.base import Signals

FORM: Final = 2
"""Version of the form of a text; a change of what the same ids are rendered to needs another."""
MAX_BYTES: Final = 4_000
"""Maximum size of the ids that a conversation keeps: signals between servers carry them."""
PLACE_BYTES: Final = 50
"""Size of the place of each addition."""
CACHED: Final = 2_000
"""Rendered additions that are cached, about 5 KB each."""
LONGEST_NEWER: Final = 400
"""Characters shown of a turn that the ready answer beside it does not know."""
TIMES: Final = 4
"""How often the tokens of one turn's context fit in those of all turns."""


class LineKind(StrEnum):
    DAY = "d"
    """The day of the agent, in ISO 8601."""
    CHANGES = "c"
    """What passes have changed: the counts."""
    HINT = "h"
    """A ready answer: its id, and whether with its reasoning."""
    NEWER = "t"
    """The beginning of a turn that the ready answer before it does not know."""
    SUPERSEDED_EPISODE = "se"
    SUPERSEDED_NOTE = "sn"
    BLOCK = "b"
    """Its label and version."""
    EPISODE = "e"
    NOTE = "n"
    WAKE = "w"
    """The notice of a woken agent, alone and unfenced: its numbers (`notice_key`)."""


_LAYERS: Final = {
    LineKind.EPISODE: Layer.EPISODES,
    LineKind.NEWER: Layer.EPISODES,
    LineKind.NOTE: Layer.NOTES,
    LineKind.SUPERSEDED_EPISODE: Layer.EPISODES,
    LineKind.SUPERSEDED_NOTE: Layer.NOTES,
}
_SHOWN: Final = {Layer.EPISODES: LineKind.EPISODE, Layer.NOTES: LineKind.NOTE}
_SUPERSEDED: Final = {Layer.EPISODES: LineKind.SUPERSEDED_EPISODE, Layer.NOTES: LineKind.SUPERSEDED_NOTE}

LineKey = tuple[str, str | int, int, int]
"""Kind, then id, number or label, then a version, passage or flag, then `ScoredRow.times` of a row, 1 for others."""
BlockKey = tuple[str, int]


@fast_record
class Addition:
    """What was added to one turn; no lines if nothing was."""

    at: int
    """Index of the turn's message."""
    mark: str
    """Hash of its message."""
    lines: tuple[LineKey, ...]
    shown: str = ""
    """Short hash of the text that was sent."""

    @property
    def is_notice(self) -> bool:
        return self.lines[:1] != () and self.lines[0][0] == LineKind.WAKE


@fast_record
class KeptAdditions:
    """All that a conversation's row keeps."""

    bank: str = ""
    demotions: int = 0
    """The bank's count of demotions up to which superseded rows are corrected."""
    stable: tuple[BlockKey, ...] = ()
    """The blocks on the system side."""
    stable_shown: str = ""
    """Short hash of their text that was sent."""
    turns: tuple[Addition, ...] = ()

    def encode(self) -> str:
        """Return the text for the row."""
        turns = [[turn.at, turn.mark, turn.shown, list(map(_short_key, turn.lines))] for turn in self.turns]
        kept = {
            "form": FORM, "bank": self.bank, "demotions": self.demotions, "stable": self.stable,
            "stable_shown": self.stable_shown, "turns": turns,
        }  # fmt: skip
        return orjson.dumps(kept).decode()

    def find(self, prompt: RequestPrompt, index: int) -> Addition | None:
        """Return what was added to a message of the prompt; None if it has not been asked for anything yet."""
        return next((turn for turn in self.sent(prompt) if turn.at == index and not turn.is_notice), None)

    def sent(self, prompt: RequestPrompt) -> tuple[Addition, ...]:
        """Return the additions whose turns are in the prompt, in order."""
        messages = prompt.messages
        return tuple(turn for turn in self.turns if turn.at < len(messages) and messages[turn.at].mark == turn.mark)


NOTHING_KEPT: Final = KeptAdditions()


def decode_additions(text: str) -> KeptAdditions:
    """Return what a row keeps; nothing if it is empty or of another form."""
    if not text:
        return NOTHING_KEPT
    kept: dict[str, Any] = orjson.loads(text)
    if kept["form"] != FORM:
        return NOTHING_KEPT
    return KeptAdditions(
        bank=kept["bank"],
        demotions=kept["demotions"],
        stable=tuple((label, version) for label, version in kept["stable"]),
        stable_shown=kept["stable_shown"],
        turns=tuple(
            Addition(at=at, mark=mark, shown=shown, lines=tuple(map(_whole_key, lines)))
            for at, mark, shown, lines in kept["turns"]
        ),
    )


def _short_key(line: LineKey) -> Sequence[str | int]:
    return line[:3] if line[3] == 1 else line


def _whole_key(kept: Sequence[Any]) -> LineKey:
    kind, key, version, times = kept if len(kept) > 3 else (*kept, 1)
    return kind, key, version, times


def keep_notice(prompt: RequestPrompt | None, additions: str, notice: str) -> str:
    """Return the additions with a wake notice at the end of the prompt; unchanged if it has no place there."""
    if prompt is None or prompt.end < 0:
        return additions
    kept, line = decode_additions(additions), (LineKind.WAKE.value, notice, 0, 1)
    turns = (*kept.turns, Addition(at=prompt.end, mark=prompt.messages[prompt.end].mark, lines=(line,)))
    while len(text := replace(kept, turns=turns).encode()) > MAX_BYTES and len(turns) > 1:
        turns = turns[(len(turns) + 1) // 2 :]
    return text


def find_notices(prompt: RequestPrompt, additions: str) -> Sequence[tuple[int, str]]:
    """Return the wake notices of the calls before this one, with the indexes of their messages."""
    notices = [turn for turn in decode_additions(additions).sent(prompt) if turn.is_notice]
    return [(turn.at, render_wake_notice(str(turn.lines[0][1]))) for turn in notices]


def has_notices(additions: str) -> bool:
    return f'["{LineKind.WAKE.value}",' in additions


def text_hash(text: str) -> str:
    """Return a short hash of a text that was sent."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


@fast_record
class RenderedAddition:
    text: str
    """Fenced; empty without lines."""
    unfenced: str = ""
    lines: tuple[LineKey, ...]
    """Those whose rows are still there."""
    hits: Sequence[Hit] = ()
    blocks: Sequence[Block] = ()
    shown: str
    """Short hash of the text."""
    tokens: int

    @property
    def texts(self) -> Iterable[str]:
        return (hit.item.text for hit in self.hits)

    @property
    def id_bytes(self) -> int:
        return len(orjson.dumps(list(map(_short_key, self.lines)))) + PLACE_BYTES


def rendered_addition(
    text: str, lines: tuple[LineKey, ...], *, unfenced: str = "", hits: Sequence[Hit] = (), blocks: Sequence[Block] = ()
) -> RenderedAddition:
    return RenderedAddition(
        text=text, unfenced=unfenced, lines=lines, hits=hits, blocks=blocks, shown=text_hash(text),
        tokens=estimate_tokens(text),
    )  # fmt: skip


def hit_key(hit: Hit) -> LineKey:
    return (_SHOWN[hit.scored.layer].value, hit.scored.number, hit.scored.passage, hit.scored.times)


def block_key(block: Block) -> LineKey:
    return (LineKind.BLOCK.value, block.label, block.version, 1)


async def find_superseded(tx: Tx, bank: Bank, after: int, hits: Iterable[Hit]) -> tuple[LineKey, ...]:
    """Return the corrections of hits that passes have taken out since the bank's count of demotions was `after`."""
    hits = list(hits)
    if bank.demotions <= after or not hits:
        return ()
    weights = {
        Layer.EPISODES: await tx.episodes.find_changed_weights(bank.id, after=after),
        Layer.NOTES: await tx.notes.find_changed_weights(bank.id, after=after),
    }
    return tuple(
        (_SUPERSEDED[hit.scored.layer].value, hit.scored.number, hit.scored.passage, hit.scored.times)
        for hit in hits
        if hit.scored.times != SUPERSEDED and weights[hit.scored.layer].get(hit.scored.number, 1.0) < 1.0
    )


class AdditionRenderer:
    """Renders additions from their ids; what is rendered is cached until something of the bank is forgotten."""

    def __init__(self, contexts: ContextBuilder) -> None:
        self._contexts = contexts
        self._rendered: BoundedDict[tuple[object, ...], RenderedAddition] = BoundedDict(CACHED)
        self._stable: BoundedDict[tuple[object, ...], tuple[str, Sequence[Block]]]
        self._stable = BoundedDict(CACHED)

    async def render(self, tx: Tx, bank: Bank, lines: tuple[LineKey, ...]) -> RenderedAddition:
        """Return the addition of these lines, without those whose rows are gone."""
        place = self._place(bank, lines)
        rendered = self._rendered.get(place)
        if rendered is not None:
            self._rendered.move_to_end(place)
            return rendered
        self._rendered[place] = rendered = await self._read(tx, bank, lines)
        return rendered

    def keep(self, bank: Bank, addition: RenderedAddition) -> None:
        """Cache what was rendered anyway."""
        self._rendered[self._place(bank, addition.lines)] = addition

    def _place(self, bank: Bank, keys: object) -> tuple[object, ...]:
        return self._contexts.age, bank.id, bank.generation, keys

    async def _read(self, tx: Tx, bank: Bank, lines: tuple[LineKey, ...]) -> RenderedAddition:
        if lines and lines[0][0] == LineKind.WAKE:
            return rendered_addition(render_wake_notice(str(lines[0][1])), lines)
        rows = [
            (_LAYERS[LineKind(kind)], cast("int", key), part, times)
            for kind, key, part, times in lines
            if LineKind(kind) in _LAYERS
        ]
        blocks = [(cast("str", key), version) for kind, key, version, _ in lines if kind == LineKind.BLOCK]
        row_lines = await self._contexts.render_rows(tx, bank, rows)
        block_rows = await self._contexts.read_blocks(tx, bank, blocks)
        texts: dict[LineKey, str] = {}
        hits: list[Hit] = []
        for line in lines:
            kind, key, version = LineKind(line[0]), line[1], line[2]
            if kind is LineKind.DAY:
                texts[line] = render_day(date.fromisoformat(str(key)))
            elif kind is LineKind.CHANGES:
                texts[line] = render_changes(str(key))
            elif kind is LineKind.HINT:
                answer = await tx.answers.get(bank.id, AnswerId(str(key)))
                if answer is not None and answer.text:
                    texts[line] = render_hint(answer, reasoned=bool(version))
            elif kind is LineKind.BLOCK:
                if (block := block_rows.get((str(key), version))) is not None:
                    texts[line] = render_block(block)
            elif (row := row_lines.get((_LAYERS[kind], cast("int", key), version, line[3]))) is not None:
                is_whole = kind in _SHOWN.values() or (kind is LineKind.NEWER and len(row[0]) <= LONGEST_NEWER)
                texts[line] = row[0] if is_whole else _render_part(kind, row[0])
                hits += [row[1]] if is_whole else []
        if all(line[0] == LineKind.DAY for line in texts):
            texts.clear()  # what it stood before is gone
        unfenced = "\n".join(texts.values())
        text = fence_memory(unfenced) if texts else ""
        return rendered_addition(text, tuple(texts), unfenced=unfenced, hits=hits, blocks=list(block_rows.values()))

    async def render_stable(self, tx: Tx, bank: Bank, keys: tuple[BlockKey, ...]) -> tuple[str, Sequence[Block]]:
        """Return the text for the system side of these versions of blocks, and the blocks."""
        place = self._place(bank, keys)
        rendered = self._stable.get(place)
        if rendered is None:
            blocks = list((await self._contexts.read_blocks(tx, bank, keys)).values())
            rendered = self._stable[place] = render_stable_part(blocks), blocks
        return rendered


def _render_part(kind: LineKind, text: str) -> str:
    return f"{text[:LONGEST_NEWER]} […]" if kind is LineKind.NEWER else render_correction(text)


def count_dropped(sent: Sequence[RenderedAddition], new: RenderedAddition, tokens: float) -> int:
    """Return how many of the oldest additions go, so that all stay within so many tokens and `MAX_BYTES` of ids.

    If there is too much, half of the room is free afterwards.
    """
    dropped = 0
    for weights, new_weight, limit in (
        ([each.tokens for each in sent], new.tokens, tokens),
        ([each.id_bytes for each in sent], new.id_bytes, MAX_BYTES),
    ):
        if sum(weights) + new_weight > limit:
            while dropped < len(sent) and (not dropped or sum(weights[dropped:]) > limit / 2):
                dropped += 1
    return dropped


def day_key(today: date) -> LineKey:
    return (LineKind.DAY.value, today.isoformat(), 0, 1)


def known_blocks(additions: Iterable[Addition]) -> Collection[BlockKey]:
    """Return the versions of blocks that earlier turns show."""
    lines = (line for addition in additions for line in addition.lines)
    return {(str(key), version) for kind, key, version, _ in lines if kind == LineKind.BLOCK}


REMEMBERED: Final = 1_000
"""Banks with changes to report, about 200 bytes each."""
_WORDS: Final[Mapping[ChangeKind, tuple[str, str]]] = {
    ChangeKind.ADD_NOTE: ("note was added", "notes were added"),
    ChangeKind.RETIRE_NOTE: ("note was retired", "notes were retired"),
    ChangeKind.DEMOTE_EPISODE: ("statement counts less", "statements count less"),
    ChangeKind.WRITE_BLOCK: ("block was rewritten", "blocks were rewritten"),
    ChangeKind.FLAG: ("contradiction was found", "contradictions were found"),
}


def render_changes(counts: str) -> str:
    """Return the line that reports changes, such as `add_note=2 flag=1`."""
    numbers = [(ChangeKind(kind), int(n)) for kind, _, n in (each.partition("=") for each in counts.split())]
    parts = [f"{n} {_WORDS[kind][n > 1]}" for kind, n in numbers]
    return f"While nobody spoke with you, this memory was worked over: {', '.join(parts)}."


class ChangeNotice:
    """Reports to an agent the changes by passes to its memory while it slept (SLEEP-62); a restart forgets them."""

    def __init__(self, signals: Signals, sleeptime: SleeptimeService) -> None:
        self._sleeptime = sleeptime
        self._counts: BoundedDict[BankId, dict[str, int]] = BoundedDict(REMEMBERED)
        signals.listen(TOPIC, self._on_pass_event)

    def counts(self, bank: Bank) -> str:
        """Return the changes to report, as `render_changes` takes them; empty if the bank's policy disables it."""
        counts = self._counts.get(bank.id)
        if counts is None or not self._sleeptime.policy(bank).tell:
            return ""
        return " ".join(f"{kind.value}={n}" for kind in ChangeKind if (n := counts.get(kind.value, 0)))

    def mark_shown(self, bank: Bank, counts: str) -> None:
        """Clear the reported changes; if more came since, the next line repeats them with the new ones."""
        if counts == self.counts(bank):
            del self._counts[bank.id]

    def _on_pass_event(self, key: str, data: Mapping[str, object]) -> None:
        counts = cast("Mapping[str, int]", data.get("counts", {}))
        done = {kind.value: counts[kind.value] for kind in ChangeKind if counts.get(kind.value)}
        if data["ended"] and done:
            before = self._counts.get(BankId(key), {})
            self._counts[BankId(key)] = {
                kind_name: before.get(kind_name, 0) + done.get(kind_name, 0) for kind_name in {*before, *done}
            }


_UNCOUNTED: Final = "?"


def notice_key(slept_seconds: float, woken_by: str, unread: int | None) -> str:
    """Return what a conversation keeps of a notice: its numbers, and who woke the agent, with the cause.

    `woken_by` is the actor of the change: a name, or a cause and a name (`mentioned by lead`).
    """
    cause, _, name = woken_by.rpartition(" by ")
    who = f"{name} ({cause.replace('_', ' ')})" if cause else woken_by
    return f"{slept_seconds:.0f} {_UNCOUNTED if unread is None else unread} {_plain_text(who)}"


def render_wake_notice(key: str) -> str:
    """Return the fenced line that tells a woken agent that its prompt is old (GATE-65).

    It states the sleep time, who woke the agent, and the unread messages, if they are counted, and how to read them.
    """
    seconds, count, woken_by = key.split(" ", 2)
    unread = None if count == _UNCOUNTED else int(count)
    woken = f", woken by {woken_by}" if woken_by else ""
    number = "there may be" if unread is None else unread
    mail = (
        "no unread messages"
        if unread == 0
        else f"{number} unread message{'s' if unread != 1 else ''}: call wait_for_message on the Circadia MCP server"
    )
    return f"<circadia-notice>You slept {_format_duration(float(seconds))}{woken}; {mail}.</circadia-notice>"


def _format_duration(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _plain_text(text: str) -> str:
    """Return the text without characters that could end the fence or the line."""
    printable = (character for character in visible_text(text) if character.isprintable() and character not in "<>")
    return "".join(printable)[:100]
