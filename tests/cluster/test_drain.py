"""A gateway that stops: where its calls go on, and how those that only it can answer end."""

import asyncio
import signal
from pathlib import Path

import openai
import pytest

from circadia.clock import SystemClock
from tests.cluster.gateway_pair import REPLY, Pair, two_gateways
from tests.fixtures.balancer import GATEWAY_HEADER


async def hold_by_sdk(pair: Pair, token: str) -> asyncio.Task[str]:
    """Make calls with OpenAI's SDK through the balancer until the stopping gateway holds one; return it."""

    async def ask() -> str:
        async with openai.AsyncOpenAI(base_url=f"{pair.url}/llm/openai/v1", api_key=token) as client:
            answer = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
            return answer.choices[0].message.content or ""

    async with asyncio.timeout(60):
        while True:
            call = asyncio.create_task(ask())
            while not (held := (await pair.stopping.holds(), await pair.staying.holds()))[0] and not held[1]:
                await asyncio.sleep(0.01)
            if held[0]:
                return call
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await pair.staying.held(0)


@pytest.mark.spec("CLU-31")
async def test_a_silent_hold_goes_on_at_another_gateway_and_an_opened_one_is_answered_when_its_agent_wakes(
    tmp_path: Path, postgres_url: str
) -> None:
    async with two_gateways(tmp_path, postgres_url) as pair:
        token = await pair.add_sleeper()
        silent = await hold_by_sdk(pair, token)
        async with pair.chat(pair.stopping.url, token, stream=True) as opened:
            assert opened.status == 200
            await pair.stopping.held(2)
            pair.stopping.begin_to_stop()
            await pair.staying.held(1)
            await pair.wait_until_balanced({"1"})
            assert await pair.probe() == (503, "draining: the server is stopping\n")
            async with pair.chat(pair.stopping.url, token) as refused:
                assert (refused.status, refused.headers["retry-after"]) == (503, "1")
                assert refused.headers["x-should-retry"] == "true"
                assert refused.headers["x-circadia-error"] == "ended"
            assert pair.provider.requests == []
            await pair.wake()
            assert await silent == REPLY
            assert "data: [DONE]" in await opened.text()
        assert await pair.stopping.gone() == 0
        assert len(pair.provider.requests) == 2


@pytest.mark.setting("server.drain_seconds")
@pytest.mark.spec("CLU-31")
async def test_an_opened_hold_whose_agent_does_not_wake_ends_with_the_protocols_error_when_the_time_is_over(
    tmp_path: Path, postgres_url: str
) -> None:
    clock = SystemClock()
    async with two_gateways(tmp_path, postgres_url, server={"drain_seconds": 2}) as pair:
        token = await pair.add_sleeper()
        async with pair.chat(pair.stopping.url, token, stream=True) as opened:
            await pair.stopping.held(1)
            began = clock.monotonic()
            pair.stopping.begin_to_stop()
            text = await opened.text()
            assert 1.9 <= clock.monotonic() - began < 20, "30 by default"
        assert '"code":"ended"' in text
        assert "the server is stopping" in text
        assert await pair.stopping.gone() == 0
        assert pair.provider.requests == []


@pytest.mark.spec("CLU-31")
async def test_a_stop_costs_no_new_call_of_clients_that_never_try_again(tmp_path: Path, postgres_url: str) -> None:
    """The stopping gateway stays up for the sake of an opened hold, and refuses calls once none are sent to it."""
    async with two_gateways(tmp_path, postgres_url) as pair:
        token = await pair.add_sleeper()
        awake = (await pair.staying.create_session("busy", [{"name": "bob"}]))["bob"]
        async with pair.chat(pair.stopping.url, token, stream=True) as opened:
            await pair.stopping.held(1)
            gateways: list[str] = []

            async def ask(url: str) -> int:
                async with pair.chat(url, awake) as answer:
                    gateways.append(answer.headers.get(GATEWAY_HEADER, "refused"))
                    return answer.status

            pair.stopping.begin_to_stop()
            await pair.wait_until_draining()
            async with asyncio.timeout(60):
                while await ask(pair.stopping.url) != 503:
                    assert await ask(pair.url) == 200
            assert [await ask(pair.url) for _ in range(10)] == [200] * 10
            assert "0" in gateways, "it took calls until the balancer had noticed"
            assert set(gateways[-10:]) == {"1"}
            await pair.wake()
            assert "data: [DONE]" in await opened.text()
        assert await pair.stopping.gone() == 0


@pytest.mark.spec("CLU-31")
@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
async def test_ctrl_c_or_a_second_signal_ends_opened_holds_at_once(
    tmp_path: Path, postgres_url: str, first: signal.Signals
) -> None:
    async with two_gateways(tmp_path, postgres_url, server={"drain_seconds": 600}) as pair:
        token = await pair.add_sleeper()
        async with pair.chat(pair.stopping.url, token, stream=True) as opened:
            await pair.stopping.held(1)
            pair.stopping.send_signal(first)
            if first is signal.SIGTERM:
                await pair.wait_until_draining()
                pair.stopping.send_signal(signal.SIGTERM)
            assert "the server is stopping" in await opened.text()
        assert await pair.stopping.gone() == (130 if first is signal.SIGINT else 0)


@pytest.mark.spec("CLU-31")
async def test_a_leader_gives_up_the_lead_at_the_beginning_of_its_drain(tmp_path: Path, postgres_url: str) -> None:
    async with two_gateways(tmp_path, postgres_url, role="all") as pair:

        async def find_leaders() -> list[str]:
            members = (await pair.staying.call("GET", "/cluster"))["members"]
            assert len(members) == 2
            return [member["address"] for member in members if member["leads"]]

        token = await pair.add_sleeper()
        async with pair.chat(pair.stopping.url, token, stream=True) as opened:
            await pair.stopping.held(1)
            assert await find_leaders() == [pair.stopping.url]
            pair.stopping.begin_to_stop()
            await pair.wait_until_draining()
            async with asyncio.timeout(60):
                while await find_leaders() != [pair.staying.url]:
                    await asyncio.sleep(0.05)
            await pair.wake()
            assert "data: [DONE]" in await opened.text()
        assert await pair.stopping.gone() == 0
