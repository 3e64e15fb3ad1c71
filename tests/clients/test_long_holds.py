"""All four model SDKs survive a hold that is longer than their own time-outs, with the limits that users have."""

import asyncio

import pytest

from circadia.testing.upstream_script import RecordedRequest
from tests.clients.conftest import REPLY, Stage
from tests.clients.model_clients import model_clients

pytestmark = pytest.mark.asyncio(loop_scope="module")

TIMEOUT_SECONDS = 15 * 60
SHORT: tuple[dict[str, float], float] = ({"timeout": 6.0}, 9.0)
"""A client's options and the seconds of a hold: longer than its silence at first and its time-out together.

A buffered Node call that asks again after 6.5 s gives up again at 12.5 s: the wake has 3.5 s on a busy machine.
"""
OUT_OF_THE_BOX: tuple[dict[str, float], float] = ({}, 11 * 60.0)
"""The SDKs wait for 10 minutes."""
HURRIED = {"openai-chat-node-buffered", "openai-responses-node-buffered"}
"""OpenAI's Node SDK gives a buffered call its time-out in all, the body included; then it hangs up and asks again."""


@pytest.fixture(scope="module")
def short_limits() -> dict[str, float]:
    """The limits that users have."""
    return {}


@pytest.mark.parametrize(("options", "seconds"), [SHORT, pytest.param(*OUT_OF_THE_BOX, marks=pytest.mark.slow)])
@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.spec("GATE-53")
async def test_each_sdk_survives_a_hold_that_is_longer_than_its_time_out(
    stage: Stage, options: dict[str, float], seconds: float
) -> None:
    agent = await stage.agent(asleep=True)
    names = [client.name for client in model_clients()]
    asked = [
        asyncio.create_task(client.say(stage.server.url, agent.token, f"hello from {client.name}", **options))
        for client in model_clients()
    ]
    await stage.server.held(len(names), timeout_seconds=60)
    patient = len(names) - len(HURRIED)
    await stage.server.held(patient, seconds=seconds, timeout_seconds=seconds + 60)
    await stage.server.held(len(names))
    assert stage.upstream.requests == []
    await agent.wake()
    said = await asyncio.gather(*asked, return_exceptions=True)
    assert dict(zip(names, said, strict=True)) == dict.fromkeys(names, REPLY)
    repeats = {
        name: [seen.header("x-stainless-retry-count") or "0" for seen in stage.upstream.requests if sent_by(name, seen)]
        for name in names
    }
    assert repeats == {name: ["1" if name in HURRIED else "0"] for name in names}, "one request each"


def sent_by(name: str, seen: RecordedRequest) -> bool:
    return f"hello from {name}".encode() in seen.body
