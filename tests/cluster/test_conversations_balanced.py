"""Conversations whose calls reach either of two gateways by turns: one row, exact counters, one end user."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from circadia.ids import ConversationId
from circadia.records.conversation import Conversation
from tests.cluster.balanced import Balanced, balanced_gateways
from tests.cluster.test_mcp_balanced import cancel
from tests.interaction.live import CHAT, Live
from tests.interaction.test_cluster import CUT_SIGNALS, connected
from tests.interaction.test_mcp_door import ask, call, session
from tests.interaction.test_two_servers import seen

pytestmark = pytest.mark.spec("CLU-16", "GATE-67")
TURNS = 6


def open_sdk(at: Balanced, token: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{at.url}/llm/openai/v1", api_key=token, max_retries=0)


async def wait_for_calls(at: Balanced, calls: int) -> list[dict[str, Any]]:
    """Return the usage by conversation once so many calls are written."""
    async with asyncio.timeout(60):
        while True:
            usage = (await at.here.rest("GET", "/usage?group_by=conversation"))[1]["usage"]
            if sum(line["calls"] for line in usage) == calls:
                return usage
            await asyncio.sleep(0.01)


async def read_conversation(url: str, name: str) -> Conversation:
    """Return the row of ann's conversation of this name."""
    async with seen(url) as store, store.begin_read() as tx:
        (agent,) = await tx.agents.find_by_past_name("default", "ann")
        row = await tx.conversations.get(agent.id, ConversationId(name))
    assert row is not None
    return row


async def test_a_chat_whose_turns_go_to_both_gateways_is_one_conversation(tmp_path: Path, postgres_url: str) -> None:
    async with balanced_gateways(tmp_path, postgres_url) as at, open_sdk(at, await at.here.agent()) as sdk:
        messages: list[Any] = []
        line: dict[str, Any] = {}
        for number in range(TURNS):
            messages.append({"role": "user", "content": f"turn {number}"})
            answer = await sdk.chat.completions.create(model="gpt-4o-mini", messages=messages)
            messages.append({"role": "assistant", "content": answer.choices[0].message.content})
            (line,) = await wait_for_calls(at, number + 1)
        row = await read_conversation(postgres_url, line["key"])
        assert (row.turns, row.version) == (TURNS, TURNS)
        for live in (at.here, at.there):
            assert live.server.journal.taken, "either gateway has served some"


async def test_responses_that_name_the_last_one_are_one_conversation_over_both_gateways(
    tmp_path: Path, postgres_url: str
) -> None:
    async with balanced_gateways(tmp_path, postgres_url) as at, open_sdk(at, await at.here.agent()) as sdk:
        respond: Any = sdk.responses.create
        last: dict[str, Any] = {}
        line: dict[str, Any] = {}
        for number in range(TURNS):
            answer = await respond(model="mock-1", input=f"turn {number}", **last)
            last = {"previous_response_id": answer.id}
            (line,) = await wait_for_calls(at, number + 1)
        row = await read_conversation(postgres_url, line["key"])
        assert (row.turns, row.version, row.handle) == (TURNS, TURNS, last["previous_response_id"])


async def test_calls_of_one_conversation_at_the_same_time_are_all_counted(tmp_path: Path, postgres_url: str) -> None:
    async with balanced_gateways(tmp_path, postgres_url) as at:
        token = await at.here.agent()

        async def say(live: Live) -> None:
            async with live.call(token, headers={"x-circadia-conversation": "shared"}) as response:
                assert response.status == 200
                await response.read()

        await asyncio.gather(*(say(live) for live in (at.here, at.there) for _ in range(20)))
        await wait_for_calls(at, 40)
        row = await read_conversation(postgres_url, "shared")
        assert (row.turns, row.version) == (40, 40)


async def test_a_conversation_in_which_two_people_were_named_at_two_gateways_belongs_to_nobody(
    tmp_path: Path, postgres_url: str
) -> None:
    async with balanced_gateways(tmp_path, postgres_url) as at, connected(postgres_url) as side:
        token = await at.here.agent()
        for number, (live, user) in enumerate(((at.here, "cid"), (at.there, "dan"), (at.here, None)), 1):
            named = {} if user is None else {"x-circadia-user": user}
            async with live.call(token, headers={"x-circadia-conversation": "desk", **named}) as response:
                await response.read()
            await wait_for_calls(at, number)
            await side.exec_driver_sql(CUT_SIGNALS)  # they come back a second later; the row has it all
        users = {
            line["key"]: line["calls"] for line in (await at.here.rest("GET", "/usage?group_by=end_user"))[1]["usage"]
        }
        assert users == {"cid": 1, "dan": 1, "": 1}
        assert (await read_conversation(postgres_url, "desk")).end_user == ""


async def test_a_turn_is_found_at_the_other_gateway_before_its_row_is_written(
    tmp_path: Path, postgres_url: str
) -> None:
    async with balanced_gateways(tmp_path, postgres_url) as at, connected(postgres_url) as side:
        token = await at.here.agent()
        said: list[Any] = [*CHAT["messages"]]
        # The end of this wait shows that the other gateway has heard all signals up to it.
        session_id = await session(at.there, token)
        waiting = asyncio.create_task(
            ask(at.there, token, call("wait_for_mention", 7, timeout_seconds=3000), **{"mcp-session-id": session_id})
        )
        await at.wait_for_holds(1)
        await side.exec_driver_sql("BEGIN")
        await side.exec_driver_sql("LOCK TABLE conversations IN EXCLUSIVE MODE")
        async with at.here.call(token, body={**CHAT, "messages": said}) as response:
            answer = (await response.json())["choices"][0]["message"]
        await cancel(at.here, token, "", session_id, 7)
        assert await waiting == []
        said += [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": "and now?"}]
        async with at.there.call(token, body={**CHAT, "messages": said}) as response:
            assert response.status == 200
            await response.read()
        await side.exec_driver_sql("COMMIT")
        (line,) = await wait_for_calls(at, 2)
        assert (await read_conversation(postgres_url, line["key"])).turns == 2


async def test_an_answer_kept_by_the_provider_is_its_agents_at_either_gateway_and_nobody_elses(
    tmp_path: Path, postgres_url: str
) -> None:
    async with balanced_gateways(tmp_path, postgres_url) as at:
        ann, bob = await at.here.agent(), await at.here.agent("bob")
        async with at.here.call(ann, "/v1/responses", {"model": "mock-1", "input": "hello"}) as response:
            name = (await response.json())["id"]
        for token, status in ((ann, 200), (bob, 404), (ann, 200)):
            async with at.there.call(token, f"/v1/responses/{name}", None, method="GET") as response:
                assert response.status == status, await response.text()
