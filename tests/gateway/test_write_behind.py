"""What is written behind the answers reaches the database once, over lost replies, spool files and further starts."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from circadia.clock import SystemClock, system_milliseconds
from circadia.errors import NotFound, StorageUnavailable
from circadia.gateway.accounting.id_owners import IssuedId, Owners
from circadia.gateway.accounting.journal import LINES, Journal, Line
from circadia.gateway.accounting.write_behind import BacklogSpool
from circadia.gateway.answers.answer_book import ENTRIES, AnswerBookEntry
from circadia.ids import AgentId, BankId, CallId, ConversationId, RandomIds
from circadia.memory.capture.recorder import Exchange, Utterance
from circadia.records.agent import AgentPolicy
from circadia.records.answer import LookupOutcome, SameQuestionVerdict
from circadia.records.bank import Trust
from circadia.records.call import Call, CallStatus
from circadia.records.conversation import Conversation
from circadia.records.event import Event, EventType
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from tests.contract.rows import agent
from tests.contract.test_store_answers import answer, use
from tests.full_disk import FullDiskStore
from tests.watched_store import LostReplyStore

pytestmark = pytest.mark.spec("CLU-31")

ANN, TALK = AgentId("agt_ann"), ConversationId("talk")
NOW = datetime(2026, 3, 29, 1, 0, 0, 123457, tzinfo=UTC)
LINES_WRITTEN = 4_500
"""More than two batches."""


def build_journal(folder: Path, store: Store) -> Journal:
    clock = SystemClock()
    spool = BacklogSpool[Line](folder / "spool", RandomIds(system_milliseconds), "journal", LINES)
    return Journal(clock, store, spool, EventLog(clock, LocalSignals()), lambda _: None)


def put_lines(journal: Journal, count: int) -> None:
    """Queue so many events, and with each a turn of one conversation; one call besides."""
    for number in range(count // 2):
        journal.put(Event(type=EventType.HELD, at=NOW, session="default", agent="ann", data={"tag": number}))
        journal.put(Conversation(id=TALK, agent_id=ANN, turns=1, version=1, at=NOW))
    journal.put(
        Call(
            id=CallId("cal_1"), at=NOW, agent_id=ANN, session="default", agent="ann", upstream="openai",
            endpoint="chat_completions", model="m", status=CallStatus.DONE, input_tokens=7, output_tokens=1,
        )
    )  # fmt: skip


async def require_once(store: Store, count: int) -> None:
    """Check that all these lines are in the database once, the events in order."""
    async with store.begin_write() as tx:
        await tx.events.assign_numbers()
    async with store.begin_read() as tx:
        events = await tx.events.find_after(0, limit=2 * count)
        talk = await tx.conversations.get(ANN, TALK)
        (usage,) = await tx.calls.sum_by_group("agent")
    assert [event.data["tag"] for event in events] == list(range(count // 2))
    assert talk is not None
    assert (talk.turns, talk.at) == (count // 2, NOW)
    assert (usage.calls, usage.input_tokens) == (1, 7)


def list_spool(folder: Path) -> list[str]:
    return sorted(path.suffix for path in (folder / "spool").iterdir()) if (folder / "spool").exists() else []


async def recover(journal: Journal) -> None:
    """Let the journal write what earlier processes have left, as its task does first."""
    await journal._recover()  # pyright: ignore[reportPrivateUsage] # its task would go on for ever


async def test_a_batch_whose_commit_lost_its_reply_is_written_once(tmp_path: Path, either_store: Store) -> None:
    store = LostReplyStore(either_store)
    journal = build_journal(tmp_path, store)
    put_lines(journal, 20)
    store.lost = 1
    with pytest.raises(StorageUnavailable):
        await journal.flush()
    assert journal.waiting == 21
    await journal.flush()
    await require_once(either_store, 20)
    assert (journal.waiting, journal.dropped) == (0, 0)


@pytest.mark.parametrize("kind", [FullDiskStore, LostReplyStore], ids=["refused", "reply lost"])
async def test_what_the_database_did_not_take_is_spooled_and_written_once_over_starts_that_break_off(
    tmp_path: Path, either_store: Store, kind: Callable[[Store], FullDiskStore | LostReplyStore]
) -> None:
    store = kind(either_store)
    journal = build_journal(tmp_path, store)
    put_lines(journal, LINES_WRITTEN)
    if isinstance(store, FullDiskStore):
        store.full = True
    else:
        store.lost = 1
    await journal.close()
    (file,) = (tmp_path / "spool").iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    for _ in range(3):  # each start ends after a write, before it hears of it
        store = LostReplyStore(either_store)
        store.lost = 1
        with pytest.raises(StorageUnavailable):
            await recover(build_journal(tmp_path, store))
    await recover(build_journal(tmp_path, either_store))
    await require_once(either_store, LINES_WRITTEN)
    assert list_spool(tmp_path) == []


ANSWER = answer("ans_1", BankId("b"))
SAID = Utterance(text="tea", speaker="ann", trust=Trust.PERSON, key="k", unique=True, at=NOW)
ENTRIES_OF_QUEUES: list[object] = [
    Exchange(policy=AgentPolicy(bank="b", max_usd_per_day=1.5), user=None, conversation="talk", said=[SAID]),
    AnswerBookEntry(
        bank=BankId("b"), generation=2, agent=replace(agent("ann"), policy=AgentPolicy(bank="b")),
        outcome=LookupOutcome.HIT, at=NOW, use=use("use_1", ANSWER), answer=ANSWER, basis=ANSWER.basis,
    ),
    SameQuestionVerdict(id="v", bank_id=BankId("b"), answer_id=ANSWER.id, same=True, at=NOW),
]  # fmt: skip


@pytest.mark.parametrize("entry", ENTRIES_OF_QUEUES, ids=lambda entry: type(entry).__name__)
async def test_what_waits_for_memory_and_of_ready_answers_comes_back_from_the_disk_as_it_was(
    tmp_path: Path, entry: object
) -> None:
    spool = BacklogSpool[object](tmp_path / "spool", RandomIds(system_milliseconds), "any", [Exchange, *ENTRIES])
    backlog = spool.start_backlog()
    backlog.entries.append(entry)
    spool.save(backlog, backlog.entries)
    ((path, loaded),) = spool.load()
    stored = path.read_bytes()
    spool.save(loaded, loaded.entries)
    assert path.read_bytes() == stored
    assert loaded.name == backlog.name
    assert [type(each) for each in loaded.entries] == [type(entry)]


async def test_half_a_character_costs_no_spool_file(tmp_path: Path) -> None:
    spool = BacklogSpool[Exchange](tmp_path / "spool", RandomIds(system_milliseconds), "exchanges", [Exchange])
    half = Exchange(policy=AgentPolicy(), user="u", conversation="c", said=[replace(SAID, text="a\ud800b")])
    spool.save(spool.start_backlog(), [half])
    ((_, loaded),) = spool.load()
    assert [said.text for said in loaded.entries[0].said] == ["a?b"]


async def test_lines_that_come_after_the_first_close_are_spooled_by_the_second(
    tmp_path: Path, either_store: Store
) -> None:
    store = FullDiskStore(either_store)
    journal, store.full = build_journal(tmp_path, store), True
    for number in range(2):
        journal.put(Event(type=EventType.HELD, at=NOW, data={"tag": number}))
        await journal.close()
    assert list_spool(tmp_path) == [".jsonl", ".jsonl"]
    await recover(build_journal(tmp_path, either_store))
    async with either_store.begin_write() as tx:
        await tx.events.assign_numbers()
    async with either_store.begin_read() as tx:
        assert [event.data["tag"] for event in await tx.events.find_after(0)] == [0, 1]


async def test_a_draft_that_a_kill_has_broken_off_is_deleted_at_the_next_start(
    tmp_path: Path, sqlite_store: Store
) -> None:
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "journal-bkl_0.draft").write_bytes(b'{"name":')
    await recover(build_journal(tmp_path, sqlite_store))
    assert list_spool(tmp_path) == []


@pytest.mark.parametrize("damage", [b"", b"{}\n", b'{"name":'], ids=["empty", "another", "half"])
async def test_a_damaged_spool_file_is_set_aside_with_a_log_line_and_the_others_are_written(
    tmp_path: Path, sqlite_store: Store, caplog: pytest.LogCaptureFixture, damage: bytes
) -> None:
    store = FullDiskStore(sqlite_store)
    journal, store.full = build_journal(tmp_path, store), True
    put_lines(journal, 20)
    await journal.close()
    (good,) = (tmp_path / "spool").iterdir()
    content = good.read_bytes()
    (tmp_path / "spool" / "journal-bkl_0.jsonl").write_bytes(damage)
    (tmp_path / "spool" / "journal-bkl_1.jsonl").write_bytes(content.replace(b'"tag": 3', b'"tag": 4'))
    await recover(build_journal(tmp_path, sqlite_store))
    await require_once(sqlite_store, 20)
    assert list_spool(tmp_path) == [".damaged", ".damaged"]
    assert caplog.text.count("cannot read") == 2


async def test_a_line_that_the_database_rejects_costs_no_other_one(tmp_path: Path, either_store: Store) -> None:
    journal = build_journal(tmp_path, either_store)
    put_lines(journal, 20)
    journal.put(Event(type=EventType.HELD, at=NOW.replace(tzinfo=None)))  # a time without a zone
    await journal.flush()
    await require_once(either_store, 20)
    assert (journal.waiting, journal.dropped) == (0, 1)


async def test_the_rest_of_a_batch_with_a_rejected_line_is_written_before_the_next_batch(
    tmp_path: Path, either_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("circadia.gateway.accounting.journal._BATCH", 8)
    journal = build_journal(tmp_path, either_store)
    journal.put(Event(type=EventType.HELD, at=NOW.replace(tzinfo=None)))
    put_lines(journal, 20)
    await journal.flush()
    await require_once(either_store, 20)
    assert (journal.waiting, journal.dropped) == (0, 1)


async def test_lines_that_may_be_written_already_are_not_taken_out_to_be_written_again(
    tmp_path: Path, sqlite_store: Store
) -> None:
    store = LostReplyStore(sqlite_store)
    journal = build_journal(tmp_path, store)
    put_lines(journal, 20)
    store.lost = 1
    with pytest.raises(StorageUnavailable):
        await journal.flush()
    journal.put(later := Event(type=EventType.HELD, at=NOW, data={"tag": 10}))
    assert journal.take_out(lambda _: True) == [later]
    await journal.flush()
    await require_once(sqlite_store, 20)


async def test_above_its_bound_a_queue_drops_the_oldest_lines_and_counts_them(
    tmp_path: Path, sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("circadia.gateway.accounting.journal.BOUND", 15)
    journal = build_journal(tmp_path, sqlite_store)
    for number in range(20):
        journal.put(Event(type=EventType.HELD, at=NOW, data={"tag": number}))
    assert (journal.waiting, journal.dropped) == (15, 5)
    await journal.flush()
    async with sqlite_store.begin_write() as tx:
        await tx.events.assign_numbers()
    async with sqlite_store.begin_read() as tx:
        assert [event.data["tag"] for event in await tx.events.find_after(0)] == list(range(5, 20))


class FaultyStore(LostReplyStore):
    """A store that rejects what is written first, and is lost after some more writes."""

    is_faulty = True

    def before_commit(self) -> None:
        if self.is_faulty:
            self.is_faulty = False
            raise ValueError("a fault that is mended before the next start")


async def test_a_start_that_breaks_off_among_the_lines_of_a_batch_that_failed_writes_none_of_them_twice(
    tmp_path: Path, either_store: Store
) -> None:
    full, broken = FullDiskStore(either_store), FaultyStore(either_store)
    journal, full.full = build_journal(tmp_path, full), True
    put_lines(journal, 20)
    await journal.close()
    broken.spared, broken.lost = 5, 1
    with pytest.raises(StorageUnavailable):
        await recover(build_journal(tmp_path, broken))
    assert not broken.is_faulty
    await recover(build_journal(tmp_path, either_store))
    await require_once(either_store, 20)


def build_owners(folder: Path, store: Store) -> Owners:
    spool = BacklogSpool[IssuedId](folder / "spool", RandomIds(system_milliseconds), "owners", [IssuedId])
    return Owners(SystemClock(), store, spool)


@pytest.mark.spec("GATE-60")
async def test_while_owners_of_ids_wait_for_the_database_no_further_answer_waits_for_it(
    tmp_path: Path, sqlite_store: Store
) -> None:
    ann, bob, ids = agent("ann"), agent("bob"), ["file-1", "file-2", "file-3"]
    store = FullDiskStore(sqlite_store)
    owners, store.full = build_owners(tmp_path, store), True
    for each in ids:
        await owners.record(ann, "openai", [each])
    assert store.refused == 1
    await owners.require(ann, "openai", ids)
    store.full = False
    await owners.flush()
    elsewhere = build_owners(tmp_path, sqlite_store)
    await elsewhere.require(ann, "openai", ids)
    for each in ids:
        with pytest.raises(NotFound, match="was not handed to 'bob'"):
            await elsewhere.require(bob, "openai", [each])


@pytest.mark.spec("GATE-60")
async def test_an_id_that_is_issued_again_stays_the_first_agents_at_each_gateway(
    tmp_path: Path, sqlite_store: Store
) -> None:
    ann, bob = agent("ann"), agent("bob")
    first, second = (build_owners(tmp_path / name, sqlite_store) for name in ("1", "2"))
    await first.record(ann, "openai", ["file-1"])
    await second.record(bob, "openai", ["file-1"])
    for gateway in (first, second):
        await gateway.require(ann, "openai", ["file-1"])
        with pytest.raises(NotFound):
            await gateway.require(bob, "openai", ["file-1"])
