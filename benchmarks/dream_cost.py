"""What a model is asked to consolidate talks from start to end, beside memories that ask while somebody waits.

It takes conversations in the format of LoCoMo (https://github.com/snap-research/locomo), which are not part of this
repository: `python -m benchmarks dream_cost --data PATH`; without them, made-up ones.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

from benchmarks.peer_driver import LANGMEM_MEMORY, MEM0_MEMORY
from benchmarks.peers import NotInstallable
from benchmarks.remember_peers import counted, theirs
from benchmarks.report import Goal, Report, number
from benchmarks.talks import talk
from circadia.clock import SystemClock, system_milliseconds
from circadia.evaluation.locomo import DialogueTurn, parse_conversation
from circadia.evaluation.pass_harness import RecordingModel, open_pass_harness
from circadia.ids import RandomIds
from circadia.memory.banks import BankService, NewBank
from circadia.memory.episodes import EpisodeService, NewEpisode
from circadia.records.bank import BankPolicy, Trust
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite

LIMIT: Final = 800
"""Prompt tokens that a turn may cost in all."""
GOAL: Final = 300
"""What it should cost."""
EACH_TALK: Final = "Circadia, a pass after each sitting"
SEVERAL: Final = "Circadia, a pass after each {} turns"
AT_ONCE: Final = "Circadia, one pass for all"
A_TURN_SECONDS: Final = 3.0
"""That another memory may take for a turn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    data: Path | None = None
    """The conversations; none takes made-up ones."""
    talks: int = 3
    """Of made-up ones."""
    turns: int = 400
    """Of each made-up one."""
    cadence: int = 10
    """Turns of the way that does not wait for the end of a sitting: five of a person and five of an agent."""
    peer_turns: int = 100
    """First turns of the first talk, which all memories are given."""
    peers: bool = True
    """Whether others are set up."""


QUICK: Final = Size(talks=1, turns=40, peer_turns=20, peers=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class DreamCostResult:
    """What one way asked a model."""

    name: str
    turns: int
    prompts: Sequence[str]


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    talks = await asyncio.to_thread(_talks, size)
    first = talks[0][: size.peer_turns]
    notes: list[str] = []
    found = [
        await _ours(folder, EACH_TALK, talks),
        await _ours(folder, SEVERAL.format(size.cadence), talks, every=size.cadence),
        await _ours(folder, AT_ONCE, talks, every=10**6),
    ]
    same = [await _ours(folder, EACH_TALK, [first], number_of=1)]
    for memory in (MEM0_MEMORY, LANGMEM_MEMORY) if size.peers else ():
        try:
            seconds = A_TURN_SECONDS * len(first) + 60
            theirs_found = await theirs(
                memory, folder / memory.driver, [_said(turn) for turn in first], seconds=seconds
            )
            same.append(DreamCostResult(name=memory.name, turns=len(first), prompts=theirs_found.prompts))
        except NotInstallable as error:
            notes.append(f"{memory.name} is left out: {error}")
            print(notes[-1], flush=True)
    texts = ["\n".join(map(_line, each)) for each in talks]
    whole = DreamCostResult(name="the full text, read once", turns=sum(map(len, talks)), prompts=texts)
    every = [*found, whole, *same]
    counts, how = await counted(folder, [each.prompts for each in every], peers=size.peers)
    return _report(size, talks, every, [sum(each) for each in counts], len(found) + 1, [how, *notes])


def _talks(size: Size) -> list[Sequence[DialogueTurn]]:
    if size.data is None:
        return [talk(seed, turns=size.turns, of_each=min(20, size.turns // 10)).turns for seed in range(size.talks)]
    return [parse_conversation(each).turns for each in json.loads(size.data.read_text("utf-8"))]


def _said(turn: DialogueTurn) -> str:
    return f"{turn.speaker}: {turn.text}"


def _line(turn: DialogueTurn) -> str:
    return f"[{turn.at:%Y-%m-%d %H:%M}] {_said(turn)}"


async def _ours(
    folder: Path, name: str, talks: Sequence[Sequence[DialogueTurn]], *, every: int = 0, number_of: int = 0
) -> DreamCostResult:  # fmt: skip
    """Tell each talk to a bank, with a pass after each sitting, or after so many turns; return what was asked."""
    mind = RecordingModel()
    path = folder / f"{every}-{number_of}.db"
    store = await open_sqlite(path)
    clock, ids = SystemClock(), RandomIds(system_milliseconds)
    episodes = EpisodeService(clock, ids, EventLog(clock, LocalSignals()))
    try:
        async with open_pass_harness(store, LocalSignals(), mind) as running:
            for at, turns in enumerate(talks):
                policy = BankPolicy(duplicate_seconds=0)
                async with store.begin_write() as tx:
                    bank = await BankService(clock, ids, EventLog(clock, LocalSignals()), {}).create(
                        tx, NewBank(name=f"t{at}", policy=policy), by="benchmark"
                    )
                for part in _parts(turns, every):
                    async with store.begin_write() as tx:
                        for turn in part:
                            new = NewEpisode(
                                text=turn.text or "…", speaker=turn.speaker, trust=Trust.PERSON, at=turn.at,
                                conversation=turn.session,
                            )  # fmt: skip
                            await episodes.remember(tx, bank, new)
                    await running.run_pass(bank)
    finally:
        await store.close()
    return DreamCostResult(name=name, turns=sum(map(len, talks)), prompts=mind.prompts)


def _parts(turns: Sequence[DialogueTurn], every: int) -> list[Sequence[DialogueTurn]]:
    if every:
        return [turns[at : at + every] for at in range(0, len(turns), every)]
    return [list(part) for _, part in groupby(turns, key=lambda turn: turn.session)]


def _report(
    size: Size,
    talks: Sequence[Sequence[DialogueTurn]],
    found: Sequence[DreamCostResult],
    tokens: Sequence[int],
    ours: int,
    notes: Sequence[str],
) -> Report:
    whole = tokens[ours - 1]
    a_turn = {at: tokens[at] / each.turns for at, each in enumerate(found)}
    return Report(
        name="dream_cost",
        title=f"What a model is asked to consolidate {len(talks)} talks of {sum(map(len, talks)):,} turns, from start "
        "to end",
        columns=["way", "turns", "calls", "calls a turn", "prompt tokens", "prompt tokens a turn", "of the full text"],
        rows=[
            [
                each.name if at < ours else f"{each.name}: the first {each.turns} turns",
                f"{each.turns:,}",
                f"{len(each.prompts):,}",
                number(len(each.prompts) / each.turns),
                f"{tokens[at]:,}",
                number(a_turn[at]),
                f"{tokens[at] / whole:.2f}" if at < ours else "–",
            ]
            for at, each in enumerate(found)
        ],
        goals=[
            Goal(what=f"{found[at].name}: prompt tokens a turn, {word}", limit=limit, unit="tokens", found=a_turn[at])
            for at in range(2)
            for word, limit in (("limit", LIMIT), ("goal", GOAL))
        ],
        notes=[
            "All operations are on. A prompt is what the model reads: rules, data, and the JSON schema of the answer. "
            "The model is scripted, with an answer for each question; a real one finds more or less, and what it "
            "finds is read again with what is said later about the same.",
            "A sitting is a session of the data. Circadia's calls come while nobody waits; those of the others, turn "
            "by turn, on the hot path, with a stand-in that finds one fact in each turn.",
            "The talks are made up (`benchmarks/talks.py`)." if size.data is None else "The talks came by `--data`.",
            *notes,
        ],
        figures={
            f"{at} {each.name}": {"turns": each.turns, "calls": len(each.prompts), "tokens": tokens[at]}
            for at, each in enumerate(found)
        },
    )
