"""What passes do and tell, and what is kept of them."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from circadia.cli.demo.dream_model import reply
from circadia.testing.upstream import MockUpstream
from tests.fixtures.leap_clock import LeapClock
from tests.gateway.bound_agent import token_of
from tests.interaction.live import CHAT, KEY, Live, live
from tests.settings_effects.test_sleeptime_spending import CONSOLIDATE, passed, told

HOUR, DAY = 3_600, 86_400
OWN = {"own_open_tasks": "examples.sleeptime.open_tasks:OpenTasks"}
"""An operation that keeps a block of what is to do, without a model."""
MANUAL: dict[str, Any] = {"when": "manual", "model": "none"}
FACTS = (
    "Ann lives in Lisbon.", "Ann moved: Ann lives in Porto now.", "Ann works for Acme.", "Ann works for Widget now.",
    "Bob lives in Faro.", "Bob lives in Braga now.",
)  # fmt: skip
TASK = {"text": "todo: call the landlord"}


@pytest.mark.setting(
    "sleeptime.own_operations", "sleeptime.review", banks={"plain": {}, "reviewed": {"sleeptime": {"review": True}}},
    sleeptime={**MANUAL, "own_operations": OWN},
)  # fmt: skip
async def test_an_operation_of_ones_own_is_done_or_waits_for_a_person(at: Live) -> None:
    states: dict[str, list[str]] = {}
    for name in ("plain", "reviewed"):
        assert (await at.rest("POST", f"/banks/{name}/episodes", TASK))[0] == 201
        run = await passed(at, name)
        states[name] = [each["state"] for each in (await at.rest("GET", f"/passes/{run['id']}/changes"))[1]["changes"]]
    assert states == {"plain": ["published"], "reviewed": ["staged"]}


@pytest.mark.spec("SLEEP-33")
@pytest.mark.setting("sleeptime.verify")
async def test_what_a_model_writes_is_judged_by_the_model_or_published_without(tmp_path: Path) -> None:
    def doubtful(request: Mapping[str, Any]) -> str:
        return '{"verdicts": []}' if "ClaimVerdicts" in str(request.get("response_format")) else reply(request)

    tier = {"when": "manual", "model": {"upstream": "openai", "name": "gpt-4o-mini"}}
    banks = {"judged": {}, "free": {"sleeptime": {"verify": "off"}}}
    reasons: dict[str, set[tuple[str, str]]] = {}
    async with (
        MockUpstream(key=KEY, reply=doubtful) as provider,
        live(tmp_path, banks=banks, sleeptime=tier, provider=provider) as at,
    ):
        for name in banks:
            for text in FACTS:
                assert (await at.rest("POST", f"/banks/{name}/episodes", {"text": text}))[0] == 201
            run = await passed(at, name, **CONSOLIDATE)
            changes = (await at.rest("GET", f"/passes/{run['id']}/changes"))[1]["changes"]
            notes = [each for each in changes if each["kind"] == "add_note"]
            reasons[name] = {(each["state"], each["after"].get("verdict", "")) for each in notes}
    assert reasons == {"judged": {("refused", "missing")}, "free": {("published", "")}}


@pytest.mark.spec("MEM-36")
@pytest.mark.setting("banks.mission")
async def test_every_question_of_a_pass_has_the_mission_of_the_file_and_then_that_of_rest(tmp_path: Path) -> None:
    tier = {"when": "manual", "model": {"upstream": "openai", "name": "gpt-4o-mini"}}
    first, second = "A law firm. Remember deadlines.", "A bakery. Remember ovens."
    async with (
        MockUpstream(key=KEY, reply=reply) as provider,
        live(tmp_path, banks={"one": {"mission": first}}, sleeptime=tier, provider=provider) as at,
    ):
        for mission, other, texts in ((first, second, FACTS[:4]), (second, first, FACTS[4:])):
            asked = len(provider.requests)
            for text in texts:
                assert (await at.rest("POST", "/banks/one/episodes", {"text": text}))[0] == 201
            await passed(at, "one")
            rules = [each.json()["messages"][0]["content"] for each in provider.requests[asked:]]
            assert len(rules) > 2
            assert all(mission in each and other not in each for each in rules)
            status, bank = await at.rest("PATCH", "/banks/one", {"policy": {"mission": second}})
            assert (status, bank["policy"]["mission"]) == (200, second)
        assert (await at.rest("PATCH", "/banks/one", {"policy": {"mission": "x" * 501}}))[0] == 422


@pytest.mark.setting("sleeptime.max_rethinks")
@pytest.mark.parametrize(("policy", "edits"), [({}, 1), ({"max_rethinks": 0}, 0)])
async def test_a_pass_edits_so_many_blocks(tmp_path: Path, policy: dict[str, int], edits: int) -> None:
    tier = {"when": "manual", "model": {"upstream": "openai", "name": "gpt-4o-mini"}, **policy}
    async with (
        MockUpstream(key=KEY, reply=reply) as provider,
        live(tmp_path, banks={"one": {}}, sleeptime=tier, provider=provider) as at,
    ):
        for label in ("human", "work"):
            assert (await at.rest("PUT", f"/banks/one/blocks/{label}", {"value": "Ann."}))[0] == 200
        for text in FACTS:
            assert (await at.rest("POST", "/banks/one/episodes", {"text": text}))[0] == 201
        run = await passed(at, "one")
        changes = (await at.rest("GET", f"/passes/{run['id']}/changes"))[1]["changes"]
    assert len([each for each in changes if each["kind"] == "write_block"]) == edits, changes


@pytest.mark.setting(
    "sleeptime.agent", "sleeptime.tell", "defaults.sleeptime_agent",
    banks={"loud": {"sleeptime": {"agent": "scribe"}}, "still": {"sleeptime": {"tell": False}}},
    agents={
        "ann": {"token_env": "ANN", "bank": "loud"}, "bob": {"token_env": "BOB", "bank": "still"},
        "scribe": {"token_env": "SCRIBE", "write_banks": ["loud"], "sleeptime_agent": True},
    },
    environment={name.upper(): token_of(name) for name in ("ann", "bob", "scribe")},
    sleeptime={**MANUAL, "own_operations": OWN},
)  # fmt: skip
async def test_who_is_told_of_a_pass_and_who_writes_blocks_is_as_the_file_says(at: Live) -> None:
    await at.sleeping(True, "scribe")
    for name, bank in (("ann", "loud"), ("bob", "still")):
        await at.called(token_of(name), CHAT)
        assert (await at.rest("POST", f"/banks/{bank}/episodes", TASK))[0] == 201
        assert (await passed(at, bank))["status"] == "succeeded"
    assert not (await at.rest("GET", "/sessions/default/agents/scribe/sleeping"))[1]["sleeping"]
    lines: dict[str, bool] = {}
    for name in ("ann", "bob"):
        await at.called(token_of(name), CHAT)
        lines[name] = b"While nobody spoke with you" in at.upstream.requests[-1].body
    assert lines == {"ann": True, "bob": False}
    statuses = [
        (await at.rest("PUT", "/banks/loud/blocks/tasks", {"value": "none"}, token=token_of(name)))[0]
        for name in ("scribe", "ann")
    ]
    assert statuses == [200, 403]


NIGHT = "0 3 * * *"


@pytest.mark.setting(
    "sleeptime.schedules.full", "sleeptime.schedules.within_hours", "sleeptime.preset",
    banks={
        "full": {"sleeptime": {"when": "manual", "schedules": [{"cron": NIGHT, "full": True}]}},
        "late": {"sleeptime": {"when": "manual", "schedules": [{"cron": NIGHT}]}},
        "strict": {"sleeptime": {"when": "manual", "schedules": [{"cron": NIGHT, "within_hours": 2}]}},
        "coding": {"sleeptime": {"preset": "coding"}}, "chat": {"sleeptime": {"preset": "chat"}},
    },
    sleeptime={"model": "none"},
)  # fmt: skip
async def test_a_schedule_looks_at_all_and_is_made_up_for_or_not_and_a_preset_has_its_quiet(
    at: Live, clock: LeapClock
) -> None:
    for name in ("full", "late", "strict", "coding", "chat"):
        assert (await at.rest("POST", f"/banks/{name}/episodes", TASK))[0] == 201

    async def begun() -> dict[str, tuple[str, bool]]:
        found: dict[str, tuple[str, bool]] = {}
        for name in ("full", "late", "strict", "coding", "chat"):
            for each in (await at.rest("GET", f"/banks/{name}/passes"))[1]["passes"]:
                found[name] = (each["trigger"], each["full"])
        return found

    async def until(wanted: dict[str, tuple[str, bool]]) -> None:
        async with asyncio.timeout(30):
            while (found := await begun()) != wanted:
                assert not set(found) - set(wanted)
                clock.leap(1)
                await asyncio.sleep(0.05)

    clock.leap(100)
    await until({"chat": ("idle", False)})
    clock.leap(600)
    wanted = {"chat": ("idle", False), "coding": ("idle", False)}
    await until(wanted)
    clock.leap(6 * HOUR)
    await until({**wanted, "full": ("schedule", True), "late": ("schedule", False)})


@pytest.mark.setting("sleeptime.keep_days", banks={"one": {}}, sleeptime={**MANUAL, "keep_days": 2})
async def test_a_pass_is_kept_for_its_days(at: Live, clock: LeapClock) -> None:
    await told(at, "one")
    await passed(at, "one")

    async def count() -> int:
        return len((await at.rest("GET", "/banks/one/passes"))[1]["passes"])

    clock.leap(47 * HOUR)
    await asyncio.sleep(0.3)
    assert await count() == 1
    async with asyncio.timeout(30):
        while await count():
            clock.leap(HOUR)
            await asyncio.sleep(0.05)
