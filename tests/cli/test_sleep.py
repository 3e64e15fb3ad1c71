"""`circadia sleep`, `circadia wake`, `circadia holds`."""

import asyncio

import aiohttp
import pytest

from tests.cli.terminal import refused, run, started
from tests.fixtures.server_process import CircadiaProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def states(server: CircadiaProcess, session: str) -> dict[str, bool]:
    agents = (await server.call("GET", f"/sessions/{session}/agents"))["agents"]
    return {agent["name"]: agent["sleeping"] for agent in agents}


async def test_agents_sleep_and_wake_by_reference(operator: CircadiaProcess) -> None:
    await operator.create_session("both", [{"name": "ann"}, {"name": "bob"}, {"name": "cy"}])
    result = await run("sleep", "both:ann", "both:bob")
    assert result.status == 0
    assert [line.split()[:3] for line in result.out.splitlines()[1:]] == [
        ["both", "ann", "asleep"],
        ["both", "bob", "asleep"],
    ]
    assert await states(operator, "both") == {"ann": True, "bob": True, "cy": False}
    woken = await run("wake", "ann", "--session", "both", "--json")
    assert [(each["agent"], each["sleeping"]) for each in woken.json["agents"]] == [("ann", False)]


async def test_a_bare_name_means_the_session_default(operator: CircadiaProcess) -> None:
    await operator.call("POST", "/sessions/default/agents", {"name": "lone"})
    assert (await run("sleep", "lone", "--json")).json["agents"][0]["session"] == "default"
    assert (await run("wake", "default:lone", "--json")).json["agents"][0]["sleeping"] is False


async def test_all_agents_of_a_session_at_once(operator: CircadiaProcess) -> None:
    await operator.create_session("crowd", [{"name": "ann"}, {"name": "bob"}])
    assert (await run("sleep", "--all", "--session", "crowd")).status == 0
    assert await states(operator, "crowd") == {"ann": True, "bob": True}
    assert (await run("wake", "--all", "--session", "crowd")).status == 0
    assert await states(operator, "crowd") == {"ann": False, "bob": False}


async def test_an_unknown_agent_is_told_with_the_nearest_names_and_nothing_changes(operator: CircadiaProcess) -> None:
    await operator.create_session("near", [{"name": "writer"}, {"name": "reviewer"}])
    refused(await run("sleep", "near:reviewer", "near:writter"), 4, "'writter'", "'near'", "did you mean 'writer'")
    assert await states(operator, "near") == {"writer": False, "reviewer": False}


async def test_an_unknown_session_is_told_with_the_nearest_names(operator: CircadiaProcess) -> None:
    await operator.create_session("release", [])
    refused(await run("sleep", "relaese:writer"), 4, "'relaese'", "'release'")


@pytest.mark.parametrize(
    "words", [(), ("ann", "--all"), (":ann",), ("team:",), ("team:ann", "--session", "other")], ids=" ".join
)
async def test_who_is_meant_must_be_clear(operator: CircadiaProcess, words: tuple[str, ...]) -> None:
    refused(await run("sleep", *words), 2)


async def test_a_held_call_is_dropped_by_its_id_and_its_agent_sleeps_on(operator: CircadiaProcess) -> None:
    token = (await operator.create_session("drop", [{"name": "ann"}]))["ann"]
    await run("sleep", "drop:ann")
    body = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hello"}]}
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as http:
        call = asyncio.create_task(http.post(f"{operator.url}/llm/openai/v1/chat/completions", json=body))
        await operator.held_by("drop", "ann")
        (hold,) = (await run("holds", "--session", "drop", "--json")).json["holds"]
        assert hold["id"] in (await run("holds", "--session", "drop")).out
        dropped = await run("holds", "drop", hold["id"])
        assert "dropped POST /v1/chat/completions of drop:ann" in dropped.out
        assert (await call).status == 410
    refused(await run("holds", "drop", hold["id"]), 4, hold["id"], "another server")
    assert await states(operator, "drop") == {"ann": True}


async def test_a_held_call_is_seen_and_a_wake_lets_it_go_on(operator: CircadiaProcess) -> None:
    token = (await operator.create_session("hold", [{"name": "ann"}]))["ann"]
    await run("sleep", "hold:ann")
    body = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hello"}]}
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as http:
        call = asyncio.create_task(http.post(f"{operator.url}/llm/openai/v1/chat/completions", json=body))
        await operator.held_by("hold", "ann")
        seen = await run("holds", "--session", "hold")
        assert "hold:ann" in seen.out
        assert "/v1/chat/completions" in seen.out
        listed = (await run("holds", "--agent", "ann", "--json")).json["holds"]
        assert [each["reference"] for each in listed] == ["hold:ann"]
        async with started("holds", "--watch", "--json", "--session", "hold") as watching:
            await watching.until("hold:ann")
            assert (await run("wake", "hold:ann")).status == 0
            await watching.until('{"holds":[],"total":0,')
        answer = await call
        assert answer.status == 200
        answer.close()
    gone = await run("holds", "--session", "hold")
    assert (gone.status, gone.out, gone.err) == (0, "", "no call is held\n")
