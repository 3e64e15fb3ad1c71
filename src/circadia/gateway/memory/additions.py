"""What the gateway added to the turns of a conversation, so that each later call has it again (MEM-37).

What stands behind a turn is a pure function of the ids that the conversation's row keeps, the version of the form, and
the rows that these ids name, which do not change. So any process, after any restart, puts the same bytes behind the
same turn, and a provider reads nothing of the conversation again. A later turn gets only what no earlier one shows, and
what has to go (forgotten, out of rights, over the budget) goes in one step that is counted.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from hashlib import blake2b
from typing import Any, Final, cast

import orjson

from circadia.caches import BoundedDict
from circadia.gateway.answers.serving import render_hint
from circadia.gateway.memory.line_keys import SHOWN_AS, BlockKey, LineKey, LineKind, short_key, split_by_bank, whole_key
from circadia.gateway.memory.notices import render_changes, render_wake_notice
from circadia.gateway.payload.prompt import RequestPrompt
from circadia.ids import AnswerId, BankId
from circadia.memory.banks import BankLayers
from circadia.memory.context import (
    ContextBuilder,
    Hit,
    estimate_tokens,
    fence_memory,
    render_block,
    render_correction,
    render_day,
)
from circadia.memory.layers import render_heading, render_layered_stable, render_left_out
from circadia.memory.search.index import SUPERSEDED
from circadia.records.bank import Bank
from circadia.records.block import Block
from circadia.records.fast_record import fast_record
from circadia.records.index_entry import Layer
from circadia.stores.base import Tx

FORM: Final = 2
"""Version of the form of a text; a change of what the same ids are rendered to needs another."""
FORM_OF_LAYERS: Final = 3
"""The same with several banks, which servers of earlier releases do not read."""
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


_LAYERS: Final = {
    LineKind.EPISODE: Layer.EPISODES,
    LineKind.NEWER: Layer.EPISODES,
    LineKind.NOTE: Layer.NOTES,
    LineKind.SUPERSEDED_EPISODE: Layer.EPISODES,
    LineKind.SUPERSEDED_NOTE: Layer.NOTES,
}
_SUPERSEDED: Final = {Layer.EPISODES: LineKind.SUPERSEDED_EPISODE, Layer.NOTES: LineKind.SUPERSEDED_NOTE}


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
    layers: tuple[tuple[str, int], ...] = ()
    """The same of the agent's other banks, each with its id."""
    stable: tuple[BlockKey, ...] = ()
    """The blocks on the system side."""
    stable_shown: str = ""
    """Short hash of their text that was sent."""
    turns: tuple[Addition, ...] = ()

    def encode(self) -> str:
        """Return the text for the row."""
        turns = [[turn.at, turn.mark, turn.shown, list(map(short_key, turn.lines))] for turn in self.turns]
        kept = {
            "form": FORM, "bank": self.bank, "demotions": self.demotions, "stable": self.stable,
            "stable_shown": self.stable_shown, "turns": turns,
        }  # fmt: skip
        if self.layers:
            kept |= {"form": FORM_OF_LAYERS, "layers": self.layers}
        return orjson.dumps(kept).decode()

    def is_of(self, bank: Bank | None) -> bool:
        """Return whether it is of an agent whose first bank is this one; that may have come since."""
        return self.bank == ("" if bank is None else bank.id) or bool(self.layers and not self.bank)

    def demotions_of(self, bank: Bank) -> int:
        """Return the count of demotions up to which a bank is corrected; with nothing kept of it, all."""
        return self.demotions if self.bank == bank.id else dict(self.layers).get(bank.id, bank.demotions)

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
    if kept["form"] not in (FORM, FORM_OF_LAYERS):
        return NOTHING_KEPT
    return KeptAdditions(
        bank=kept["bank"],
        demotions=kept["demotions"],
        layers=tuple((bank_id, demotions) for bank_id, demotions in kept.get("layers", ())),
        stable=tuple((label, version) for label, version in kept["stable"]),
        stable_shown=kept["stable_shown"],
        turns=tuple(
            Addition(at=at, mark=mark, shown=shown, lines=tuple(map(whole_key, lines)))
            for at, mark, shown, lines in kept["turns"]
        ),
    )


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
        return len(orjson.dumps(list(map(short_key, self.lines)))) + PLACE_BYTES


def rendered_addition(
    text: str, lines: tuple[LineKey, ...], *, unfenced: str = "", hits: Sequence[Hit] = (), blocks: Sequence[Block] = ()
) -> RenderedAddition:
    return RenderedAddition(
        text=text, unfenced=unfenced, lines=lines, hits=hits, blocks=blocks, shown=text_hash(text),
        tokens=estimate_tokens(text),
    )  # fmt: skip


async def find_superseded(tx: Tx, bank: Bank, after: int, hits: Iterable[Hit]) -> tuple[LineKey, ...]:
    """Return the corrections of hits that passes have taken out since the bank's count of demotions was `after`."""
    hits = [hit for hit in hits if hit.bank == bank.id]
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

    async def render(self, tx: Tx, banks: BankLayers, lines: tuple[LineKey, ...], zone: str) -> RenderedAddition:
        """Return the addition of these lines, without those whose rows or banks are gone; days are of an IANA zone."""
        place = self._place(banks, lines, zone)
        rendered = self._rendered.get(place)
        if rendered is not None:
            self._rendered.move_to_end(place)
            return rendered
        self._rendered[place] = rendered = await self._read(tx, banks, lines, zone)
        return rendered

    def keep(self, banks: BankLayers, addition: RenderedAddition, zone: str) -> None:
        """Cache what was rendered anyway."""
        self._rendered[self._place(banks, addition.lines, zone)] = addition

    def _place(self, banks: BankLayers, keys: object, zone: str = "") -> tuple[object, ...]:
        first = banks.first
        whose: tuple[object, ...] = () if first is None else (first.id, first.generation)
        whose += tuple((each.name, each.bank.id, each.bank.generation) for each in banks.layers)
        return self._contexts.age, whose, keys, zone

    async def _read(self, tx: Tx, banks: BankLayers, lines: tuple[LineKey, ...], zone: str) -> RenderedAddition:
        if lines and lines[0][0] == LineKind.WAKE:
            return rendered_addition(render_wake_notice(str(lines[0][1])), lines)
        texts: list[tuple[LineKey, str]] = []
        hits: list[Hit] = []
        blocks: list[Block] = []
        for heading, bank_id, group in split_by_bank(lines):
            layer = banks.find(bank_id) if bank_id else None
            bank = banks.first if not bank_id else layer and layer.bank
            found, found_hits, found_blocks = await self._read_group(tx, bank, group, zone)
            if heading is not None and layer is not None and found:
                texts.append((heading, render_heading(layer.name)))
            texts += found.items()
            hits += found_hits
            blocks += found_blocks
        if all(line[0] == LineKind.DAY for line, _ in texts):
            texts.clear()  # what it stood before is gone
        unfenced = "\n".join(text for _, text in texts)
        text = fence_memory(unfenced) if texts else ""
        shown_lines = tuple(line for line, _ in texts)
        return rendered_addition(text, shown_lines, unfenced=unfenced, hits=hits, blocks=blocks)

    async def _read_group(
        self, tx: Tx, bank: Bank | None, lines: Sequence[LineKey], zone: str
    ) -> tuple[dict[LineKey, str], list[Hit], Sequence[Block]]:
        """Return the texts of the lines of one bank; without it, of those that no bank is needed for."""
        texts: dict[LineKey, str] = {}
        for line in lines:
            if line[0] == LineKind.DAY:
                texts[line] = render_day(date.fromisoformat(str(line[1])))
            elif line[0] == LineKind.LEFT_OUT:
                texts[line] = render_left_out(str(line[1]))
        if bank is None or len(texts) == len(lines):
            return texts, [], ()
        rows = [
            (_LAYERS[LineKind(kind)], cast("int", key), part, times)
            for kind, key, part, times in lines
            if LineKind(kind) in _LAYERS
        ]
        row_lines = await self._contexts.render_rows(tx, bank, rows, zone)
        blocks = await self._contexts.read_blocks(
            tx, bank, [(cast("str", key), version) for kind, key, version, _ in lines if kind == LineKind.BLOCK]
        )
        hits: list[Hit] = []
        for line in lines:
            kind, key, version = LineKind(line[0]), line[1], line[2]
            if kind is LineKind.CHANGES:
                texts[line] = render_changes(str(key))
            elif kind is LineKind.HINT:
                answer = await tx.answers.get(bank.id, AnswerId(str(key)))
                if answer is not None and answer.text:
                    texts[line] = render_hint(answer, reasoned=bool(version))
            elif kind is LineKind.BLOCK:
                if (block := blocks.get((str(key), version))) is not None:
                    texts[line] = render_block(block)
            elif (
                kind in _LAYERS
                and (row := row_lines.get((_LAYERS[kind], cast("int", key), version, line[3]))) is not None
            ):
                is_whole = kind in SHOWN_AS.values() or (kind is LineKind.NEWER and len(row[0]) <= LONGEST_NEWER)
                texts[line] = row[0] if is_whole else _render_part(kind, row[0])
                hits += [row[1]] if is_whole else []
        return texts, hits, list(blocks.values())

    async def render_stable(self, tx: Tx, banks: BankLayers, keys: tuple[BlockKey, ...]) -> tuple[str, Sequence[Block]]:
        """Return the text for the system side of these versions of blocks, and the blocks."""
        place = self._place(banks, keys)
        rendered = self._stable.get(place)
        if rendered is not None:
            return rendered
        groups: list[tuple[str, Sequence[Block]]] = []
        for bank_id, group in split_stable(keys):
            layer = banks.find(bank_id) if bank_id else None
            bank = banks.first if not bank_id else layer and layer.bank
            blocks = [] if bank is None else list((await self._contexts.read_blocks(tx, bank, group)).values())
            groups.append(("" if layer is None else layer.name, blocks))
        rendered = self._stable[place] = (
            render_layered_stable(groups), [block for _, blocks in groups for block in blocks]
        )  # fmt: skip
        return rendered


def stable_keys(banks: BankLayers, blocks: Iterable[Block]) -> tuple[BlockKey, ...]:
    """Return what a conversation keeps of the blocks on its system side, which are in the order of the banks."""
    keys: list[BlockKey] = []
    bank_id = ""
    for block in blocks:
        if banks.layers and block.bank_id != bank_id:
            bank_id = block.bank_id
            keys.append((bank_id, 0))
        keys.append((block.label, block.version))
    return tuple(keys)


def split_stable(keys: Iterable[BlockKey]) -> Iterator[tuple[str, Sequence[BlockKey]]]:
    """Yield the versions of each bank's blocks with its id; first, without one, those of an agent's first bank."""
    bank_id, group = "", list[BlockKey]()
    for key in keys:
        if key[1] == 0:
            yield bank_id, group
            bank_id, group = key[0], []
        else:
            group.append(key)
    yield bank_id, group


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


def known_blocks(kept: KeptAdditions, additions: Iterable[Addition]) -> Mapping[BankId, Collection[BlockKey]]:
    """Return the versions of blocks that earlier turns show, by bank."""
    known: dict[BankId, set[BlockKey]] = {}
    for addition in additions:
        for _, bank_id, lines in split_by_bank(addition.lines):
            known.setdefault(BankId(bank_id or kept.bank), set()).update(
                (str(key), version) for kind, key, version, _ in lines if kind == LineKind.BLOCK
            )
    return known
