"""What people and agents read costs the same, whatever is stored, and has a bound in bytes."""

import asyncio
import gzip
import json
import sqlite3
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from circadia.api.app import openapi_document
from circadia.ids import AlertId, MessageId, hash_token
from circadia.records.alert import AlertRecord
from circadia.records.approval import ApprovalStatus
from circadia.records.event import EventType
from circadia.records.hook import Hook, HookDelivery, HookSpec
from circadia.records.pulse import PulseStatus
from circadia.records.span import Span, SpanKind
from circadia.records.wake import Decision
from circadia.settings.root import RetentionSettings
from circadia.stores.base import Tx
from circadia.stores.sqlite import open_sqlite
from circadia.testing.clock import ManualClock
from tests.api.service import ADMIN, Service, serving
from tests.contract.rows import T0, agent, call, event, message, session, stored, thread
from tests.contract.sleep_rows import asked, banks_of, change, sleep_pass
from tests.contract.test_store_approvals import FIRST
from tests.contract.wake_rows import pulse, wake
from tests.fixtures.database_file import put_database, write_beside
from tests.fixtures.many_rows import count_steps, multiply
from tests.interaction.live import Live, live
from tests.recording.statement_recorder import SentStatement, recorded

FEW: Final = 1_200
MANY: Final = 10 * FEW
DAY: Final = 86_400_000_000
FOR_EVER: Final = dict.fromkeys(RetentionSettings.model_fields)
TOKEN: Final = "circadia-agent-of-the-tests"
SPAN_DAY: Final = "2026-03-29"
BUSY, TALK = replace(agent("busy"), token_hash=hash_token(TOKEN)), thread()
"""The agent and the thread that have most of the rows."""
NAMES: Final[Mapping[str, str]] = {
    "session": "default", "agent": "busy", "thread": TALK.id, "bank": "team", "wake": "w_1", "root": "p_1",
    "pulse": "p_1", "pass": "p1", "label": "human", "episode": "epi_1", "note": "", "answer": "", "dream": "",
    "folder": "", "call": "c1", "message": "m", "approval": "apr_1", "alert": "alr_1", "hook": "github",
}  # fmt: skip
QUERIES: Final = (
    "/events?order=newest&session=default&agent=busy&limit=100", "/events?order=newest&type=message&limit=100",
    "/events?order=newest&session=default&agent=busy&type=answers_trusted", "/events?order=newest&agent=busy&limit=100",
    "/events?order=newest&session=default&limit=100", "/events?agent=busy&type=alert", "/events?after=100&limit=100",
    *(f"/usage?group_by={by}&limit=100" for by in ("model", "day", "agent", "end_user", "conversation", "day,agent")),
    "/usage?since=2026-03-29&group_by=tier", "/usage?agent=busy&session=default", "/sessions?closed=true&limit=100",
    "/sessions/default/threads?closed=false&limit=100", "/sessions/default/threads?limit=100", "/agents?limit=100",
    "/sessions/default/agents?limit=100", f"/sessions/default/threads/{TALK.id}/messages?limit=100",
    "/agents/busy/pulses?limit=100", "/wakes?agent=busy&limit=100", "/agents/busy/inbox?limit=100",
    "/banks/team/episodes?limit=100", "/banks/team/blocks/human/history?limit=100", "/passes?limit=100",
    "/passes/p1/changes?limit=100", "/banks/team/passes?limit=100",
    "/calls?limit=100&agent=busy", "/calls?limit=100&until=2026-03-29", "/approvals?status=used&limit=100",
    "/approvals?agent=busy&limit=100", "/alerts?cause=budget&limit=100", "/alerts?open=true&limit=100",
    f"/timeline?since={SPAN_DAY}&until={SPAN_DAY}T06:00:00Z", f"/timeline.csv?agent=busy&since={SPAN_DAY}&limit=1",
)  # fmt: skip
SLOWER: Final = {
    "wake_matrix": "counts all wakes of its range",
    "list_blocks": "looks at all versions of the bank's blocks",
    "show_context": "looks at all versions of the bank's blocks",
    "export_bank": "is the whole bank, as a stream",
    "search_bank": "loads the index of the bank once",
    "follow_events": "is a stream",
    "show_chain": "is a whole chain",
    "show_sleeptime_of_all": "asks all banks",
    "show_overview": "counts all agents",
    "show_bank": "counts the episodes of the bank",
    "list_banks": "counts the episodes of the banks",
    "show_sleeptime": "counts the backlog of the bank",
    "resume_answer": "is of its caller alone",
    "report_savings": "adds up how long calls waited for people in its range of days",
    "search": "looks at up to 2,000 names of each kind",
    "sum_timeline": "counts all agents",
    "estimate_pass": "measures the backlog of the bank",
}
"""Operations that cost more the more is stored, and why."""


async def fill(folder: Path, number: int) -> None:
    """Store rows of each kind, so many of the busy agent, thread and bank."""
    store = await open_sqlite(put_database(folder))
    await stored(store, session(), session("old"), BUSY, agent("rest"), TALK)
    (bank,) = await banks_of(store, "team")
    async with store.begin_write() as tx:
        await tx.threads.join(TALK.id, BUSY.id, BUSY.created_at)
        await tx.messages.add(message("m", to=TALK), [(BUSY.id, False)])
        await tx.events.add([replace(event(1), session="default", agent="busy")])
        await tx.events.add([replace(event(2, kind=EventType.ANSWERS_TRUSTED), session="default", agent="busy")])
        await tx.wakes.add(wake("w", BUSY, decision=Decision.ADMITTED))
        await tx.pulses.add(pulse("p", BUSY, status=PulseStatus.SUCCEEDED, ended_at=BUSY.created_at))
        await tx.passes.add(replace(sleep_pass("p1", bank), ended_at=BUSY.created_at))
        await tx.passes.save_changes([change("p1", 1)])
        await tx.sleep_calls.add(asked("c", bank))
        lines = [replace(call(f"c{each}", by=BUSY), conversation=f"v{each}", end_user=f"u{each}") for each in range(9)]
        await tx.calls.add(lines)
        await _add_waiting(tx)
    await store.close()
    with closing(sqlite3.connect(folder / "circadia.db", isolation_level=None, timeout=60)) as database:
        database.execute("BEGIN")
        _multiply_all(database, number)
        database.execute("COMMIT")


async def _add_waiting(tx: Tx) -> None:
    """Store an approval, an alert that somebody cared for, a hook with a delivery, and a span."""
    await tx.approvals.add(
        replace(FIRST, agent_id=BUSY.id, agent="busy", status=ApprovalStatus.USED, decided_at=T0, closed_at=T0)
    )
    alert = AlertRecord(id=AlertId("alr_1"), cause="budget", session="default", agent="busy", at=T0, detail={})
    await tx.alert_history.add(replace(alert, acknowledged_at=T0, acknowledged_by="operator"))
    spec = HookSpec.model_validate({"agent": "busy", "signature": "github", "secret_env": "GITHUB_SECRET"})
    await tx.hooks.put(Hook(name="github", spec=spec, in_file=False, created_at=T0, created_by="operator"))
    delivery = HookDelivery(hook="github", delivery_id="d1", digest="d1", at=T0, message_id=MessageId("m"))
    await tx.hook_deliveries.add(delivery)
    asleep = Span(agent_id=BUSY.id, session="default", agent="busy", kind=SpanKind.ASLEEP, started_at=T0, ended_at=T0)
    await tx.spans.add(asleep)


def _multiply_all(database: sqlite3.Connection, number: int) -> None:
    multiply(database, "sessions", number, "name = 'old'", id="'s_' || i", name="'old' || i", status="'closed'")
    multiply(database, "agents", number, "name = 'rest'", id="'a_' || i", name="'a' || i", token_hash="'t' || i")
    multiply(database, "threads", number, id="'thr_x' || i", name="'t' || i", status="'closed'")
    multiply(database, "participants", number, thread_id="'thr_x' || i")
    multiply(
        database, "messages", number, number="NULL", id="'m_' || i", key="NULL", content="'word ' || i", indexed="1"
    )
    multiply(database, "deliveries", number, message_id="'m_' || i", number="i + 1", state="'handled'")
    multiply(database, "events", number, "type = 'message'", number="NULL")
    times = {name: f"source.{name} - i * {DAY} / 60" for name in ("at", "decided_at", "created_at", "ended_at")}
    multiply(database, "wakes", number, number="NULL", id="'w_' || i", root_id="'p_' || i", key="NULL", **times)
    multiply(database, "pulses", number, id="'p_' || i", root_id="'p_' || i", wake_id="'w_' || i", **times)
    multiply(database, "passes", number, id="'p_' || i")
    database.execute("UPDATE passes SET ended_at = strftime('%s', 'now') * 1000000")  # else they are deleted
    multiply(database, "pass_changes", number, number="i + 1")
    span_times = {name: f"source.{name} - i * {DAY} / 60" for name in ("started_at", "ended_at")}
    multiply(database, "spans", number, number="NULL", summed="1", **span_times)
    multiply(database, "approvals", number, id="'apr_x' || i", digest="'d' || i")
    multiply(database, "alert_history", number, id="'alr_x' || i")
    multiply(database, "hook_deliveries", number, delivery_id="'d_' || i", digest="'d_' || i")
    multiply(database, "calls", number, id="'c_' || i", at=f"source.at - (i % 90) * {DAY}", conversation="'v_' || i")
    for scope, name in (("agent", "agent = 'busy'"), ("end_user", "1")):
        multiply(
            database, "usage_days", number, f"scope = '{scope}' AND {name}", day="source.day - i % 90",
            agent="'a' || (i / 5)", end_user="CASE scope WHEN 'end_user' THEN 'u' || (i / 5) ELSE '' END",
            model="'m' || (i % 2)",
        )  # fmt: skip


@asynccontextmanager
async def filled(folder: Path, number: int, **sections: Any) -> AsyncGenerator[Live]:
    folder.mkdir()
    await fill(folder, number)
    async with live(folder, retention=FOR_EVER, limits={"keep_handled_days": None}, **sections) as running:
        yield running


@asynccontextmanager
async def serving_without_background(folder: Path, number: int) -> AsyncGenerator[Service]:
    folder.mkdir()
    await fill(folder, number)
    clock = ManualClock()
    clock.advance(365 * 86_400)
    async with serving(folder, clock=clock) as service:
        await service.ok("POST", "/banks/team/episodes", {"text": "Ann lives in Porto.", "speaker": "ann"})
        await service.ok("PUT", "/banks/team/blocks/human", {"value": "Ann", "why": "she said so"})

        def write(database: sqlite3.Connection) -> None:
            multiply(database, "episodes", number, number="NULL", id="'epi_' || i", key="NULL", digest="'d' || i")
            multiply(database, "blocks", 200, version="source.version + i")

        await write_beside(folder / "circadia.db", write)
        yield service


def list_paths() -> list[tuple[str, str]]:
    """Return path and operation of each GET with the names of things that are there, and a small page."""
    paths: list[tuple[str, str]] = []
    for path, operations in openapi_document()["paths"].items():
        if "get" in operations:
            filled_in = path.removeprefix("/api/v1").format_map(NAMES)
            given = {each["name"]: each for each in operations["get"].get("parameters", ())}
            page = [f"limit={min(100, given['limit']['schema'].get('maximum', 100))}"] if "limit" in given else []
            query = "&".join([*page, *["q=word"] * ("q" in given and given["q"]["required"])])
            paths.append((filled_in + f"?{query}" * bool(query), operations["get"]["operationId"]))
    return [each for each in paths if "//" not in each[0] and not each[0].endswith("/")]


async def measure(folder: Path, service: Service, path: str) -> int:
    """Return the steps of the statements of a GET; a second call, which finds caches filled."""
    sent: list[SentStatement] = []
    headers = {"authorization": f"Bearer {ADMIN}"}
    for look in (nullcontext(), recorded(sent.append)):
        with look:
            async with service.http.get(f"{service.url}/api/v1{path}", headers=headers) as answer:
                assert answer.status == 200, (path, await answer.text())
                await answer.read()
    with closing(sqlite3.connect(folder / "circadia.db", isolation_level=None, timeout=60)) as database:
        selects = [each for each in sent if each.text.lstrip().upper().startswith(("SELECT", "WITH"))]
        return sum(count_steps(database, each.text, each.values) for each in selects)


@pytest.mark.spec("LARGE-05")
async def test_each_get_reads_the_same_of_ten_times_as_many_rows(tmp_path: Path) -> None:
    paths = [path for path, operation in list_paths() if operation not in SLOWER] + [*QUERIES]
    steps: list[dict[str, int]] = []
    for number in (FEW, MANY):
        async with serving_without_background(tmp_path / str(number), number) as service:
            steps.append({path: await measure(tmp_path / str(number), service, path) for path in paths})
    few, many = steps
    slower = {path: (few[path], many[path]) for path in paths if many[path] > 1.5 * few[path] + 200}
    assert slower == {}


@pytest.mark.spec("LARGE-05")
@pytest.mark.setting("server.operator_read_seconds")
async def test_four_slow_reads_of_a_viewer_turn_nothing_red_and_hold_up_no_agent(tmp_path: Path) -> None:
    slow = "/wakes/matrix?since=2000-01-01"
    async with filled(tmp_path / "data", 1, server={"operator_read_seconds": 0.3}) as running:

        def write(database: sqlite3.Connection) -> None:
            sender = "'s' || (i * 7919 % 65536)"
            multiply(database, "wakes", 400_000, number="NULL", id="'x_' || i", key="NULL", sender=sender)

        await write_beside(tmp_path / "data" / "circadia.db", write)
        token = await running.agent()
        viewer = (await running.rest("POST", "/tokens", {"name": "eye", "role": "viewer"}))[1]["token"]
        reads = [asyncio.create_task(running.rest("GET", slow, token=viewer)) for _ in range(4)]
        while not all(each.done() for each in reads):
            async with running.http.get(f"{running.url}/readyz") as ready:
                assert ready.status == 200
            assert (await running.rest("GET", "/sessions/default/threads", token=token))[0] == 200
        for status, problem in await asyncio.gather(*reads):
            assert (status, problem["code"]) == (504, "read_too_slow")
            assert "since" in problem["detail"]
        assert (await running.rest("GET", "/overview", token=viewer))[0] == 200


@pytest.mark.spec("LARGE-05")
async def test_a_page_of_long_episodes_has_4_mb_at_most_and_goes_on_where_it_ended(tmp_path: Path) -> None:
    async with filled(tmp_path / "data", 1) as running:
        await running.rest("POST", "/banks/team/episodes", {"text": "Ann lives in Porto.", "speaker": "ann"})

        def write(database: sqlite3.Connection) -> None:
            multiply(database, "episodes", 120, number="NULL", id="'e_' || i", text="printf('%.*c', 100000, 'x')")
            multiply(database, "messages", 120, number="NULL", id="'l_' || i", content="printf('%.*c', 64000, 'x')")

        await write_beside(tmp_path / "data" / "circadia.db", write)
        for path, key, number in (
            ("/banks/team/episodes", "episodes", 121),
            (f"/sessions/default/threads/{TALK.id}/messages", "messages", 122),
        ):
            rows, after, pages = 0, 0, 0
            while pages == 0 or after:
                headers = {"authorization": f"Bearer {ADMIN}"}
                async with running.http.get(
                    f"{running.url}/api/v1{path}?limit=1000&after={after}", headers=headers
                ) as answer:
                    body = await answer.read()
                assert len(body) <= 4_000_000
                page = json.loads(body)
                rows, pages = rows + len(page[key]), pages + 1
                after = page["after"] if page[key] else 0
            assert rows == number


@pytest.mark.spec("LARGE-05")
async def test_an_agent_lists_thousands_of_closed_threads_in_pages_of_a_few_statements(tmp_path: Path) -> None:
    async with filled(tmp_path / "data", MANY) as running:
        sent: list[SentStatement] = []
        threads: list[str] = []
        query = "?limit=1000"
        with recorded(sent.append):
            while True:
                page = (await running.rest("GET", f"/sessions/default/threads{query}", token=TOKEN))[1]
                threads += [each["id"] for each in page["threads"]]
                if page["next"] is None:
                    break
                query = f"?limit=1000&after={page['next']}"
        assert len(threads) == len(set(threads)) == MANY + 1
        assert len([each for each in sent if " threads" in each.text or " participants" in each.text]) <= 13 * 3


@pytest.mark.spec("LARGE-05")
async def test_long_answers_of_the_api_are_compressed_and_streams_are_not(tmp_path: Path) -> None:
    asking = {"authorization": f"Bearer {ADMIN}", "accept-encoding": "gzip"}
    async with filled(tmp_path / "data", FEW) as running, aiohttp.ClientSession(auto_decompress=False) as http:
        async with http.get(f"{running.url}/api/v1/agents", headers=asking) as answer:
            body = await answer.read()
            assert answer.headers["content-encoding"] == "gzip"
        plain = gzip.decompress(body)
        assert len(json.loads(plain)["agents"]) == FEW + 2
        assert len(body) * 5 < len(plain)
        for path in ("/api/v1/me", "/api/v1/events/stream"):  # short, and a stream
            async with http.get(f"{running.url}{path}", headers=asking) as answer:
                assert "content-encoding" not in answer.headers
        async with http.post(
            f"{running.url}/llm/openai/v1/chat/completions", headers=asking, json={"model": "m", "messages": []}
        ) as answer:
            assert "content-encoding" not in answer.headers
