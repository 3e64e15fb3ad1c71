"""Build one context of an agent's banks: one fence, a share of the room for each bank, and its name above its lines.

The banks are read together (`BankService.resolve_layers`); each has its own index, cache and walls (MEM-35).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import accumulate
from typing import Final

from circadia.ids import BankId
from circadia.memory.banks import BankLayer, BankLayers
from circadia.memory.context import (
    STABLE_HEAD,
    Context,
    ContextBuilder,
    FittingPart,
    Hit,
    estimate_tokens,
    fence_memory,
    remaining_tokens,
    render_block,
    render_day,
)
from circadia.memory.search.question import Question, ScoredRow
from circadia.memory.search.retrieval import BankSearchResult, Retrieval, SearchHit
from circadia.records.bank import Bank
from circadia.records.block import Block
from circadia.records.index_entry import Layer
from circadia.stores.base import Tx

NOTHING: Final = FittingPart(lines=(), blocks=(), hits=(), tokens=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerLines:
    """What one bank adds to the fitting part."""

    bank: Bank
    heading: str
    first: str
    """Lines that come before all others of the bank; may be empty."""
    part: FittingPart

    @property
    def text(self) -> str:
        """Return its lines under its name; empty without any."""
        lines = [*([self.first] if self.first else []), *self.part.lines]
        return "\n".join((self.heading, *lines)) if lines else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayeredContext(Context):
    """A context of several banks; a block and a hit say whose they are."""

    lines: Sequence[LayerLines] = ()
    """Of the banks that add something to the fitting part, in order."""


async def build_layered_context(
    contexts: ContextBuilder, tx: Tx, layers: Sequence[BankLayer], question: Question | None, *, stable_tokens: int,
    fitting_tokens: int, known: Collection[str] = (),
    known_blocks: Mapping[BankId, Collection[tuple[str, int]]] | None = None, first: str = "",
    first_of: Mapping[BankId, str] | None = None, today: date | None = None, as_of: datetime | None = None,
) -> LayeredContext:  # fmt: skip
    """Return the context of these banks; see `ContextBuilder.build`.

    `first` comes before all banks, and `first_of` before the lines of its bank.
    """
    known_blocks, first_of = known_blocks or {}, first_of or {}
    if fitting_tokens <= 0:
        question = None
    found = [await contexts.search(tx, layer.bank, question, as_of) for layer in layers]
    stable, blocks, left_out = _build_stable_part(contexts, layers, found, stable_tokens)
    if question is None:
        return LayeredContext(stable=stable, fitting="", blocks=blocks, hits=(), left_out=left_out)
    headings = [render_heading(layer.name) for layer in layers]
    befores = [first_of.get(layer.bank.id, "") for layer in layers]
    day = "" if today is None else render_day(today)
    taken = sum(map(estimate_tokens, (day, *headings, *befores))) + len(headings) + len(befores)
    budget = remaining_tokens(fitting_tokens, first) - taken
    parts = await _choose(contexts, tx, layers, question, found, budget, known, known_blocks)
    lines = [
        LayerLines(bank=layer.bank, heading=heading, first=before, part=part)
        for layer, heading, before, part in zip(layers, headings, befores, parts, strict=True)
        if before or part.lines
    ]
    texts = [*([first] if first else []), *(each.text for each in lines)]
    if day and lines:
        texts.insert(0, day)
    hits: list[Hit] = [hit for part in parts for hit in part.hits]
    return LayeredContext(
        stable=stable, fitting=fence_memory("\n".join(texts)) if texts else "",
        blocks=[*blocks, *(block for part in parts for block in part.blocks)], hits=hits, left_out=left_out,
        lines=lines,
    )  # fmt: skip


async def _choose(
    contexts: ContextBuilder, tx: Tx, layers: Sequence[BankLayer], question: Question,
    found: Sequence[BankSearchResult], budget: int, known: Collection[str],
    known_blocks: Mapping[BankId, Collection[tuple[str, int]]],
) -> Sequence[FittingPart]:  # fmt: skip
    """Return what each bank gives: all that it has if the budget suffices, else no more than its share."""
    parts = [NOTHING] * len(layers)
    shares = [budget] * len(layers)
    for is_shared in (False, True):  # first what each would take alone
        said, unused = set(known), 0
        for at, layer in enumerate(layers):
            share = shares[at] + unused
            parts[at] = await contexts.choose(
                tx, layer.bank, question, found[at], share, known=said,
                known_blocks=known_blocks.get(layer.bank.id, ()),
            )  # fmt: skip
            said.update(hit.item.text for hit in parts[at].hits)
            unused = share - parts[at].tokens if is_shared else 0
        if sum(part.tokens for part in parts) <= budget:
            break
        shares = divide(budget, [part.tokens for part in parts])
    return parts


async def build_context_of(
    contexts: ContextBuilder, tx: Tx, banks: BankLayers, question: Question | None, *, stable_tokens: int,
    fitting_tokens: int, today: date | None, as_of: datetime | None = None,
) -> Context:  # fmt: skip
    """Return the context of one bank, or of several."""
    if banks.first is not None and not banks.layers:
        return await contexts.build(
            tx,
            banks.first,
            question,
            stable_tokens=stable_tokens,
            fitting_tokens=fitting_tokens,
            today=today,
            as_of=as_of,
        )
    return await build_layered_context(
        contexts,
        tx,
        banks.layers,
        question,
        stable_tokens=stable_tokens,
        fitting_tokens=fitting_tokens,
        today=today,
        as_of=as_of,
    )


async def find_in_layers(
    retrieval: Retrieval, tx: Tx, banks: Sequence[Bank], question: Question
) -> Sequence[SearchHit]:
    """Return the best hits of these banks together, best first; each item has the id of its bank."""
    if len(banks) == 1:
        return await retrieval.find(tx, banks[0], question)
    ranked: list[tuple[float, BankId, ScoredRow]] = []
    for bank in banks:
        rows = (await retrieval.read_bank(tx, bank, question)).scored
        # The order of each bank stays: what somebody says again comes last in it, whatever its score.
        ranks = accumulate((row.score for row in rows), min)
        ranked += [(rank, bank.id, row) for rank, row in zip(ranks, rows, strict=True)]
    ranked = sorted(ranked, key=lambda entry: -entry[0])[: question.limit]
    hits: dict[tuple[BankId, Layer, int, int], SearchHit] = {}
    for bank in banks:
        rows = [row for _, bank_id, row in ranked if bank_id == bank.id]
        for hit in await retrieval.fetch_hits(tx, bank, rows):
            hits[bank.id, hit.scored.layer, hit.scored.number, hit.scored.passage] = hit
    places = ((bank_id, row.layer, row.number, row.passage) for _, bank_id, row in ranked)
    return [hits[place] for place in places if place in hits]


def _build_stable_part(
    contexts: ContextBuilder, layers: Sequence[BankLayer], found: Sequence[BankSearchResult], tokens: int
) -> tuple[str, list[Block], Sequence[str]]:
    """Return the text of all pinned blocks, the blocks, and the labels that did not fit, with their banks."""
    headings = [render_heading(layer.name) for layer in layers]
    budget = tokens - estimate_tokens(STABLE_HEAD) - sum(estimate_tokens(heading) + 1 for heading in headings)
    pairs = [(layer.bank, result) for layer, result in zip(layers, found, strict=True)]
    parts = [contexts.build_stable_part(*pair, budget) for pair in pairs]
    if sum(part.tokens for part in parts) > budget:
        unused = 0
        for at, share in enumerate(divide(budget, [part.tokens for part in parts])):
            parts[at] = contexts.build_stable_part(*pairs[at], share + unused)
            unused += share - parts[at].tokens
    texts = [text for at, part in enumerate(parts) if part.texts for text in (headings[at], *part.texts)]
    return (
        "\n".join((STABLE_HEAD, *texts)) if texts else "",
        [block for part in parts for block in part.blocks],
        [f"{layer.name}: {label}" for layer, part in zip(layers, parts, strict=True) for label in part.left_out],
    )


def divide(budget: int, wanted: Sequence[int]) -> list[int]:
    """Return what each gets of a budget: an equal share of what is left by those that want less."""
    shares, left = [0] * len(wanted), budget
    for rank, at in enumerate(sorted(range(len(wanted)), key=wanted.__getitem__)):
        shares[at] = min(wanted[at], left // (len(wanted) - rank))
        left -= shares[at]
    return shares


def render_heading(name: str) -> str:
    """Return the line above what a bank gives; no line of a block or of a text begins like it."""
    return f"## From the bank {name}:"


def render_layered_stable(groups: Iterable[tuple[str, Sequence[Block]]]) -> str:
    """Return the stable part of a context, of exactly these blocks under the names of their banks, if several."""
    texts = [
        text
        for name, blocks in groups
        if blocks
        for text in (*([render_heading(name)] if name else []), *(render_block(block) for block in blocks))
    ]
    return "\n".join((STABLE_HEAD, *texts)) if texts else ""


def render_left_out(names: str) -> str:
    """Return the line that names the banks that are not there, such as `project, team`."""
    return f"Left out, because they are away or closed to you: {names}."
