"""`circadia passes`: what waits and why, passes by hand, what they changed, and taking it back."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from rich.console import Console

from circadia.cli.sleeptime.status import format_price
from circadia.cli.terminal import output
from circadia.clock import SystemClock, system_milliseconds
from circadia.ids import PassId, RandomIds
from circadia.memory.blocks import BlockAuthor, BlockUpdate
from circadia.records.bank import Bank
from circadia.records.change import Change, ChangeKind, ChangeState
from circadia.records.sleep_call import Benefit
from circadia.records.sleep_pass import Pass, PassStatus, Trigger
from circadia.server.memory_wiring import build_memory_services
from circadia.server.sleeptime_wiring import build_sleeptime
from circadia.settings import settings_from
from circadia.sleeptime.publish.publisher import PageProgress
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite
from tests.cli.terminal import refused, run
from tests.fixtures.server_process import CircadiaProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def passes(*words: str) -> Any:
    """Return the JSON that a command prints."""
    result = await run("passes", *words, "--json")
    assert result.status == 0, result.err
    return result.json


async def told(*words: str) -> str:
    """Return what a command tells a person."""
    result = await run("passes", *words)
    assert result.status == 0, result.err
    return result.out + result.err


async def made(bank: str, *texts: str) -> None:
    """Make a bank whose passes begin by hand only, with these episodes."""
    assert (await run("banks", "add", bank)).status == 0
    for text in texts:
        assert (await run("episodes", "add", bank, text, "--speaker", "ann")).status == 0


@dataclass(frozen=True, kw_only=True)
class Worker:
    """Does passes on the server's database as the worker of another process would."""

    store: Store

    async def worked(self, name: str, *, review: bool = False, dry_run: bool = False) -> str:
        """Let a pass do one change of each kind, and return its key."""
        clock, ids, signals = SystemClock(), RandomIds(system_milliseconds), LocalSignals()
        settings = settings_from({})
        memory = build_memory_services(settings, clock, ids, EventLog(clock, signals), None)
        tier = build_sleeptime(settings, clock, ids, memory)
        async with self.store.begin_write() as tx:
            bank = await tx.banks.get_by_name(name)
            assert bank is not None
            edit = BlockUpdate(value="Ann lives in Lisbon.\nAnn has a cat.")
            block = await memory.blocks.write(tx, bank, "human", edit, writer=BlockAuthor.PERSON, by="operator")
            episodes = [each.id for each in await tx.episodes.find_all(bank.id, limit=10)]
            now = clock.now()
            run = Pass(
                id=PassId(ids.new("pas")), bank_id=bank.id, trigger=Trigger.IDLE, by="circadia", review=review,
                dry_run=dry_run, status=PassStatus.RUNNING, epoch=1, attempt=1, owner="another", created_at=now,
                started_at=now, lease_until=now + timedelta(hours=1),
            )  # fmt: skip
            await tx.passes.add(run)
            after: dict[str, Any] = {"value": "Ann lives in Porto.\nAnn has a cat.", "spans": []}
            before: dict[str, Any] = {"value": block.value, "version": block.version, "spans": []}
            changes = [
                _change(ChangeKind.ADD_NOTE, f"not_{run.id}", bank, after=_note(f"not_{run.id}", episodes, now)),
                _change(ChangeKind.WRITE_BLOCK, "human", bank, before=before, after=after),
                _change(
                    ChangeKind.DEMOTE_EPISODE, episodes[0], bank,
                    after={"reason": "she moved", "evidence": episodes[1], "weight": 0.3},
                ),
                _change(ChangeKind.FLAG, episodes[0], bank, after={"text": "Porto or \x1b[31mLisbon?"}),
                _change(ChangeKind.RETIRE_NOTE, "not_gone", bank, before={"text": "an old note"}),
            ]  # fmt: skip
            run = await tier.publisher.publish(tx, run, bank, changes, PageProgress(upto=0, leftovers=()), ())
            await tier.rows.end(tx, bank, run, PassStatus.SUCCEEDED, "")
        return run.id


def _note(key: str, evidence: list[Any], now: Any) -> dict[str, object]:
    return {
        "id": key, "kind": "consolidation", "text": "Ann has moved to Porto.", "evidence": evidence, "trust": "person",
        "importance": None, "at": now.isoformat(),
    }  # fmt: skip


def _change(kind: ChangeKind, target: str, bank: Bank, **more: Any) -> Change:
    return Change(
        pass_id=PassId(""), number=0, operation="consolidate", kind=kind, target=target, why="they say the same",
        at=bank.created_at, **more,
    )  # fmt: skip


@pytest_asyncio.fixture(loop_scope="module")
async def worker(operator: CircadiaProcess) -> AsyncGenerator[Worker]:
    store = await open_sqlite(operator.data / "circadia.db")
    try:
        yield Worker(store=store)
    finally:
        await store.close()


@pytest.mark.spec("SLEEP-03", "SLEEP-61")
async def test_what_waits_and_why_no_pass_begins_is_told(operator: CircadiaProcess) -> None:
    await made("first", "The release is on Friday.")
    assert (await passes("status", "first"))["backlog"]["episodes"] == 1
    assert "1 episodes, 0 completed turns" in await told("status", "first")
    assert "first" in [each["bank"] for each in (await passes())["banks"]]
    assert any(line.startswith("first") for line in (await told()).splitlines())
    assert (await passes("why-not", "first"))["gate"] == "not_yet"
    said = await told("why-not", "first")
    assert "1 episodes wait" in said
    assert "looked at again" in said


@pytest.mark.spec("SLEEP-05", "SLEEP-61")
async def test_status_says_what_the_preset_of_a_bank_means(operator: CircadiaProcess, worker: Worker) -> None:
    await made("nights", "The release is on Friday.")
    async with worker.store.begin_write() as tx:
        bank = await tx.banks.get_by_name("nights")
        assert bank is not None
        await tx.banks.save(replace(bank, policy=bank.policy.model_copy(update={"sleeptime": {"when": "nightly"}})))
    lines = [line.split() for line in (await told("status", "nights")).splitlines()]
    assert ["when", "nightly"] in lines
    assert ["schedule", "`0", "3", "*", "*", "*`", "(UTC),", "for", "3", "h"] in lines
    assert not {"idle", "asleep", "cadence", "lag"} & {line[0] for line in lines if line}


@pytest.mark.spec("SLEEP-88")
async def test_a_bank_without_a_model_and_texts_without_a_vector_are_told(operator: CircadiaProcess) -> None:
    await made("plain", "The release is on Friday.")
    lines = (await told("status", "plain")).splitlines()
    assert [line.split()[:4] for line in lines if line.startswith("model")] == [["model", "none:", "passes", "ask"]]
    assert [line.split()[2:] for line in lines if line.startswith("embedding")] == [["texts", "wait"]]
    assert "model: none: passes ask no model" in await told()
    listed = (await run("banks")).out
    assert "no model" in next(line for line in listed.splitlines() if line.startswith("plain"))


@pytest.mark.spec("SLEEP-61")
async def test_pause_closes_the_gate_and_resume_opens_it(operator: CircadiaProcess) -> None:
    await made("paused", "The release is on Friday.")
    assert "paused passes" in await told("pause", "paused")
    assert "paused by operator (gate paused)" in await told("why-not", "paused")
    assert (await passes("resume", "paused"))["paused_by"] is None
    assert (await passes("pause", "paused"))["paused_by"] == "operator"
    assert "paused: " in await told("resume", "paused")


@pytest.mark.spec("SLEEP-86", "SLEEP-61")
async def test_status_shows_what_operations_bring(operator: CircadiaProcess, worker: Worker) -> None:
    await made("pays", "The release is on Friday.")
    now = SystemClock().now()
    async with worker.store.begin_write() as tx:
        bank = await tx.banks.get_by_name("pays")
        assert bank is not None
        gain = Benefit(
            bank_id=bank.id, operation="reflect", day=now.date(), uses=2, saved_tokens=1_300, saved_seconds=0.0,
            saved_nanousd=0, unpriced_tokens=1_300,
        )  # fmt: skip
        await tx.benefits.add([gain])
    assert "1,300" in await told("status", "pays")


@pytest.mark.spec("SLEEP-02", "SLEEP-60", "SLEEP-61")
async def test_a_pass_by_hand_is_followed_to_its_end_and_then_listed_with_its_record(operator: CircadiaProcess) -> None:
    await made("hand", "The release is on Friday.", "The build is green.")
    done = await passes("run", "hand", "--wait", "--instructions", "Keep the dates.")
    assert done["status"] in ("succeeded", "no_change")
    assert (done["trigger"], done["by"], done["instructions"]) == ("hand", "operator", "Keep the dates.")
    assert (await passes("status", "hand"))["backlog"]["episodes"] == 0
    said = await told("run", "hand", "--dry-run", "--wait")
    assert "dry run" in said
    assert "requested pass" in await told("run", "hand", "--operation", "consolidate")
    assert len((await passes("hand"))["passes"]) == 3
    assert done["id"] in await told("hand", "--limit", "5")
    assert "hand, asked by operator" in await told("explain", done["id"])
    assert (await passes("explain", "hand"))["operations"] == ["consolidate"]
    assert "no pass" in await told("hand", "--status", "failed")


@pytest.mark.spec("SLEEP-32", "SLEEP-61")
async def test_a_pass_is_shown_as_a_diff_and_undone(operator: CircadiaProcess, worker: Worker) -> None:
    await made("diff", "Ann lives in Lisbon.", "Ann has moved to Porto.")
    key = await worker.worked("diff")
    lines = (await told("diff", key)).splitlines()
    for line in (
        f"+ note not_{key} [1] consolidate", "    +Ann has moved to Porto.", "~ block human [2] consolidate",
        "    -Ann lives in Lisbon.", "    +Ann lives in Porto.", "     Ann has a cat.",
        "- note not_gone [refused] consolidate", "    -an old note",
    ):  # fmt: skip
        assert line in lines, lines
    assert any("counts × 0.3" in line for line in lines)
    assert any("+Porto or " in line for line in lines), "what nothing decides is told to a person"
    assert "\x1b[31mLisbon" not in "".join(lines), "a model must not steer the reader's terminal"
    assert [each["state"] for each in (await passes("diff", "diff"))["changes"]].count("published") == 4
    assert "no change" in await told("diff", key, "--state", "undone")
    found = (await run("banks", "explain", "diff", f"not_{key}", "--json")).json
    assert [each["text"] for each in found["evidence"]] == ["Ann lives in Lisbon.", "Ann has moved to Porto."]
    assert "ann: Ann lives in Lisbon." in (await run("banks", "explain", "diff", f"not_{key}")).out
    assert "2 undone" in await told("undo", key, "--change", "1", "--change", "4")
    refused(await run("passes", "undo", key, "--change", "1"), 4, "is not published")
    assert "2 undone" in await told("undo", key)
    assert "no note, block or weight that still exists" in await told("undo", key)
    blocks = (await run("blocks", "--json", "--", "diff")).json
    assert blocks[0]["value"] == "Ann lives in Lisbon.\nAnn has a cat."


@pytest.mark.spec("SLEEP-32", "SLEEP-61")
async def test_what_waits_for_a_person_is_accepted_and_a_dry_run_is_not(
    operator: CircadiaProcess, worker: Worker
) -> None:
    await made("review", "Ann lives in Lisbon.", "Ann has moved to Porto.")
    key = await worker.worked("review", review=True)
    assert {each["state"] for each in (await passes("diff", key))["changes"]} == {ChangeState.STAGED.value}
    numbers = [str(each["number"]) for each in (await passes("diff", key))["changes"]]
    some = await passes("refuse", key, "--change", numbers[0], "--change", numbers[2])
    assert [str(each["number"]) for each in some["changes"] if each["state"] == "refused"] == [numbers[0], numbers[2]]
    accepted = await passes("accept", key)
    assert {each["state"] for each in accepted["changes"]} == {"published", "refused"}
    assert "no change waits for review" in await told("accept", key)
    dry = await worker.worked("review", dry_run=True)
    refused(await run("passes", "accept", dry), 5, "dry run")
    refused(await run("passes", "cancel", key), 5, "succeeded")


@pytest.mark.spec("SLEEP-61")
async def test_passes_over_all_banks_and_the_notes_of_one_are_listed(operator: CircadiaProcess, worker: Worker) -> None:
    await made("listed", "Ann lives in Lisbon.", "Ann has moved to Porto.")
    key = await worker.worked("listed")
    assert (await passes("--status", "succeeded", "--status", "failed"))["passes"][0]["id"] == key
    assert (await passes("--since", "2026-01-01", "--limit", "1"))["passes"][0]["bank"] == "listed"
    assert (await passes("--since", "9999-01-01"))["passes"] == []
    assert "listed" in await told("--status", "succeeded")
    assert (await run("banks", "notes", "listed", "--json")).json["notes"][0]["id"] == f"not_{key}"
    assert "Ann has moved to Porto." in (await run("banks", "notes", "listed", "--state", "live")).out
    assert "no note" in (await run("banks", "notes", "listed", "--state", "retired")).err


@pytest.mark.spec("SLEEP-61")
async def test_mistakes_are_one_line_that_says_what_to_do(operator: CircadiaProcess) -> None:
    await made("mistakes")
    refused(await run("passes", "status", "nobody"), 4, "no bank 'nobody'")
    refused(await run("passes", "run", "mistakes", "--operation", "dedup"), 2, "did you mean 'dedupe'?")
    refused(await run("passes", "undo", "pas_0"), 4, "no pass 'pas_0'")
    refused(await run("passes", "diff"), 2, "'PASS'")
    refused(await run("passes", "--user", "ann"), 2, "needs a bank")
    refused(await run("passes", "mistakes", "--since", "2026-01-01"), 2, "leave the bank out")
    refused(await run("passes", "mistakes", "--status", "failed", "--status", "partial"), 2, "leave the bank out")
    refused(await run("passes", "diff", "mistakes"), 4, "no pass over")
    refused(await run("banks", "explain", "mistakes", "not_0"), 4, "no note")
    refused(await run("passes", "run", "t-{user}"), 2, "end user")


@pytest.mark.spec("SLEEP-61")
async def test_in_a_narrow_terminal_a_pass_keeps_its_key_in_one_piece_and_no_price_is_not_told_as_none(
    operator: CircadiaProcess, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made("narrow", "Ann lives in Lisbon.", "Ann has moved to Porto.")
    key = await worker.worked("narrow")
    monkeypatch.setattr(output, "console", lambda: Console(width=80, highlight=False))
    lines = (await told("narrow")).splitlines()
    assert lines[0].startswith(f"{key}  asked 2")
    said = " ".join(" ".join(lines).split())
    assert "for idle by circadia" in said
    assert "calls 0 tokens 0 cost $0.00 ran 0 s" in said
    assert all(len(each) <= 80 for each in lines)
    assert format_price(7, 0.0) == "no price", "it is not known"
    assert format_price(7, 0.25) == "$0.2500"
