"""What it takes to remember a turn, beside memories that ask a model for facts first, over the same turns."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.holds import quantile
from benchmarks.peer_driver import LANGMEM_MEMORY, MEM0_MEMORY, TOKENS, Memory
from benchmarks.peer_model import ANSWER_SECONDS, model
from benchmarks.peers import NotInstallable
from benchmarks.report import Report, number
from benchmarks.server import circadia
from benchmarks.turns import DIMENSIONS, Turn, Turns

BANK: Final = "bench"
MEMORIES: Final[Sequence[Memory]] = (MEM0_MEMORY, LANGMEM_MEMORY)
CHARACTERS_A_TOKEN: Final = 4
"""Of English, about; where the tokenizer cannot be installed."""
SECONDS: Final = 200.0
"""That a memory may take for all turns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    turns: int = 100
    """Remembered one after the other."""
    peers: bool = True
    """Whether others are set up."""


QUICK: Final = Size(turns=5, peers=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class PeerRememberResult:
    """What one memory took."""

    name: str
    ms: Sequence[float]
    """Of each turn."""
    prompts: Sequence[str]
    """What the model was asked meanwhile."""
    embedded: int
    """Texts that the endpoint was asked for meanwhile."""
    kept: int
    """Memories at the end."""


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    notes: list[str] = []
    turns = list(Turns(5).make(size.turns))
    found = [await _ours(folder / "circadia", turns)]
    for memory in MEMORIES if size.peers else ():
        try:
            found.append(await theirs(memory, folder / memory.driver, [_told(turn) for turn in turns]))
        except NotInstallable as error:
            notes.append(f"{memory.name} is left out: {error}")
            print(notes[-1], flush=True)
    (said, *asked), how = await counted(
        folder, [[_told(turn) for turn in turns], *(each.prompts for each in found)], peers=size.peers
    )
    return _report(found, asked, sum(said) / len(turns), [how, *notes])


def _told(turn: Turn) -> str:
    return f"{turn.speaker}: {turn.text}"


async def _ours(folder: Path, turns: Sequence[Turn]) -> PeerRememberResult:
    """Remember through REST; a model is there, and would count what it is asked."""
    async with model([_told(turn) for turn in turns]) as asked:
        upstream = {"base_url": asked.base_url.removesuffix("/v1")}
        async with circadia(folder, {"upstreams": {"model": upstream}}) as server:
            await server.ask("POST", "banks", {"name": BANK})
            times: list[float] = []
            for turn in turns:
                body = {
                    "text": turn.text,
                    "speaker": turn.speaker,
                    "conversation": turn.session,
                    "at": turn.at.isoformat(),
                }
                began = time.monotonic()
                await server.ask("POST", f"banks/{BANK}/episodes", body)
                times.append((time.monotonic() - began) * 1000)
            kept = await server.ask("GET", f"banks/{BANK}")
    return PeerRememberResult(
        name="Circadia, REST", ms=times, prompts=asked.prompts, embedded=asked.embedded, kept=kept["episodes"]
    )


async def theirs(memory: Memory, folder: Path, told: Sequence[str], *, seconds: float = SECONDS) -> PeerRememberResult:
    """Let another memory remember these turns. Raises NotInstallable."""
    folder.mkdir()
    async with model(told) as asked:
        given = {"turns": list(told), "base_url": asked.base_url, "dimensions": DIMENSIONS}
        found = await memory.run("remember", folder, given, seconds)
    return PeerRememberResult(
        name=memory.name, ms=found["ms"], prompts=asked.prompts, embedded=asked.embedded, kept=found["kept"]
    )


async def counted(folder: Path, texts: Sequence[Sequence[str]], *, peers: bool) -> tuple[list[list[int]], str]:
    """Return the tokens of each text, and how they were counted."""
    what = "in the messages' texts and the tools' JSON of each request"
    flat = [text for part in texts for text in part]
    counts = [len(text) // CHARACTERS_A_TOKEN for text in flat]
    how = f"A token is taken to be {CHARACTERS_A_TOKEN} characters {what}."
    if peers:
        (folder / "tokens").mkdir()
        try:
            counts = (await TOKENS.run("count", folder / "tokens", {"texts": flat}, SECONDS))["tokens"]
            how = f"Tokens are o200k_base's {what}, counted by {TOKENS.name}; a provider adds some of its own."
        except NotInstallable as error:
            how += f" {TOKENS.name} is left out: {error}"
    left = iter(counts)
    return [[next(left) for _ in part] for part in texts], how


def _report(
    found: Sequence[PeerRememberResult], asked: Sequence[Sequence[int]], said: float, notes: Sequence[str]
) -> Report:
    turns = len(found[0].ms)
    ours = statistics.median(found[0].ms)
    return Report(
        name="remember_peers",
        title=f"Remembering a turn of {said:.0f} tokens, {turns} one after the other; a model takes "
        f"{ANSWER_SECONDS * 1000:g} ms to answer",
        columns=[
            "memory", "model calls a turn", "prompt tokens a turn", "p50 ms", "p95 ms", "times Circadia's p50",
            "p50 ms without the model", "memories kept",
        ],
        rows=[
            [
                each.name,
                number(len(each.prompts) / turns),
                number(sum(counts) / turns),
                number(statistics.median(each.ms)),
                number(quantile(each.ms, 0.95)),
                number(statistics.median(each.ms) / ours),
                number(statistics.median(each.ms) - 1000 * ANSWER_SECONDS * len(each.prompts) / turns),
                f"{each.kept}",
            ]
            for each, counts in zip(found, asked, strict=True)
        ],
        goals=[],
        notes=[
            "Circadia keeps the turn and derives nothing from it on the hot path: what others derive here, its sleep "
            "tier derives later, with model calls of its own, from many turns at once. Compare what somebody waits "
            "for, and not the whole cost of a memory.",
            "The model answers with one fact a turn, the turn itself: real ones find several or none, and take "
            "longer for longer prompts. Vectors of others come from an endpoint on this machine without any delay; "
            "Circadia makes its own in the background.",
            "All are given one turn at a time. Given a question with its answer at once, mem0 and LangMem would call "
            "half as often a turn, and so would they with a delay before they look (LangMem's `ReflectionExecutor`).",
            "mem0 runs as after `pip install mem0ai`: `Memory.add`, facts inferred, Qdrant in a folder; LangMem as in "
            "its guide: `create_memory_store_manager` with LangGraph's store, which is in memory and so not durable. "
            "Both run in the caller's process, and Circadia behind HTTP, on SQLite, each turn on the disk.",
            *notes,
        ],
        figures={each.name: {**asdict(each), "prompts": counts} for each, counts in zip(found, asked, strict=True)},
    )  # fmt: skip
