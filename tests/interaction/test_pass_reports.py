"""What is said of passes and of embedding without being asked: a line in the log, an alert, and where no model runs."""

import asyncio
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from circadia.testing.upstream import MockUpstream
from tests.fixtures.leap_clock import LeapClock
from tests.interaction.live import ADMIN, KEY, Live, live
from tests.interaction.test_thinking_passes import reply

CONSOLIDATE = {"operations": ["consolidate"], "wait_seconds": 60}


async def told(at: Live) -> None:
    for text in ("Ann lives in Porto.", "Ann has moved to Porto for good."):
        assert (await at.rest("POST", "/banks/ann/episodes", {"text": text, "speaker": "Ann"}))[0] == 201


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return level and text of the lines on passes that ended, without what differs from run to run."""
    records = [each for each in caplog.records if each.name == "circadia.sleeptime.triggers.pass_lifecycle"]
    return [(each.levelname, re.sub(r"pas_\w+", "PASS", each.getMessage())) for each in records]


@pytest.mark.spec("SLEEP-88")
async def test_each_pass_that_ends_is_one_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "circadia")
    model = {"upstream": "openai", "name": "gpt-5-mini"}
    tier = {"when": "manual", "verify": "off", "model": model}
    async with (
        MockUpstream(key=KEY, reply=reply) as provider,
        live(tmp_path, banks={"ann": {}}, sleeptime=tier, provider=provider) as at,
    ):
        await told(at)
        provider.next(status=400)
        run = (await at.rest("POST", "/banks/ann/passes", CONSOLIDATE))[1]
        assert run["status"] == "failed"
        assert (await at.rest("POST", "/banks/ann/sleeptime/resume"))[0] == 200
        run = (await at.rest("POST", "/banks/ann/passes", CONSOLIDATE))[1]
        assert run["status"] == "succeeded"
        tokens, usd = run["spent"]["tokens"], run["spent"]["usd"]
        assert usd > 0
    failed, succeeded = lines(caplog)
    assert failed == (
        "WARNING",
        "pass PASS over bank 'ann' (hand): failed; no change; refused 0; 1 calls, 0 tokens, $0.000000; "
        "consolidate: episodes 1 to 2: the provider answered with status 400",
    )
    done = f"add_note 1; refused 0; 1 calls, {tokens} tokens, ${usd:.6f}"
    assert succeeded == ("INFO", f"pass PASS over bank 'ann' (hand): succeeded; {done}")
    assert "Porto" not in caplog.text


@pytest.mark.spec("SLEEP-88")
@pytest.mark.parametrize("model", ["gpt-5-mini", None])
async def test_a_bank_says_which_model_its_passes_ask_or_that_they_ask_none(tmp_path: Path, model: str | None) -> None:
    chosen = "none" if model is None else {"upstream": "openai", "name": model}
    async with live(tmp_path, banks={"ann": {}}, sleeptime={"when": "manual", "model": chosen}) as at:
        await told(at)
        shown = [(await at.rest("GET", path))[1] for path in ("/banks/ann", "/banks/ann/sleeptime")]
        shown += (await at.rest("GET", "/banks"))[1]["banks"] + (await at.rest("GET", "/sleeptime"))[1]["banks"]
        assert [each["model"] for each in shown] == [model] * 4


async def metric(at: Live, name: str) -> float:
    async with at.http.get(f"{at.url}/metrics", headers={"authorization": f"Bearer {ADMIN}"}) as answer:
        (value,) = re.findall(rf"^circadia_embedding_{name} (\S+)$", await answer.text(), re.MULTILINE)
    return float(value)


async def alerts(at: Live, clock: LeapClock, number: int) -> list[dict[str, Any]]:
    """Return the alerts once there are so many; whatever the embedder waits for is over at once."""
    async with asyncio.timeout(60):
        while len(found := await at.events("alert")) < number:
            clock.leap(31)
            await asyncio.sleep(0.05)
    return [each["data"] for each in found]


@pytest.mark.spec("SLEEP-88")
async def test_an_embedder_that_fails_for_a_minute_is_told_once_and_again_when_it_works(tmp_path: Path) -> None:
    clock = LeapClock()
    async with MockUpstream(key=KEY) as up:
        chosen = {"kind": "endpoint", "base_url": f"{up.base_url}/v1", "model": "m", "key_env": "KEY"}
        await up.__aexit__()
        async with live(
            tmp_path, clock=clock, memory={"embedder": chosen}, banks={"ann": {}}, sleeptime={"model": "none"},
        ) as at:  # fmt: skip
            await told(at)
            (alert,) = await alerts(at, clock, 1)
            assert alert["cause"] == "embedding"
            assert KEY not in alert["detail"]
            shown = (await at.rest("GET", "/banks/ann/sleeptime"))[1]["embedding"]
            assert (shown["waiting"], shown["failing_since"] is None) == (2, False)
            assert await metric(at, "failures_in_a_row") >= 2
            problems = (await at.rest("GET", "/overview"))[1]["problems"]
            assert [each for each in problems if each.startswith("The embedder fails")]
            clock.leap(600)
            assert len(await at.events("alert")) == 1, "told once"
            await up.__aenter__()
            assert [each["cause"] for each in await alerts(at, clock, 2)] == ["embedding", "embedding_over"]
            shown = (await at.rest("GET", "/banks/ann/sleeptime"))[1]["embedding"]
            assert shown == {"waiting": 0, "failing_since": None}
            assert (await metric(at, "failures_in_a_row"), await metric(at, "rows")) == (0, 2)
            problems = (await at.rest("GET", "/overview"))[1]["problems"]
            assert not [each for each in problems if each.startswith("The embedder fails")]
