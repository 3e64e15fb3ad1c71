"""The timeline tells what agents did, exactly, however much they did."""

import asyncio
import csv
import io
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine

from circadia.stores.sql.upgrade import MIGRATIONS
from circadia.testing.clock import START, ManualClock
from tests.interaction.live import ADMIN, Live, live

pytestmark = pytest.mark.spec("UI-15")

ROUNDS = 900


def spans(page: Any, *kinds: str, lane: int = 0) -> list[tuple[datetime, datetime | None]]:
    return [
        (datetime.fromisoformat(span["started_at"]), span["ended_at"] and datetime.fromisoformat(span["ended_at"]))
        for span in page["lanes"][lane]["spans"]
        if span["kind"] in kinds
    ]


async def timeline(at: Live, query: str = "") -> Any:
    await at.server.journal.flush()
    status, page = await at.rest("GET", f"/timeline{query}")
    assert status == 200, page
    return page


async def test_the_day_of_a_busy_agent_is_true_to_the_last_span(tmp_path: Path) -> None:
    """2,600 events and 900 sleeps: neither is cut off, and the sums of the day are those of its spans (U1)."""
    clock, random = ManualClock(START + timedelta(hours=22)), Random(1)
    async with live(tmp_path, clock=clock) as at:
        ann = await at.agent()
        truth: dict[str, list[tuple[datetime, datetime | None]]] = {"asleep": [], "awake": [], "held": []}
        since = begun = clock.now()
        for number in range(ROUNDS):
            for asleep in (True, False):
                calls: list[asyncio.Task[Any]] = []
                if not asleep and number % 20 == 0:
                    begun = clock.now()
                    calls = [asyncio.create_task(at.answered(ann)) for _ in range(2)]
                    await at.held(2)
                clock.advance(round(random.uniform(1, 50) if number else 9_000.25, 6))
                truth["awake" if asleep else "asleep"].append((since, clock.now()))
                since = clock.now()
                await at.sleeping(asleep)
                for call in calls:
                    assert (await call)[0] == 200
                    truth["held"].append((begun, since))
        clock.advance(60)
        truth["awake"].append((since, None))
        seen = len((await at.rest("GET", "/events?limit=10000"))[1]["events"])
        assert seen >= 2_600
        midnight = START + timedelta(days=1)
        page = await timeline(at, "?agent=ann&session=default")
        assert page["next"] is None
        assert datetime.fromisoformat(page["since"]) == midnight
        for kind, all_spans in truth.items():
            assert spans(page, kind) == [span for span in all_spans if span[1] is None or span[1] > midnight], kind
        assert spans(page, "awake")[0][0] < midnight  # it began the day before

        def seconds(kind: str) -> float:
            now = clock.now()
            lengths = [(end or now) - max(begin, midnight) for begin, end in truth[kind] if (end or now) > midnight]
            return sum(lengths, timedelta()) / timedelta(seconds=1)

        for _ in range(2):  # before and after the leader has added them up
            sums = (await at.rest("GET", "/timeline/sums"))[1]["sums"]
            assert [each["at"] for each in sums] == sorted(each["at"] for each in sums)
            for kind in truth:
                assert sum(each[f"{kind}_seconds"] for each in sums) == pytest.approx(seconds(kind), abs=1e-6), kind
            async with asyncio.timeout(60):
                while count_unsummed(tmp_path):
                    clock.advance(1)
                    await asyncio.sleep(0.01)


def count_unsummed(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "circadia.db", timeout=60)) as database:
        (count,) = database.execute("SELECT count(*) FROM spans WHERE NOT summed").fetchone()
        return int(count)


async def test_pulses_wakes_and_refusals_are_there_with_what_they_came_from(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        ann, _ = await at.agent(), await at.agent("bob")
        limits = {"wake_guardrails": {"max_wakes_per_day": 2, "cooldown_seconds": 0}}
        assert (await at.rest("PATCH", "/agents/bob/coordination", limits))[0] == 200
        ask = {"to": "bob", "reason": "blocker", "message": "look"}
        await at.sleeping(True, "bob")
        pulses: list[str] = []
        for end in ("sleep", "cancel"):
            wake = (await at.rest("POST", "/wakes", ask, token=ann))[1]
            assert wake["decision"] == "admitted", wake
            pulses.append(wake["pulse"])
            running = (await timeline(at, "?agent=bob"))["lanes"][0]["spans"][-1]
            assert (running["kind"], running["ended_at"], running["ref"]) == ("pulse", None, wake["pulse"])
            if end == "cancel":
                assert (await at.rest("POST", f"/pulses/{wake['pulse']}/cancel"))[0] == 200
            else:
                await at.sleeping(True, "bob")
        await at.sleeping(True, "bob")
        refused = (await at.rest("POST", "/wakes", ask, token=ann))[1]
        assert refused["decision"] == "refused"
        found = (await timeline(at, "?session=default"))["lanes"][1]["spans"]
        told = [(span["by"], span["reason"], span["outcome"], span["ref"]) for span in found if span["kind"] == "pulse"]
        assert told == [("ann", "blocker", "succeeded", pulses[0]), ("ann", "blocker", "cancelled", pulses[1])]
        marks = [
            (span["kind"], span["by"], span["reason"], span["outcome"], span["started_at"] == span["ended_at"])
            for span in found
            if span["kind"] in ("wake", "refusal")
        ]
        assert marks == [("wake", "ann", "blocker", "", True)] * 2 + [
            ("refusal", "ann", "blocker", "max_wakes_per_day", True)
        ]
        (line,) = (await at.rest("GET", "/timeline/sums?group_by=fleet"))[1]["sums"]
        assert (line["session"], line["pulses"], line["failed"], line["wakes"], line["refusals"]) == ("", 2, 0, 2, 1)


async def test_pages_lead_through_all_agents_and_a_deleted_one_is_found_by_its_name(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        for name in ("ann", "bob", "eve"):
            await at.agent(name)
            await at.sleeping(True, name)
        assert (await at.rest("POST", "/sessions", {"name": "lab", "agents": [{"name": "zoe"}]}))[0] == 201
        names: list[str] = []
        query: str | None = "?limit=1"
        while query:
            page = await timeline(at, query)
            names += [lane["reference"] for lane in page["lanes"]]
            query = page["next"] and f"?limit=1&after={page['next']}"
        assert names == ["ann", "bob", "eve", "lab:zoe"]
        assert (await at.rest("DELETE", "/sessions/default/agents/bob"))[0] == 204
        assert [lane["agent"] for lane in (await timeline(at, "?session=default"))["lanes"]] == ["ann", "eve"]
        (lane,) = (await timeline(at, "?agent=bob"))["lanes"]
        assert lane["is_deleted"]
        assert [(span["kind"], bool(span["ended_at"])) for span in lane["spans"]] == [("awake", True), ("asleep", True)]
        assert (await at.rest("GET", "/timeline?after=nonsense"))[0] == 422
        assert (await at.rest("GET", "/timeline?since=2026-02-02&until=2026-02-01"))[0] == 422
        assert (await at.rest("GET", "/timeline?session=nowhere"))[0] == 404


async def test_the_timeline_is_also_csv_and_only_for_people(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        ann = await at.agent()
        await at.sleeping(True)
        headers = {"authorization": f"Bearer {ADMIN}"}
        async with at.http.get(f"{at.url}/api/v1/timeline.csv", headers=headers) as answer:
            assert (answer.status, answer.content_type) == (200, "text/csv")
            first, second = csv.DictReader(io.StringIO(await answer.text()))
        assert (first["session"], first["agent"], first["kind"], first["by"]) == ("default", "ann", "awake", "operator")
        assert (second["kind"], second["ended_at"]) == ("asleep", "")
        for path in ("/timeline", "/timeline/sums"):
            assert (await at.rest("GET", path, token=ann))[0] == 403


async def test_an_older_database_begins_its_spans_with_what_its_agents_do_and_invents_none(tmp_path: Path) -> None:
    """What the agent's row says is known: the present state, and since when. What was before is not."""
    old = 19_000 * 86_400_000_000
    path = tmp_path / "circadia.db"
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(MIGRATIONS))
        command.upgrade(config, "0044")
        connection.exec_driver_sql(
            "INSERT INTO sessions (id, name, status, created_at, touched_at, stalled)"
            " VALUES ('s', 'lab', 'open', 0, 0, 0)"
        )
        connection.exec_driver_sql(
            "INSERT INTO agents (id, session_id, name, token_hash, enabled, asleep, generation, since, cause, actor,"
            " sleep_events, wake_events, policy, coordination, description, created_at)"
            f" VALUES ('a', 's', 'owl', 'h', 1, 1, 7, {old}, 'operator', 'ann', '[]', '[]', '{{}}', '{{}}', '', 0)"
        )
    engine.dispose()
    async with live(tmp_path) as at:
        since = "2022-01-08T00:00:00Z"
        (lane,) = (await timeline(at, "?since=2021-01-01"))["lanes"]
        assert [(each["kind"], each["started_at"], each["ended_at"], each["by"]) for each in lane["spans"]] == [
            ("asleep", since, None, "ann")
        ]
        assert (await at.rest("PUT", "/sessions/lab/agents/owl/sleeping", {"sleeping": False}))[0] == 200
        (lane,) = (await timeline(at, "?since=2021-01-01"))["lanes"]
        told = [(each["kind"], each["started_at"] == since, each["ended_at"]) for each in lane["spans"]]
        assert [each for each in told if each[0] == "asleep"] == [("asleep", True, lane["since"])]
        assert told[-1] == ("awake", False, None)
