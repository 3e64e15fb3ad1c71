"""What memory costs a proxied model call: capture, injection, and what a provider could cache of a conversation."""

import asyncio
import contextlib
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import count, islice
from pathlib import Path
from typing import Any, Final

from benchmarks.callers import call
from benchmarks.postgres import NoPostgres, analyze, postgres
from benchmarks.prefixes import PATH, RECORDER, SHAPES, SYSTEM, TURNS, Prefixes, prefixes, recorder
from benchmarks.processes import cpu_seconds
from benchmarks.proxy import ProxyResult
from benchmarks.report import Goal, Report, number
from benchmarks.requests import TEXT, wire
from benchmarks.server import Circadia, circadia
from benchmarks.tools import fast_upstream, load
from benchmarks.turns import Turn, Turns, store_turns
from circadia.clock import SystemClock, system_milliseconds
from circadia.ids import RandomIds
from circadia.memory.banks import BankService, NewBank
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.search.vectors import stored_vector
from circadia.records.bank import Bank
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.postgres import open_postgres
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite

MANY: Final = 8
LIMIT_MS: Final = 3
"""What capture and injection may add at the median, on one connection."""
KEPT_SECONDS: Final = 10.0
"""How long is waited at most until all that was said is kept."""
BODY_BYTES: Final = 2048
RATE: Final = 1_500
"""Different requests for a second of a run: more than can be answered while turns are kept."""
SESSION: Final = "memory"
GATE: Final = "gate, no bank"
CAPTURE: Final = "capture"
ASIDE: Final = ", embedding aside"
"""Ends the names of those whose questions were asked before."""
ASKED: Final = "asked"
"""The bank of an agent that asks what others will ask, so that the vectors of their questions are known by then."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    seconds: float = 0.5
    """Length of a run."""
    rounds: int = 3
    """Runs of each case; medians count."""
    every_seconds: float = 0.2
    """How often a call begins where they do not follow each other without a pause."""
    paced_seconds: float = 3.0
    """Length of a run of such calls."""
    settle_seconds: float = 0.6
    """After a run, until what was said is written and embedded: its processor time belongs to the run."""
    episodes: Sequence[int] = (1_000,)
    """In the bank that contexts are taken from; a bank of each."""
    turns: int = 20
    """Of the conversation whose prefix is compared."""
    both: bool = True
    """Whether PostgreSQL is measured too."""


QUICK: Final = Size(
    seconds=0.05, rounds=1, every_seconds=0.01, paced_seconds=0.05, settle_seconds=0.05, episodes=(100,), turns=4,
    both=False,
)  # fmt: skip


@dataclass(frozen=True, order=True, slots=True)
class Case:
    """What is sent: plain or streamed, over so many connections, with pauses or without."""

    streamed: bool
    connections: int
    paced: bool = False

    @property
    def name(self) -> str:
        """In words."""
        return f"{'SSE' if self.streamed else 'plain'}, {self.connections}{', paced' if self.paced else ''}"


PACED: Final = [Case(streamed, 1, paced=True) for streamed in (False, True)]
CASES: Final = [*PACED, *(Case(streamed, connections) for streamed in (False, True) for connections in (1, MANY))]


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """An agent."""

    name: str
    """What memory does for it."""
    bank: str | None
    token: str
    asked_by: str | None = None
    """The token of an agent that asks all its questions before; none if nobody does."""


@dataclass(kw_only=True, slots=True)
class ContextResult:
    """What was found in one database."""

    database: str
    runs: dict[tuple[str, Case], ProxyResult] = field(default_factory=dict[tuple[str, Case], ProxyResult])
    missing: int = 0
    """Turns that were said in the runs and not kept."""
    prefixes: dict[str, Prefixes] = field(default_factory=dict[str, Prefixes])
    """By the shape of the conversation."""

    def added(self, name: str, case: Case) -> float:
        """Return how much longer an answer takes at the median than without a bank, in milliseconds."""
        return self.runs[name, case].p50 - self.runs[GATE, case].p50


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    notes: list[str] = []
    found = [await _measured("SQLite", folder / "sqlite", None, size)]
    if size.both:
        try:
            async with postgres() as url:
                found.append(await _measured("PostgreSQL", folder / "postgres", url, size))
        except NoPostgres as error:
            notes.append(f"PostgreSQL is left out: {error}")
    return _report(size, found, notes)


async def _measured(database: str, folder: Path, url: str | None, size: Size) -> ContextResult:
    data = folder / "data"
    data.mkdir(parents=True)
    store = await (open_postgres(url) if url else open_sqlite(data / "circadia.db"))
    made = Turns(13)
    turns = list(made.make(max(size.episodes)))
    fewest = min(size.episodes)
    questions = (made.question(turns[at * 7919 % fewest]) for at in count())
    try:
        for episodes in size.episodes:
            await fill(store, _bank(episodes), turns[:episodes])
    finally:
        await store.close()
    if url is not None:
        await analyze(url)
    measured = ContextResult(database=database)
    async with contextlib.AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(fast_upstream())
        recorder_port, heard = await stack.enter_async_context(recorder())
        settings: dict[str, Any] = {
            "sleeptime": {"enabled": False},
            "upstreams": {
                "fast": {"base_url": f"http://127.0.0.1:{upstream}"},
                RECORDER: {"base_url": f"http://127.0.0.1:{recorder_port}"},
                f"{RECORDER}-messages": {"base_url": f"http://127.0.0.1:{recorder_port}", "api": "anthropic"},
            },
        }
        if url is not None:
            settings["server"] = {"database_url": url}
        server = await stack.enter_async_context(circadia(folder, settings))
        subjects = await _subjects(server, size)
        number_of_run = count()
        for _ in range(size.rounds):
            for case in CASES:
                for subject in subjects:
                    if subject.asked_by is not None and not case.paced:
                        continue
                    bodies = _bodies(case, size, questions, f"run {next(number_of_run)}")
                    run_found = await _one(folder, server, subject, case, size, bodies)
                    kept = measured.runs.setdefault((subject.name, case), ProxyResult())
                    kept.loads.append(run_found[0])
                    kept.cpu.append(run_found[1])
                    measured.missing += run_found[2]
        tokens = (subjects[0].token, subjects[-1].token)
        for shape in SHAPES:
            asked = list(islice(questions, TURNS if shape.steps else size.turns))
            measured.prefixes[shape.name] = await prefixes(server.port, tokens, shape, asked, heard)
    return measured


def _bank(episodes: int) -> str:
    return f"bench-{episodes}"


def _injection(episodes: int, *, asked: bool = False) -> str:
    return f"capture and injection, {episodes:,}{ASIDE if asked else ''}"


async def fill(store: Store, name: str, turns: Sequence[Turn]) -> Bank:
    """Return a new bank of these turns, embedded as the server does it."""
    clock = SystemClock()
    async with store.begin_write() as tx:
        banks = BankService(clock, RandomIds(system_milliseconds), EventLog(clock, LocalSignals()), {})
        bank = await banks.create(tx, NewBank(name=name), by="benchmark")
    await store_turns(store, bank.id, turns)
    embedder = BundledEmbedder()
    after = 0
    while True:
        async with store.begin_read() as tx:
            page = await tx.episodes.find_all(bank.id, after=after, limit=500)
        if not page:
            return bank
        vectors = await embedder.embed([each.text for each in page])
        async with store.begin_write() as tx:
            numbers = [each.number for each in page]
            await tx.episodes.save_vectors(dict(zip(numbers, map(stored_vector, vectors), strict=True)), embedder.name)
        after = page[-1].number


async def _subjects(server: Circadia, size: Size) -> list[Subject]:
    """Make the agents and their blocks."""
    for name in (CAPTURE, ASKED):
        await server.ask("POST", "banks", {"name": name})
    bound: dict[str, tuple[str | None, bool]] = {ASKED: (ASKED, True), GATE: (None, False), CAPTURE: (CAPTURE, False)}
    for episodes in size.episodes:
        bound[_injection(episodes)] = (_bank(episodes), True)
        for label in ("human", "task"):
            block = {"value": f"What is known of the {label}: {TEXT * 5}", "description": f"about the {label}"}
            await server.ask("PUT", f"banks/{_bank(episodes)}/blocks/{label}", block)
    agents = [
        {"name": f"agent-{at}", "policy": {"bank": bank, "inject": injects, "capture": bank != ASKED}}
        for at, (bank, injects) in enumerate(bound.values())
    ]
    made = await server.ask("POST", "sessions", {"name": SESSION, "agents": agents})
    tokens = {agent["name"]: agent["token"] for agent in made["agents"]}
    first, *subjects = (
        Subject(name=name, bank=bank, token=tokens[f"agent-{at}"]) for at, (name, (bank, _)) in enumerate(bound.items())
    )
    asked = {_injection(episodes): _injection(episodes, asked=True) for episodes in size.episodes}
    again = [replace(each, name=asked[each.name], asked_by=first.token) for each in subjects if each.name in asked]
    return [*subjects, *again]


def _bodies(case: Case, size: Size, questions: Iterator[str], run: str) -> Sequence[bytes]:
    """Return bodies of one size: short conversations, each with a question that nobody has asked."""
    calls = size.paced_seconds / size.every_seconds if case.paced else max(100, size.seconds * RATE)
    return [_body(next(questions), f"{run}, request {at}", case.streamed) for at in range(round(calls) + 1)]


def _body(question: str, head: str, streamed: bool) -> bytes:
    first = {"role": "user", "content": ""}
    said = [SYSTEM, first, {"role": "assistant", "content": TEXT}, {"role": "user", "content": question}]
    request: dict[str, Any] = {"model": "gpt-4o-mini", "max_tokens": 256, "messages": said}
    if streamed:
        request["stream"] = True
    text = f"{head}: "
    missing = BODY_BYTES - len(json.dumps(request)) - len(text)
    first["content"] = text + (TEXT * (missing // len(TEXT) + 1))[:missing]
    return json.dumps(request).encode()


async def _one(
    folder: Path, server: Circadia, subject: Subject, case: Case, size: Size, bodies: Sequence[bytes]
) -> tuple[Any, float, int]:
    """Return one run, the milliseconds of processor time for each of its requests, and turns that were not kept."""
    began = datetime.now(UTC)
    for each in bodies if subject.asked_by is not None else ():
        await (await call(server.port, _wire(server, subject.asked_by, each))).done
    first, *requests = [_wire(server, subject.token, each) for each in bodies]
    file = folder / "requests"
    file.write_bytes(b"".join(requests))
    # Loads the index anew, and the embedder; its turns are forgotten with those of the run.
    await (await call(server.port, first)).done
    await asyncio.sleep(size.settle_seconds)
    before = cpu_seconds(server.pid)
    mark = "data: [DONE]" if case.streamed else '"usage"'
    seconds, every = (size.paced_seconds, size.every_seconds) if case.paced else (size.seconds, 0.0)
    length = len(first)
    found = await load(server.port, case.connections, seconds, file, mark, size=length, every_seconds=every)
    await asyncio.sleep(size.settle_seconds)
    cpu = (cpu_seconds(server.pid) - before) * 1000 / found.requests
    if subject.bank is None:
        return found, cpu, 0
    said = 2 * (min(found.requests, len(requests)) + 1)  # what is asked, and the answer
    return found, cpu, await _forgotten(server, subject.bank, began, said)


def _wire(server: Circadia, token: str | None, body: bytes) -> bytes:
    return wire(server.port, f"/llm/fast{PATH}", body, {"Authorization": f"Bearer {token}"})


async def _forgotten(server: Circadia, bank: str, since: datetime, said: int) -> int:
    """Forget what was said since then; return how much of it was not kept."""
    deadline = time.monotonic() + KEPT_SECONDS
    while True:
        gone = await server.ask("POST", f"banks/{bank}/forget", {"since": since.isoformat()})
        said -= gone["episodes"]
        if said <= 0 or time.monotonic() > deadline:
            return max(0, said)
        await asyncio.sleep(0.05)


def _report(size: Size, found: Sequence[ContextResult], notes: Sequence[str]) -> Report:
    return Report(
        name="context",
        title="What memory adds to a model call with a body of 2 KB; SSE is 20 chunks; each call asks something else",
        columns=["database, case", "agent", "p50 ms", "p99 ms", "added p50 ms", "added p99 ms", "CPU ms a request",
                 "added CPU ms", "requests/s", "bad"],
        rows=[_row(each, name, case) for each in found for case in CASES for name in _names(each, case)],
        goals=[goal for each in found for goal in _goals(each)],
        notes=[
            "Capture keeps the question and the answer as two episodes, behind the answer; injection looks for what "
            "fits the question and adds it, with two blocks, before the call goes upstream. The number is that of "
            "the episodes in the bank; what a run has added is forgotten after it.",
            f"Paced, a call begins each {1000 * size.every_seconds:g} ms, so that what is kept of one is mostly "
            "written and embedded between calls, as where a model takes its time. Otherwise a call follows the answer "
            "before it without a pause, and waits for the processor time of that too: nobody calls so, but it tells "
            "what a process can do. Goals are judged by the paced runs.",
            "The question's own vector, by the default embedder in the process, is waited for and is in all figures "
            "but those with embedding aside: there another agent has asked the same before, of an empty bank, so that "
            "the vectors are known. What lies between both is what it takes.",
            "CPU is user and system time of Circadia's processes, from before a run to 0.6 s after it, divided by its "
            "requests: with the writing of what was said, and with its embedding, for which nobody waits; of paced "
            "runs with what a process does in the pauses.",
            "Passes are switched off: the turns of the bank are years old, so that one would run all the time; "
            "`hot_path` measures calls beside passes.",
            f"{MANY} connections ask without a pause, so each waits for the others' processor time.",
            *(_told(each.database, name, its) for each in found for name, its in each.prefixes.items()),
            *notes,
        ],
        figures={
            each.database: {
                "runs": {
                    f"{case.name}, {name}": {"p50": run.p50, "p99": run.p99, "cpu": run.cpu, "rate": run.rate}
                    for (name, case), run in each.runs.items()
                },
                "prefixes": {name: asdict(its) for name, its in each.prefixes.items()},
            }
            for each in found
        },
    )  # fmt: skip


def _names(found: ContextResult, case: Case) -> list[str]:
    return [name for name, its in found.runs if its == case]


def _goals(found: ContextResult) -> list[Goal]:
    goals = [
        Goal(
            what=f"{found.database}, paced: added p50 of {name} (the worse kind)", limit=LIMIT_MS, unit="ms",
            found=max(found.added(name, case) for case in PACED),
        )
        for name in _names(found, PACED[0]) if name == CAPTURE or name.endswith(ASIDE)
    ]  # fmt: skip
    return [
        *goals,
        Goal(what=f"{found.database}: said and not kept", limit=0, unit="turns", found=found.missing),
        *(
            Goal(
                what=f"{found.database}, {name}: a prefix is shorter than without Circadia plus what was added by",
                limit=0, unit="bytes", found=its.lacking,
            )
            for name, its in found.prefixes.items()
        ),
    ]  # fmt: skip


def _row(found: ContextResult, name: str, case: Case) -> list[str]:
    run, bare = found.runs[name, case], found.runs[GATE, case]
    cpu = statistics.median(run.cpu)
    return [
        f"{found.database}, {case.name}",
        name,
        number(run.p50),
        number(run.p99),
        "–" if name == GATE else number(run.p50 - bare.p50),
        "–" if name == GATE else number(run.p99 - bare.p99),
        number(cpu),
        "–" if name == GATE else number(cpu - statistics.median(bare.cpu)),
        number(run.rate),
        str(run.errors),
    ]


def _told(database: str, name: str, found: Prefixes) -> str:
    """Return what a provider could cache of the conversation, in words."""

    def share(prefixes: Sequence[int], requests: Sequence[int]) -> str:
        # Of the next request: what a provider need not read again.
        return f"{100 * sum(prefixes) / sum(requests[1:]):.0f} %"

    return (
        f"{database}, {name}: of {len(found.requests_with)} requests, each with the whole conversation, one begins as "
        f"the one before did: {number(statistics.mean(found.without))} bytes on average without Circadia, "
        f"{share(found.without, found.requests_without)} of the request; {number(statistics.mean(found.with_))} with "
        f"it, {share(found.with_, found.requests_with)}. {found.breaks} times the oldest half of the additions went, "
        "because all turns may have four times what one may."
    )
