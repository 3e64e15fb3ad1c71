"""An approval is given at one gateway for a call that another one holds, and is found where its repeat comes."""

import asyncio
from pathlib import Path

import pytest

from tests.cluster.scene import two_servers
from tests.interaction.test_approvals import DEAR, SILENT, asks, decide, pending

pytestmark = pytest.mark.spec("WAKE-86")


async def test_a_decision_reaches_a_call_at_another_gateway_and_a_repeat_there_finds_it(
    tmp_path: Path, postgres_url: str, late_locks: dict[str, str]
) -> None:
    async with two_servers(tmp_path, postgres_url, defaults=SILENT) as (here, there):
        token = await here.agent(approve_models=[DEAR])
        waiting = asyncio.create_task(asks(here, token))
        (approval,) = await pending(there)
        assert (await decide(there, approval["id"]))[0] == 200
        assert (await waiting)[0] == 200
        calls = [asyncio.create_task(asks(at, token)) for at in (here, there)]
        (approval,) = await pending(there)
        await here.held(1)
        await there.held(1)
        await decide(here, approval["id"])
        done, (other,) = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        assert done.pop().result()[0] == 200
        (second,) = await pending(here)
        await decide(here, second["id"], "refuse", "once is enough")
        assert (await other)[0] == 403
        gone = asyncio.create_task(asks(here, token))
        (approval,) = await pending(here)
        gone.cancel()
        await here.held(0)
        await decide(here, approval["id"])
        assert (await asks(there, token))[0] == 200
        assert len(here.upstream.requests) == 3
    assert not late_locks, "\n".join(late_locks)
