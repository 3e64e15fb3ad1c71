"""Ready answers over two gateways: what is written at one makes an answer stale at the other at once."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from circadia.testing.upstream import MockUpstream
from tests.gateway.bound_agent import token_of
from tests.gateway.readied import OTHER, ReadyAnswerServer, question
from tests.interaction.live import KEY, Live, live
from tests.interaction.test_cluster import CUT_SIGNALS, connected
from tests.interaction.test_two_servers import seen

pytestmark = pytest.mark.spec("CLU-16", "ANS-04")


@asynccontextmanager
async def two_gateways(folder: Path, url: str) -> AsyncGenerator[tuple[ReadyAnswerServer, ReadyAnswerServer]]:
    """Run two servers with an agent that serves ready answers, and a bank with a pinned block."""
    policy = {"bank": "memory", "answer_mode": "serve", "token_env": "ANN"}
    sections: dict[str, Any] = {
        "server": {"database_url": url}, "agents": {"ann": policy}, "environment": {"ANN": token_of("ann")},
        "sleeptime": {"enabled": False, "model": {"upstream": "openai", "name": "mind-1"}},
    }  # fmt: skip
    async with (
        MockUpstream(key=KEY) as provider,
        live(folder / "here", provider=provider, **sections) as here,
        live(folder / "there", provider=provider, **sections) as there,
        seen(url) as store,
    ):
        first = ReadyAnswerServer(here, token_of("ann"), store)
        await first.make(block="Ann likes tea.")
        yield first, ReadyAnswerServer(there, token_of("ann"), store)


async def write_block(at: Live) -> None:
    body = {"value": "Ann likes coffee.", "pinned": True}
    status, answer = await at.rest("PUT", "/banks/memory/blocks/likes", body)
    assert status == 200, answer


async def remember(at: Live) -> None:
    body = {"text": "Ann drinks no green tea in the morning any more; she likes to drink coffee.", "speaker": "ann"}
    status, answer = await at.rest("POST", "/banks/memory/episodes", body)
    assert status == 201, answer


@pytest.mark.parametrize("write", [write_block, remember])
async def test_no_stale_answer_is_served_after_a_write_at_the_other_gateway_even_without_signals(
    tmp_path: Path, postgres_url: str, write: Callable[[Live], Awaitable[None]]
) -> None:
    async with two_gateways(tmp_path, postgres_url) as (here, there), connected(postgres_url) as side:
        await here.put(await here.frame(question(OTHER)))
        for at in (here, there):
            assert (await at.ask(question())).outcome == "hit"
        await side.exec_driver_sql(CUT_SIGNALS)  # they come back a second later
        await write(there.at)
        assert (await here.ask(question(), waits=False)).outcome != "hit"
        assert (await there.ask(question(), waits=False)).outcome != "hit"


async def test_an_answer_made_at_one_gateway_is_served_at_the_other(tmp_path: Path, postgres_url: str) -> None:
    async with two_gateways(tmp_path, postgres_url) as (here, there):
        answer = await here.put(await here.frame(question(OTHER)))
        served = await there.ask(question())
        assert (served.outcome, served.answer_id) == ("hit", answer.id)
