"""Passes whose questions wait for a provider's batch, through a whole server (SLEEP-44)."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from circadia.errors import ConfigError
from circadia.llm.providers import Api
from circadia.settings import settings_from
from tests.fixtures.leap_clock import LeapClock
from tests.interaction.live import ADMIN, Live, live
from tests.interaction.test_thinking_passes import TOLD, reply
from tests.llm.batch_provider import BatchProvider, batch_provider

pytestmark = pytest.mark.spec("SLEEP-44")

LEAP_SECONDS = 4.0
MODELS: Mapping[str, str] = {"openai": "gpt-5-mini", "anthropic": "claude-haiku-4-5"}


@dataclass(frozen=True, kw_only=True)
class Night:
    """A server with the bank `ann`, whose consolidation asks in batches, and its provider."""

    at: Live
    provider: BatchProvider
    clock: LeapClock

    async def tell(self, *texts: str) -> None:
        for text in texts:
            status, _ = await self.at.rest("POST", "/banks/ann/episodes", {"text": text, "speaker": "Ann"})
            assert status == 201

    async def run(self) -> dict[str, Any]:
        """Return the last pass, with its ledger."""
        runs = (await self.at.rest("GET", "/banks/ann/passes"))[1]["passes"]
        return {} if not runs else (await self.at.rest("GET", f"/passes/{runs[0]['id']}"))[1]

    async def until(self, *statuses: str, batches: int | None = None) -> dict[str, Any]:
        """Let time pass until the last pass has one of these states, and there are so many batches."""
        async with asyncio.timeout(60):
            while True:
                run = await self.run()
                there = batches is None or len(self.provider.batches) == batches
                if run and run["status"] in statuses and there:
                    return run
                await self.leap()

    async def leap(self) -> None:
        """Let some seconds pass, fewer than a lease has, and let the server work."""
        self.clock.leap(LEAP_SECONDS)
        await asyncio.sleep(0.05)

    async def metric(self, outcome: str) -> float:
        async with self.at.http.get(f"{self.at.url}/metrics", headers={"authorization": f"Bearer {ADMIN}"}) as answer:
            lines = (await answer.text()).splitlines()
        head = f'circadia_sleep_batch_questions_total{{outcome="{outcome}"}} '
        return next((float(line.removeprefix(head)) for line in lines if line.startswith(head)), 0.0)


@asynccontextmanager
async def night(
    folder: Path, api: Api = "openai", *, sections: Mapping[str, Any] | None = None, **policy: Any
) -> AsyncGenerator[Night]:
    clock = LeapClock()
    operations = {"consolidate": {"batch": True}} | {
        name: {"enabled": False} for name in ("contradictions", "reflect", "compress", "rethink", "precompute")
    }
    tier = {
        "when": "idle", "frequency_turns": 0, "importance": 0, "max_lag_minutes": None, "verify": "off",
        "model": {"upstream": api, "name": MODELS[api]}, "operations": operations, **policy,
    }  # fmt: skip
    async with (
        batch_provider(reply, clock.now) as provider,
        live(
            folder, clock=clock, banks={"ann": {}}, sleeptime=tier, upstream={"base_url": provider.url},
            **(sections or {}),
        ) as at,
    ):  # fmt: skip
        yield Night(at=at, provider=provider, clock=clock)


@pytest.fixture(params=["sqlite", "postgres"])
def sections(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    if request.param == "sqlite":
        return {}
    return {"server": {"database_url": request.getfixturevalue("postgres_url")}}


@pytest.mark.setting("sleeptime.operations.batch")
@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_a_pass_waits_for_its_batch_and_publishes_the_answer_for_half_the_price(
    tmp_path: Path, sections: Mapping[str, Any], api: Api
) -> None:
    async with night(tmp_path, api, sections=sections) as it:
        await it.tell(*TOLD)
        run = await it.until("pending", batches=1)
        assert "batch" in run["detail"]
        (line,) = run["ledger"]
        reserved = line["usd"]
        assert reserved > 0
        looks = it.provider.looks
        await it.until("pending", batches=1)
        async with asyncio.timeout(60):
            while it.provider.looks <= looks + 2:
                await it.leap()
        assert (await it.run())["counts"].get("add_note") is None
        it.provider.end()
        run = await it.until("succeeded")
        assert run["counts"]["add_note"] == 1
        assert "wasted" not in run["counts"]
        (line,) = run["ledger"]
        assert (line["calls"], line["failed"]) == (1, 0)
        assert 0 < line["usd"] < reserved
        assert it.provider.asked_at_once == []
        assert len(it.provider.batches) == 1
        assert (await it.metric("submitted"), await it.metric("answered")) == (1, 1)
        notes = (await it.at.rest("GET", "/banks/ann/notes"))[1]["notes"]
        assert len(notes) == 1


async def test_a_pass_that_somebody_waits_for_asks_at_once(tmp_path: Path) -> None:
    async with night(tmp_path, when="manual") as it:
        await it.tell(*TOLD)
        asked = {"operations": ["consolidate"], "wait_seconds": 60}
        run = (await it.at.rest("POST", "/banks/ann/passes", asked))[1]
        assert (run["status"], it.provider.batches, len(it.provider.asked_at_once)) == ("succeeded", [], 1)


async def test_an_answer_whose_question_has_changed_meanwhile_is_dropped_and_counted_as_waste(
    tmp_path: Path, sections: Mapping[str, Any]
) -> None:
    async with night(tmp_path, sections=sections) as it:
        await it.tell(*TOLD)
        await it.until("pending", batches=1)
        episodes = (await it.at.rest("GET", "/banks/ann/episodes"))[1]["episodes"]
        status, _ = await it.at.rest("POST", "/banks/ann/forget", {"ids": [episodes[-1]["id"]]})
        assert status == 200
        it.provider.end()
        await it.until("pending", batches=2)
        it.provider.end()
        run = await it.until("succeeded", "no_change")
        assert run["counts"]["wasted"] == 1
        assert await it.metric("wasted") == 1
        (line,) = run["ledger"]
        assert line["calls"] == 2
        assert line["usd"] > 0


async def test_a_question_whose_pass_was_cancelled_goes_into_another_batch(tmp_path: Path) -> None:
    async with night(tmp_path) as it:
        await it.tell(*TOLD)
        first = await it.until("pending", batches=1)
        assert (await it.at.rest("POST", f"/passes/{first['id']}/cancel"))[0] == 200
        again = await it.until("pending", batches=2)
        assert (again["id"] != first["id"], it.provider.asked_at_once) == (True, [])


@pytest.mark.parametrize("status", ["errored", "expired"])
async def test_a_question_without_an_answer_is_asked_at_once(tmp_path: Path, status: str) -> None:
    async with night(tmp_path, "anthropic" if status == "errored" else "openai") as it:
        await it.tell(*TOLD)
        await it.until("pending", batches=1)
        it.provider.end(status)
        run = await it.until("succeeded")
        (line,) = run["ledger"]
        assert (line["calls"], line["failed"], len(it.provider.asked_at_once)) == (2, 1, 1)
        assert len(it.provider.batches) == 1


@pytest.mark.parametrize("api", ["openai", "anthropic"])
@pytest.mark.parametrize("fault", ["never ends", "has broken results", "is lost"])
async def test_a_batch_that_comes_to_no_end_is_given_up_after_two_days_and_its_question_asked_at_once(
    tmp_path: Path, api: Api, fault: str
) -> None:
    async with night(tmp_path, api) as it:
        it.provider.lose_answers = fault == "is lost"
        await it.tell(*TOLD)
        await it.until("pending", batches=1)
        if fault == "is lost":
            it.provider.fail_lists = True
        if fault == "has broken results":
            it.provider.spoil = lambda _: [b"<html>"]
            it.provider.end()
        for hours in (25, 20):
            it.clock.leap(hours * 3_600)
            for _ in range(20):
                await it.leap()
            assert it.provider.asked_at_once == []
        it.clock.leap(4 * 3_600)
        run = await it.until("succeeded")
        (line,) = run["ledger"]
        assert (line["calls"], line["failed"], len(it.provider.asked_at_once)) == (2, 1, 1)
        assert len(it.provider.batches) == 1
        assert run["counts"]["add_note"] == 1


async def test_a_provider_without_batches_is_asked_at_once(tmp_path: Path) -> None:
    async with night(tmp_path) as it:
        it.provider.refuse_with = 404
        await it.tell(*TOLD)
        run = await it.until("succeeded")
        assert (it.provider.batches, len(it.provider.asked_at_once)) == ([], 1)
        (line,) = run["ledger"]
        assert (line["calls"], line["failed"]) == (2, 1)


async def test_the_budget_is_reserved_when_a_batch_is_submitted(tmp_path: Path) -> None:
    async with night(tmp_path, budget={"per_pass": {"calls": 0}}) as it:
        await it.tell(*TOLD)
        run = await it.until("failed", "partial", "no_change", "succeeded")
        assert (it.provider.batches, it.provider.asked_at_once) == ([], [])
        assert run["spent"]["calls"] == 0


@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_a_submission_whose_answer_is_lost_is_found_again_and_not_repeated(tmp_path: Path, api: Api) -> None:
    async with night(tmp_path, api) as it:
        it.provider.lose_answers = True
        await it.tell(*TOLD)
        await it.until("pending", batches=1)
        it.provider.lose_answers = False
        it.provider.end()
        run = await it.until("succeeded")
        assert (len(it.provider.batches), it.provider.asked_at_once) == (1, [])
        assert run["counts"]["add_note"] == 1


def test_answers_made_ahead_do_not_wait_for_a_batch() -> None:
    with pytest.raises(ConfigError, match="cannot wait for a batch"):
        settings_from({"sleeptime": {"operations": {"precompute": {"batch": True}}}})
