"""An agent's inbox with ten thousand unread messages: list, count and search through REST, next to a short one."""

import json
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.holds import quantile
from benchmarks.postgres import NoPostgres, analyze, postgres
from benchmarks.processes import cpu_seconds
from benchmarks.report import Goal, Report, number
from benchmarks.server import Circadia, circadia
from circadia.clock import SystemClock, system_milliseconds
from circadia.ids import AgentId, MessageId, RandomIds, SessionId, hash_token
from circadia.records.agent import Agent, Cause
from circadia.records.message import Priority
from circadia.records.principal import Principal
from circadia.records.session import DEFAULT_SESSION, Session, SessionStatus
from circadia.server.wake_wiring import build_wake_services
from circadia.settings import Settings
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.postgres import open_postgres
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite
from circadia.wake.inbox import OutgoingMessage

LIMIT_MS: Final = 20
"""What the last twentieth of the answers may begin at."""
PAGE: Final = 50
"""Messages of a page where no other length is asked for."""
AT_ONCE: Final = 500
"""Messages that one transaction stores, or takes into the index."""
VOCABULARY: Final = (
    "the build of branch main is red since the last merge please look at the log before you go on with the review "
    "because migration parser gateway token cache schedule worker returns wrong order under load and nobody knows why"
)
"""What messages draw their words from."""
WORDS: Final = 40
"""Words of a message, about 230 characters."""
EVERY: Final = {"staging": 1, "regression": 5, "flaky": 100}
"""Every how many messages have this word."""
ONCE: Final = "heisenbug"
"""Stands in the last message only."""
PRIORITIES: Final = (*[Priority.NORMAL] * 8, Priority.HIGH, Priority.LOW)
"""Of the messages, over and over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """One way to ask for an inbox."""

    kind: str
    """`list`, `count` or `search`: which goal it counts for."""
    what: str
    """The same for readers."""
    parameters: Mapping[str, str]
    """Of the request."""
    every: int | None = 1
    """Every how many messages are found; none is one message of all, 0 is none."""

    def found(self, unread: int) -> int:
        """Return how many messages the page has."""
        found = 1 if self.every is None else (unread // self.every if self.every else 0)
        return min(found, int(self.parameters.get("limit", PAGE)))


QUESTIONS: Final = (
    Question(kind="list", what="list, first page", parameters={}),
    Question(kind="list", what="list, page in the middle", parameters={"after": "middle"}),
    Question(kind="list", what="list, oldest first", parameters={"order": "oldest"}),
    Question(kind="count", what="count", parameters={"limit": "1"}),
    Question(kind="search", what="search, in all", parameters={"q": "staging"}),
    Question(kind="search", what="search, in a fifth", parameters={"q": "regression"}, every=5),
    Question(kind="search", what="search, in a hundredth", parameters={"q": "flaky"}, every=100),
    Question(kind="search", what="search, two beginnings", parameters={"q": "fla stag"}, every=100),
    Question(kind="search", what="search, in the last one", parameters={"q": ONCE}, every=None),
    Question(kind="search", what="search, in none", parameters={"q": "unicorn"}, every=0),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    unread: int = 10_000
    """Messages in the long inbox; a multiple of 100."""
    beside: int = 100
    """Messages in the short one; the same."""
    requests: int = 50
    """Requests of a round, for each question to each inbox."""
    rounds: int = 4
    """Rounds, after one that warms up."""


QUICK: Final = Size(unread=200, requests=1, rounds=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """One inbox."""

    agent: Agent
    """Whose."""
    unread: int
    """How many messages it has."""
    middle: MessageId
    """The one in its middle."""

    def asked(self, question: Question) -> dict[str, str]:
        """Return the parameters of the request."""
        return {name: self.middle if name == "after" else value for name, value in question.parameters.items()}


@dataclass(kw_only=True, slots=True)
class Answers:
    """What one question to one inbox took."""

    ms: list[float] = field(default_factory=list[float])
    """Milliseconds of each answer."""
    bare_ms: list[float] = field(default_factory=list[float])
    """The same without a server: the same statements, from this process."""
    cpu_ms: list[float] = field(default_factory=list[float])
    """Milliseconds of the server's processor time for an answer, of each round."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InboxResult:
    """What was measured on one database."""

    database: str
    long: Mapping[str, Answers]
    """Of the long inbox, by question."""
    short: Mapping[str, Answers]
    """Of the short one."""

    def p95(self, kind: str) -> float:
        """Return the 95th centile of the slowest question of a kind, in the long inbox."""
        return max(quantile(self.long[each.what].ms, 0.95) for each in QUESTIONS if each.kind == kind)


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    notes: list[str] = []
    data = folder / "sqlite" / "data"
    data.mkdir(parents=True)
    store = await open_sqlite(data / "circadia.db")
    found = [await _measured("SQLite", store, folder / "sqlite", None, size)]
    try:
        async with postgres() as url:
            store = await open_postgres(url)
            found.append(await _measured("PostgreSQL", store, folder / "postgres", url, size))
    except NoPostgres as error:
        notes.append(f"PostgreSQL is left out: {error}")
    return _report(size, found, notes)


async def _measured(database: str, store: Store, folder: Path, url: str | None, size: Size) -> InboxResult:
    """Fill the store, serve it, and ask; close it at the end."""
    settings: dict[str, Any] = {} if url is None else {"server": {"database_url": url}}
    try:
        boxes = await _filled(store, {"short": size.beside, "long": size.unread})
        if url is not None:
            await analyze(url)
        answers = {box.agent.name: {each.what: Answers() for each in QUESTIONS} for box in boxes}
        async with circadia(folder, settings) as server:
            for number_of_round in range(size.rounds + 1):
                for question in QUESTIONS:
                    for box in boxes:
                        to = answers[box.agent.name][question.what] if number_of_round else Answers()
                        await _ask(server, store, box, question, size.requests, to)
        return InboxResult(database=database, long=answers["long"], short=answers["short"])
    finally:
        await store.close()


async def _filled(store: Store, unread: Mapping[str, int]) -> list[Box]:
    """Make an agent for each inbox, and its messages, all in the index of words.

    The first message is sent as all are; the others are copies of it with words of their own.
    """
    clock, ids, signals = SystemClock(), RandomIds(system_milliseconds), LocalSignals()
    tier = build_wake_services(Settings.model_validate({}), clock, ids, EventLog(clock, signals))
    now = clock.now()
    home = Session(
        id=SessionId(ids.new("ses")), name=DEFAULT_SESSION, status=SessionStatus.OPEN, created_at=now, touched_at=now
    )  # fmt: skip
    async with store.begin_write() as tx:
        await tx.sessions.add(home)
    boxes: list[Box] = []
    for name, length in unread.items():
        agent = Agent(
            id=AgentId(ids.new("agt")), session_id=home.id, session=home.name, name=name, token_hash=hash_token(name),
            asleep=True, since=now, cause=Cause.OPERATOR, actor="operator", created_at=now,
        )  # fmt: skip
        contents = _contents(length)
        async with store.begin_write() as tx:
            await tx.agents.add(agent)
            first = (
                await tier.inbox.send(tx, Principal(), home, OutgoingMessage(to=name, content=contents[0]))
            ).message
        keys = [first.id, *(MessageId(ids.new("msg")) for _ in contents[1:])]
        for begin in range(1, length, AT_ONCE):
            async with store.begin_write() as tx:
                for place in range(begin, min(length, begin + AT_ONCE)):
                    copy = replace(
                        first, id=keys[place], number=0, content=contents[place], root_id=keys[place],
                        priority=PRIORITIES[place % len(PRIORITIES)],
                    )  # fmt: skip
                    await tx.messages.add(copy, [(agent.id, False)])
        boxes.append(Box(agent=agent, unread=length, middle=keys[length // 2 - length // 2 % 10 - 10]))
    await _indexed(store)
    return boxes


async def _indexed(store: Store) -> None:
    """Take all messages into the index of words, as the server does it beside its work."""
    taken = AT_ONCE
    while taken == AT_ONCE:
        async with store.begin_write() as tx:
            taken = await tx.messages.index_next(limit=AT_ONCE)


def _contents(length: int) -> list[str]:
    """Return the texts of the messages, the same in each run."""
    draw, vocabulary = random.Random(length), VOCABULARY.split()
    texts: list[str] = []
    for place in range(length):
        words = [*draw.choices(vocabulary, k=WORDS), *(word for word, every in EVERY.items() if place % every == 0)]
        draw.shuffle(words)
        texts.append(" ".join(words))
    texts[-1] += f" {ONCE}"
    return texts


async def _ask(server: Circadia, store: Store, box: Box, question: Question, requests: int, to: Answers) -> None:
    """Ask so often, one request after the other; then read the same from the database."""
    parameters, path = box.asked(question), f"api/v1/agents/{box.agent.name}/inbox"
    content = b""
    cpu = cpu_seconds(server.pid)
    for _ in range(requests):
        began = time.monotonic()
        async with server.http.get(path, params=parameters) as answer:
            content = await answer.read()
        to.ms.append((time.monotonic() - began) * 1000)
    to.cpu_ms.append((cpu_seconds(server.pid) - cpu) * 1000 / requests)
    page = json.loads(content)
    good = (len(page["messages"]), page["counts"]["unread"]) == (question.found(box.unread), box.unread)
    assert good, f"{question.what} of {box.unread} answered {content[:300]!r}"
    to.bare_ms += [await _bare(store, box, parameters) for _ in range(requests)]


async def _bare(store: Store, box: Box, parameters: Mapping[str, str]) -> float:
    """Return the milliseconds of the reads behind the request, without HTTP and JSON."""
    after = parameters.get("after")
    began = time.monotonic()
    async with store.begin_read() as tx:
        await tx.deliveries.fetch_inbox(
            box.agent.id,
            words=parameters.get("q"),
            urgent_first="order" not in parameters,
            after=None if after is None else MessageId(after),
            limit=int(parameters.get("limit", PAGE)),
        )
        await tx.deliveries.count_by_state(box.agent.id)
    return (time.monotonic() - began) * 1000


def _report(size: Size, found: Sequence[InboxResult], notes: Sequence[str]) -> Report:
    return Report(
        name="inbox",
        title=f"GET /agents/{{a}}/inbox, one at a time, of {size.unread:,} unread messages and of {size.beside:,}",
        columns=[
            "database, question", "p50 ms", "p95 ms", "server CPU ms", "reads alone, p50 ms", "ratio",
            f"p50 ms at {size.beside:,}", f"p95 ms at {size.beside:,}",
        ],
        rows=[_row(each, question.what) for each in found for question in QUESTIONS],
        goals=[
            Goal(
                what=f"{each.database}: {kind} of {size.unread:,}, p95", limit=LIMIT_MS, unit="ms", found=each.p95(kind)
            )
            for each in found
            for kind in dict.fromkeys(question.kind for question in QUESTIONS)
        ],
        notes=[
            f"A page has {PAGE} messages of about 230 characters, with all that is known of each. Every answer tells "
            "the counts of all states too: what is called a count here is the shortest answer, with one message.",
            "A search finds words or their beginnings; the share of messages that have them stands in the line. The "
            "messages were all in the index, and each answer was checked for the number that it must find.",
            "The reads alone are the same statements, in a transaction of the same store, from a process without a "
            "server; the ratio is what HTTP, the check of the token and JSON make of it.",
            "The figure for a goal is that of its slowest line.",
            *notes,
        ],
        figures={each.database: asdict(each) for each in found},
    )  # fmt: skip


def _row(found: InboxResult, what: str) -> list[str]:
    long, short = found.long[what], found.short[what]
    p50, bare = statistics.median(long.ms), statistics.median(long.bare_ms)
    return [
        f"{found.database}, {what}",
        number(p50),
        number(quantile(long.ms, 0.95)),
        number(statistics.median(long.cpu_ms)),
        number(bare),
        number(p50 / bare),
        number(statistics.median(short.ms)),
        number(quantile(short.ms, 0.95)),
    ]
