"""How a call is held, what is kept, and when passes begin."""

import asyncio
from typing import Any

import pytest

from tests.fixtures.leap_clock import LeapClock
from tests.interaction.live import CHAT, Live

TEAM: Any = {"team": {}}
BOUND: Any = {"ann": {"token_env": "ANN", "bank": "team"}}
TOKEN = "token-of-agent-ann-in-the-tests-0123456789"
QUIET: Any = {"when": "manual", "model": "none"}


async def begun(at: Live, clock: LeapClock, *, within: float) -> str | None:
    """Return what began a pass over the bank `team` within so many seconds; none if there is none."""
    for _ in range(20):
        clock.leap(within / 20)
        await asyncio.sleep(0.05)
        if passes := (await at.rest("GET", "/banks/team/passes"))[1]["passes"]:
            return passes[-1]["trigger"]
    return None


async def remembered(at: Live, count: int = 1) -> None:
    for number in range(count):
        body = {"text": f"Fact {number} is known.", "speaker": "ann"}
        assert (await at.rest("POST", "/banks/team/episodes", body))[0] == 201


@pytest.mark.setting("sleeptime.when", "sleeptime.model", banks=TEAM, sleeptime=QUIET)
async def test_by_hand_only_no_pass_begins_by_itself(at: Live, clock: LeapClock) -> None:
    await remembered(at)
    assert await begun(at, clock, within=7_200) is None


@pytest.mark.setting(
    "sleeptime.idle_seconds", "banks.sleeptime",
    banks={"team": {"sleeptime": {"when": "manual", "idle_seconds": 1_000}}}, sleeptime={"model": "none"},
)  # fmt: skip
async def test_a_bank_is_idle_after_its_seconds(at: Live, clock: LeapClock) -> None:
    await remembered(at)
    assert await begun(at, clock, within=900) is None
    assert await begun(at, clock, within=300) == "idle"


@pytest.mark.setting("sleeptime.enabled", banks=TEAM, sleeptime={"enabled": False, "model": "none"})
async def test_without_passes_none_begins(at: Live, clock: LeapClock) -> None:
    await remembered(at)
    assert await begun(at, clock, within=7_200) is None


@pytest.mark.setting(
    "banks.description", "banks.hot_edits", "banks.duplicate_seconds", "banks.keep_days",
    banks={"team": {"description": "ours", "hot_edits": True, "duplicate_seconds": 100, "keep_days": 2}},
    sleeptime=QUIET, agents=BOUND, environment={"ANN": TOKEN},
)  # fmt: skip
async def test_a_bank_is_as_the_file_says(at: Live, clock: LeapClock) -> None:
    async def episodes() -> int:
        return len((await at.rest("GET", "/banks/team/episodes"))[1]["episodes"])

    assert (await at.rest("GET", "/banks/team"))[1]["description"] == "ours"
    assert (await at.rest("PUT", "/banks/team/blocks/human", {"value": "new"}, token=TOKEN))[0] == 200
    counts: list[int] = []
    for seconds in (0, 90, 120):
        clock.leap(seconds)
        await remembered(at)
        counts.append(await episodes())
    assert counts == [1, 1, 2]
    clock.leap(49 * 3_600)
    async with asyncio.timeout(60):
        while await episodes():
            clock.leap(1)
            await asyncio.sleep(0.05)


@pytest.mark.setting(
    "defaults.stable_tokens", "defaults.bank", "defaults.inject",
    banks=TEAM, sleeptime=QUIET, environment={"ANN": TOKEN, "BOB": TOKEN.replace("ann", "bob")},
    defaults={"stable_tokens": 5, "bank": "team"},
    agents={"ann": {"token_env": "ANN"}, "bob": {"token_env": "BOB", "stable_tokens": 2_001, "inject": False}},
)  # fmt: skip
async def test_blocks_of_more_tokens_than_allowed_are_not_in_a_call(at: Live) -> None:
    body = {"value": "The zebra sleeps. " * 40}
    assert (await at.rest("PUT", "/banks/team/blocks/human", body))[0] == 200
    for token in (TOKEN, TOKEN.replace("ann", "bob")):
        await at.called(token, CHAT)
        assert at.upstream.requests[-1].body.count(b"zebra") < 5


@pytest.mark.setting(
    "defaults.capture", banks=TEAM, sleeptime=QUIET, environment={"ANN": TOKEN},
    defaults={"capture": False, "bank": "team"}, agents={"ann": {"token_env": "ANN"}},
)  # fmt: skip
async def test_turns_are_not_kept_where_the_file_says_so(at: Live) -> None:
    await at.called(TOKEN, {**CHAT, "messages": [{"role": "user", "content": "My sister lives in Porto."}]})
    await at.server.exchanges.flush()
    assert not (await at.rest("GET", "/banks/team/episodes"))[1]["episodes"]


@pytest.mark.setting("defaults.profile", defaults={"profile": "reverse_proxy", "hold_silent_seconds": None})
async def test_behind_a_proxy_a_held_buffered_call_gives_a_sign_of_life_after_45_seconds(
    at: Live, clock: LeapClock
) -> None:
    token = await at.agent()
    await at.sleeping(True)
    held = asyncio.create_task(at.called(token, CHAT))
    await at.held(1)
    phases: list[str] = []
    for seconds in (40, 10):
        clock.leap(seconds)
        await asyncio.sleep(1)
        phases.append((await at.rest("GET", "/holds"))[1]["holds"][0]["phase"])
    assert phases == ["silent", "opened"]
    await at.sleeping(False)
    await held


@pytest.mark.setting(
    "defaults.may_wake", "defaults.may_sleep",
    agents={"ann": {"token_env": "ANN", "may_wake": ["bob"], "may_sleep": ["bob"]}, "bob": {}, "carl": {}},
    environment={"ANN": TOKEN},
)  # fmt: skip
async def test_an_agent_puts_to_sleep_and_wakes_only_whom_the_file_names(at: Live) -> None:
    for name, wanted in (("bob", 200), ("carl", 403)):
        for sleeping in (True, False):
            path = f"/sessions/default/agents/{name}/sleeping"
            assert (await at.rest("PUT", path, {"sleeping": sleeping}, token=TOKEN))[0] == wanted
