"""The end of a conversation, seen at a whole server, begins a pass over what was said in it (SLEEP-02)."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest

from circadia.stores.signals.local import LocalSignals
from circadia.testing.upstream import MockUpstream
from tests.gateway.bound_agent import RESPONSES, BoundAgentServer, bound, chat
from tests.interaction.live import KEY, Live, live

NEVER: dict[str, Any] = {"idle_seconds": 3600, "frequency_turns": 0, "importance": 0, "model": "none"}
SAID = chat("My flat in Porto is near the river.")
TALKS = ["POST /v1/conversations", "DELETE /v1/conversations/{own}", "DELETE /v1/conversations/{own}/items/{id}"]
pytestmark = pytest.mark.spec("SLEEP-02")


class ConversationEndSignals(LocalSignals):
    """Shows who was told of the end of a conversation, and with which end user."""

    ends: list[tuple[str, object]]

    def publish(self, topic: str, key: str, data: Mapping[str, object] | None = None) -> None:
        if topic == "conversation":
            self.ends.append((key, (data or {}).get("user")))
        super().publish(topic, key, data)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, object]]:
    """Return a list that fills with the ends of conversations of which the test's servers are told."""
    monkeypatch.setattr(ConversationEndSignals, "ends", [], raising=False)
    monkeypatch.setattr("circadia.server.cluster_wiring.LocalSignals", ConversationEndSignals)
    return ConversationEndSignals.ends


async def begun(at: Live, bank: str = "memory") -> str:
    """Return what the bank's first pass was begun for, once there is one."""
    async with asyncio.timeout(60):
        while True:
            status, found = await at.rest("GET", f"/banks/{bank}/passes")
            assert status == 200, found
            if found["passes"]:
                return found["passes"][0]["trigger"]
            await asyncio.sleep(0.05)  # it begins in the server, which tells nobody here


async def thread(at: Live, session: str, *names: str) -> str:
    status, made = await at.rest("POST", f"/sessions/{session}/threads", {"name": "flat", "participants": names})
    assert status == 201, made
    return f"/sessions/{session}/threads/{made['id']}"


async def told(ann: BoundAgentServer, text: object, **more: object) -> str:
    """Say something, which the provider keeps; return the id of its answer."""
    async with ann.at.call(ann.token, RESPONSES, {"model": "mock-1", "input": text, **more}) as response:
        answer = await response.json()
        assert response.status == 200, answer
    await ann.at.server.exchanges.flush()
    return answer["id"]


async def deleted(ann: BoundAgentServer, path: str) -> None:
    async with ann.at.call(ann.token, path, None, method="DELETE") as response:
        assert response.status == 200, await response.read()


async def test_a_thread_that_is_closed_begins_a_pass_over_the_banks_of_those_who_took_part(tmp_path: Path) -> None:
    others = {"bob": {"bank": "plans"}, "cid": {"bank": "others"}}
    async with bound(tmp_path, others=others, sections={"sleeptime": NEVER}) as ann:
        place = await thread(ann.at, "default", "ann", "bob")
        for bank in ("memory", "plans", "others"):
            await ann.at.rest("POST", "/banks", {"name": bank})
            assert (await ann.at.rest("POST", f"/banks/{bank}/episodes", {"text": "The roof leaks."}))[0] == 201
        assert (await ann.at.rest("POST", f"{place}/close", {}))[0] == 200
        assert [await begun(ann.at, "memory"), await begun(ann.at, "plans")] == ["ended", "ended"]
        assert (await ann.at.rest("GET", "/banks/others/passes"))[1]["passes"] == []


async def test_a_session_that_is_closed_ends_the_conversations_of_its_agents(tmp_path: Path) -> None:
    async with live(tmp_path, sleeptime=NEVER) as at:
        graph = {"name": "night", "agents": [{"name": "dora", "policy": {"bank": "memory"}}],
                 "threads": [{"name": "roof", "participants": ["dora"]}]}  # fmt: skip
        assert (await at.rest("POST", "/sessions", graph))[0] == 201
        await at.rest("POST", "/banks", {"name": "memory"})
        assert (await at.rest("POST", "/banks/memory/episodes", {"text": "The roof leaks."}))[0] == 201
        assert (await at.rest("DELETE", "/sessions/night"))[0] < 300
        assert await begun(at) == "ended"


async def test_a_thread_closed_at_one_server_begins_a_pass_over_what_was_said_at_another(
    tmp_path: Path, postgres_url: str
) -> None:
    sections: dict[str, Any] = {"server": {"database_url": postgres_url}, "sleeptime": NEVER}
    async with live(tmp_path / "here", **sections) as here, live(tmp_path / "there", **sections) as there:
        token = await here.agent(bank="memory")
        place = await thread(here, "default", "ann")
        async with there.call(token, body=SAID) as response:
            assert response.status == 200
            await response.read()
        await there.server.exchanges.flush()
        assert (await here.rest("POST", f"{place}/close", {}))[0] == 200
        assert await begun(there) == "ended"


async def test_a_chain_of_stored_answers_that_is_deleted_to_its_end_begins_a_pass(
    tmp_path: Path, ends: list[tuple[str, object]]
) -> None:
    async with bound(tmp_path, sections={"sleeptime": NEVER}) as ann:
        first = await told(ann, "My flat in Porto is near the river.")
        second = await told(ann, "Its cellar is wet.", previous_response_id=first)
        await deleted(ann, f"/v1/responses/{first}")
        assert ends == [], "the chain goes on from its newest answer"
        await deleted(ann, f"/v1/responses/{second}")
        assert len(ends) == 1
        assert await begun(ann.at) == "ended"


@pytest.fixture
async def provider() -> AsyncGenerator[MockUpstream]:
    """Return a provider that keeps its answers while servers stop and start."""
    async with MockUpstream(key=KEY) as mock:
        yield mock


@pytest.mark.parametrize("more", [0, 1, 2])
async def test_the_end_of_a_chain_is_known_after_a_restart_of_the_server(
    tmp_path: Path, ends: list[tuple[str, object]], provider: MockUpstream, more: int
) -> None:
    name: dict[str, str] = {}
    texts = ("Its cellar is wet.", "Its roof leaks.")
    for said in (texts, texts[:more]):
        async with bound(tmp_path, sections={"sleeptime": NEVER, "provider": provider}) as ann:
            for text in said:
                name["previous_response_id"] = await told(ann, text, **name)
            if said is not texts:
                assert ends == []
                await deleted(ann, f"/v1/responses/{name['previous_response_id']}")
                assert len(ends) == 1
                assert await begun(ann.at) == "ended"


async def test_one_answer_before_a_restart_is_no_chain_and_is_one_when_it_goes_on(
    tmp_path: Path, ends: list[tuple[str, object]], provider: MockUpstream
) -> None:
    sections = {"sleeptime": NEVER, "provider": provider}
    async with bound(tmp_path, sections=sections) as ann:
        first, other = await told(ann, "My flat is in Porto."), await told(ann, "The shed has no roof.")
    async with bound(tmp_path, sections=sections) as ann:
        await deleted(ann, f"/v1/responses/{other}")
        assert ends == []
        last = await told(ann, "Its cellar is wet.", previous_response_id=first)
        await deleted(ann, f"/v1/responses/{last}")
    assert len(ends) == 1


@pytest.mark.parametrize("starts", [1, 3])
async def test_answers_that_a_client_never_went_on_from_end_no_conversation(
    tmp_path: Path, ends: list[tuple[str, object]], provider: MockUpstream, starts: int
) -> None:
    said: list[dict[str, str]] = []
    names: list[str] = []
    for at in range(starts):
        async with bound(tmp_path, sections={"sleeptime": NEVER, "provider": provider}) as ann:
            for name in names:
                await deleted(ann, f"/v1/responses/{name}")
            for text in ("My flat is in Porto.", "Its cellar is wet.", "Its roof leaks."):
                said.append({"role": "user", "content": f"{at}. {text}"})
                provider.next(text="I see.")
                names = [await told(ann, said)]  # all that was said, anew
                said.append({"role": "assistant", "content": "I see."})
                if text != "Its roof leaks.":
                    await deleted(ann, f"/v1/responses/{names[0]}")
            calls = [each["calls"] for each in await ann.at.usage("conversation")]
            assert calls == [3 * (at + 1)], "it is one conversation over all starts"
    assert ends == []


@pytest.mark.parametrize(("bank", "user"), [("memory", None), ("of-{user}", "cid")])
async def test_a_conversation_that_is_deleted_at_the_provider_begins_a_pass_over_the_bank_of_its_end_user(
    tmp_path: Path, ends: list[tuple[str, object]], bank: str, user: str | None
) -> None:
    sections = {"sleeptime": NEVER, "upstream": {"paths": TALKS}}
    async with bound(tmp_path, bank=bank, sections=sections) as ann:
        ann.at.upstream.next(path="/v1/conversations", status=200, body={"id": "conv_7", "object": "conversation"})
        async with ann.at.call(ann.token, "/v1/conversations", {}) as response:
            assert response.status == 200
        await told(ann, "My flat in Porto is near the river.", user="dan")
        await told(ann, "Its cellar is wet.", conversation="conv_7", user=user)
        ann.at.upstream.next(path="/v1/conversations/conv_7/items/msg_1", status=200, body={"id": "conv_7"})
        await deleted(ann, "/v1/conversations/conv_7/items/msg_1")
        async with ann.at.call(ann.token, "/v1/conversations/conv_8", None, method="DELETE") as response:
            assert response.status == 404, "of somebody else"
        assert ends == [], "it goes on without the item"
        ann.at.upstream.next(path="/v1/conversations/conv_7", status=200, body={"id": "conv_7", "deleted": True})
        await deleted(ann, "/v1/conversations/conv_7")
        assert [each for _, each in ends] == [user]
        assert await begun(ann.at, bank.replace("{user}", user or "")) == "ended"
        if user:
            assert (await ann.at.rest("GET", "/banks/of-dan/passes"))[1]["passes"] == []


async def test_a_conversation_that_the_provider_does_not_delete_goes_on(
    tmp_path: Path, ends: list[tuple[str, object]]
) -> None:
    async with bound(tmp_path, sections={"sleeptime": NEVER}) as ann:
        first = await told(ann, "My flat in Porto is near the river.")
        second = await told(ann, "Its cellar is wet.", previous_response_id=first)
        path = f"/v1/responses/{second}"
        ann.at.upstream.next(path=path, status=409, body={"error": {"message": "it is in use"}})
        async with ann.at.call(ann.token, path, None, method="DELETE") as response:
            assert response.status == 409
        assert ends == []
        ann.at.upstream.next(path=path, status=200, body={"id": second, "deleted": True})
        await deleted(ann, path)
        assert len(ends) == 1


@pytest.mark.spec("SLEEP-02")
async def test_turns_whose_answer_says_nothing_count_for_the_cadence(tmp_path: Path) -> None:
    async with bound(tmp_path, sections={"sleeptime": {**NEVER, "frequency_turns": 3}}) as ann:
        ann.at.upstream.next(text="Fine.", times=3)
        for said in ("My flat in Porto is near the river.", "My sister lives in Braga.", "Her cat is called Minka."):
            assert (await ann.at.rest("GET", "/banks/memory/passes"))[1].get("passes", []) == []
            await ann.say(chat(said))
        assert await begun(ann.at) == "cadence"


@pytest.mark.spec("SLEEP-02")
async def test_an_answer_that_is_written_again_counts_for_the_cadence_each_time(tmp_path: Path) -> None:
    async with bound(tmp_path, sections={"sleeptime": {**NEVER, "frequency_turns": 3}}) as ann:
        await ann.make(block="Ann likes tea.")
        for number in range(3):
            answer = {"text": "The door of the flat is blue.", "speaker": "ann", "conversation": "talk"}
            status, made = await ann.at.rest("POST", "/banks/memory/episodes", answer, token=ann.token)
            assert (status, made["new"]) == (201, number == 0), made
        assert await begun(ann.at) == "cadence"
