"""An agent writes to another's inbox, wakes it, and keeps its own, with official clients of both protocol eras."""

from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client

from circadia.mcp_server.tools import TOOLS
from circadia.records.agent import Agent
from circadia.records.principal import Principal
from circadia.wake.inbox import OutgoingMessage
from tests.mcp_server.stand import ERAS, Stand, refused, stand, structured, text


async def asleep_pair(at: Stand) -> tuple[Agent, Agent]:
    """Make ann, who is awake, and bob, who is asleep."""
    ann, bob = await at.agent("ann"), await at.agent("bob")
    await at.set_asleep(bob, True)
    return ann, bob


async def sent(client: Client, tool: str, **given: object) -> dict[str, Any]:
    return structured(await client.call_tool(tool, given))


@pytest.mark.spec("WAKE-01", "WAKE-05")
@pytest.mark.parametrize("era", ERAS)
async def test_a_message_waits_in_the_inbox_and_a_wake_opens_the_gate(tmp_path: Path, era: str) -> None:
    async with stand(tmp_path) as at:
        _, bob = await asleep_pair(at)
        async with at.client("ann", era) as ann:
            told = await sent(ann, "message_agent", to="bob", message="the notes can start")
            assert (told["decision"], told["wake"]) == (None, None)
            assert (await at.row(bob)).asleep
            told = await sent(ann, "wake_agent", to="bob", message="the build is red", reason="blocker")
        assert (told["decision"], told["to"], told["rule"]) == ("admitted", "bob", None)
        assert told["day_budget"] == {"limit": 12.0, "left": 11.0}
        assert told["pair_budget"] == {"limit": 5.0, "left": 4.0}
        assert told["session_budget"] == {"limit": 3.0, "left": 2.0}
        assert not (await at.row(bob)).asleep
        assert await at.unread(bob) == ["the notes can start", "the build is red"]


@pytest.mark.spec("WAKE-01")
def test_the_descriptions_tell_to_prefer_what_disturbs_nobody() -> None:
    told = {tool.name: tool.description for tool in TOOLS}
    assert "all that can wait" in told["message_agent"]
    assert "Prefer message_agent" in told["wake_agent"]


@pytest.mark.spec("WAKE-05", "WAKE-02")
async def test_where_a_budget_is_spent_the_answer_says_that_the_message_is_kept_and_what_stays_free(
    tmp_path: Path,
) -> None:
    async with stand(tmp_path) as at:
        _, bob = await asleep_pair(at)
        async with at.client("ann") as ann:
            for number in range(3):
                await sent(ann, "wake_agent", to="bob", message=f"n{number}", reason="blocker")
            told = await sent(ann, "wake_agent", to="bob", message="n3", reason="blocker")
        assert (told["decision"], told["rule"]) == ("refused", "max_wakes_per_session")
        assert "message is in its inbox" in told["summary"]
        assert "message_agent stays free" in told["summary"]
        assert told["session_budget"] == {"limit": 3.0, "left": 0.0}
        assert await at.unread(bob) == ["n0", "n1", "n2", "n3"]


@pytest.mark.spec("WAKE-03")
async def test_a_call_that_is_repeated_with_its_key_does_nothing_twice(tmp_path: Path) -> None:
    async with stand(tmp_path) as at:
        _, bob = await asleep_pair(at)
        async with at.client("ann") as ann:
            given = {"to": "bob", "message": "once", "reason": "blocker", "key": "k"}
            first, second = await sent(ann, "wake_agent", **given), await sent(ann, "wake_agent", **given)
        assert (first["message"], first["wake"], first["pulse"]) == (
            second["message"], second["wake"], second["pulse"],
        )  # fmt: skip
        assert await at.unread(bob) == ["once"]


@pytest.mark.spec("WAKE-03")
@pytest.mark.parametrize("change", [{"message": "twice"}, {"reason": "user_request"}, {"to": "carl"}])
async def test_a_key_that_stands_for_something_else_is_refused_and_nothing_is_stored(
    tmp_path: Path, change: dict[str, str]
) -> None:
    async with stand(tmp_path) as at:
        _, bob = await asleep_pair(at)
        carl = await at.agent("carl")
        given = {"to": "bob", "message": "once", "reason": "blocker", "key": "k"}
        async with at.client("ann") as ann:
            await sent(ann, "wake_agent", **given)
            assert "use a new key" in refused(await ann.call_tool("wake_agent", {**given, **change}))
        assert (await at.unread(bob), await at.unread(carl)) == (["once"], [])


@pytest.mark.spec("WAKE-30", "WAKE-34")
@pytest.mark.parametrize("era", ERAS)
async def test_reading_marks_as_seen_and_leaves_unread_until_it_is_acknowledged(tmp_path: Path, era: str) -> None:
    async with stand(tmp_path) as at:
        ann, bob = await at.agent("ann"), await at.agent("bob")
        async with at.client("ann", era) as one, at.client("bob", era) as other:
            await sent(one, "message_agent", to="bob", message="when you can")
            urgent = await sent(one, "message_agent", to="bob", message="now", priority="urgent", type="unblock")
            read = await other.call_tool("read_inbox", {})
            seen = structured(read)
            assert [each["content"] for each in seen["messages"]] == ["now", "when you can"]
            assert (seen["messages"][0]["type"], seen["messages"][0]["priority"]) == ("unblock", "urgent")
            assert (seen["unread"], seen["after"]) == (2, None)
            assert f"--- end of {urgent['message']} ---" in text(read)
            assert await at.unread(bob) == ["when you can", "now"]
            async with at.store.begin_read() as tx:
                assert all(each.seen_at for each in await tx.deliveries.find_sent(ann.id))
            acked = await sent(other, "ack", messages=[urgent["message"]])
            assert acked == {"handled": [urgent["message"]], "unread": 1}
            assert (await sent(other, "ack", messages=[urgent["message"]]))["handled"] == []
            assert [each["content"] for each in (await sent(other, "read_inbox"))["messages"]] == ["when you can"]


@pytest.mark.spec("WAKE-33")
async def test_a_long_inbox_is_read_page_by_page_without_a_gap(tmp_path: Path) -> None:
    async with stand(tmp_path) as at:
        await at.agent("ann")
        await at.agent("bob")
        async with at.client("ann") as one, at.client("bob") as other:
            for number in range(7):
                await sent(one, "message_agent", to="bob", message=f"n{number}")
            read: list[str] = []
            given: dict[str, object] = {"limit": 3}
            while True:
                page = await sent(other, "read_inbox", **given)
                read += [each["content"] for each in page["messages"]]
                assert page["unread"] == 7
                if page["after"] is None:
                    break
                given = {"limit": 3, "after": page["after"]}
            assert read == [f"n{number}" for number in range(7)]


@pytest.mark.spec("WAKE-30")
async def test_a_search_finds_by_words_and_marks_nothing(tmp_path: Path) -> None:
    async with stand(tmp_path) as at:
        ann, _ = await at.agent("ann"), await at.agent("bob")
        async with at.client("ann") as one, at.client("bob") as other:
            first = await sent(one, "message_agent", to="bob", message="about 100% of Apples")
            await sent(one, "message_agent", to="bob", message="about pears")
            found = await sent(other, "search_inbox", words="100% of apples")
            assert [each["id"] for each in found["messages"]] == [first["message"]]
            async with at.store.begin_read() as tx:
                assert not any(each.seen_at for each in await tx.deliveries.find_sent(ann.id))
            await sent(other, "ack", messages=[first["message"]])
            assert (await sent(other, "search_inbox", words="apples", handled=False))["messages"] == []
            again = (await sent(other, "search_inbox", words="apples"))["messages"]
            assert [each["state"] for each in again] == ["handled"]


@pytest.mark.spec("WAKE-30")
async def test_a_snoozed_message_is_away_for_its_time(tmp_path: Path) -> None:
    async with stand(tmp_path) as at:
        _, bob = await at.agent("ann"), await at.agent("bob")
        async with at.client("ann") as one, at.client("bob") as other:
            message = (await sent(one, "message_agent", to="bob", message="later"))["message"]
            until = (await sent(other, "snooze", messages=[message], seconds=3600))["until"]
            assert (await sent(other, "read_inbox"))["messages"] == []
            async with at.store.begin_read() as tx:
                delivery = await tx.deliveries.get(bob.id, message)
            assert delivery is not None
            assert delivery.leased_until is not None
            assert delivery.leased_until.isoformat().removesuffix("+00:00") == until.removesuffix("Z")


@pytest.mark.spec("WAKE-34", "WAKE-30")
@pytest.mark.parametrize("era", ERAS)
async def test_a_reply_goes_where_the_message_came_from_and_handles_it(tmp_path: Path, era: str) -> None:
    async with stand(tmp_path) as at:
        ann, bob = await at.agent("ann"), await at.agent("bob")
        async with at.client("ann", era) as one, at.client("bob", era) as other:
            asked = (await sent(one, "message_agent", to="bob", message="is it red?"))["message"]
            answer = await sent(other, "reply", message=asked, content="no, green")
            assert (answer["thread"], answer["sent"]["to"]) == (None, "ann")
            got = (await sent(one, "read_inbox"))["messages"]
            assert [(each["content"], each["reply_to"]) for each in got] == [("no, green", asked)]
            assert await at.unread(bob) == []
            thread = structured(await one.call_tool("create_thread", {"name": "t", "participants": ["bob"]}))["thread"]
            given = {"thread": thread["id"], "content": "and now?", "mentions": ["bob"]}
            said = structured(await one.call_tool("send_message", given))["message"]["id"]
            answer = await sent(other, "reply", message=said, content="red")
            assert (answer["thread"], answer["sent"]) == (thread["id"], None)
            got = structured(await one.call_tool("wait_for_mention", {"timeout_seconds": 0}))["messages"]
            assert [(each["content"], each["mentions"]) for each in got] == [("red", ["ann"])]
            assert await at.unread(bob) == []
            assert await at.unread(ann) == ["no, green"]


@pytest.mark.spec("WAKE-30", "GATE-71")
async def test_the_waits_return_direct_messages_from_the_same_deliveries(tmp_path: Path) -> None:
    async with stand(tmp_path) as at:
        _, bob = await at.agent("ann"), await at.agent("bob")
        async with at.client("ann") as one, at.client("bob") as other:
            await sent(one, "message_agent", to="bob", message="direct")
            got = structured(await other.call_tool("wait_for_message", {"timeout_seconds": 20}))["messages"]
            assert [(each["content"], each["thread_name"]) for each in got] == [("direct", "direct")]
            while await at.door.ended.get():
                if not await at.unread(bob):
                    break
            assert (await sent(other, "read_inbox"))["messages"] == []


@pytest.mark.spec("WAKE-04", "WAKE-06")
async def test_each_mistake_is_told_with_what_to_do(tmp_path: Path) -> None:
    async with stand(tmp_path) as at:
        await asleep_pair(at)
        async with at.client("ann") as ann, at.client("operator") as operator:
            wrong: dict[str, tuple[str, dict[str, object]]] = {
                "'low', 'normal', 'high', 'urgent'": ("message_agent", {"to": "bob", "message": "x", "priority": "hi"}),
                "'info', 'review_request'": ("message_agent", {"to": "bob", "message": "x", "type": "chat"}),
                "'blocker', 'critical_finding'": ("wake_agent", {"to": "bob", "message": "x", "reason": "bored"}),
                "did you mean 'bob'": ("message_agent", {"to": "bobb", "message": "x"}),
                "to itself": ("wake_agent", {"to": "ann", "message": "x", "reason": "blocker"}),
                "64000 characters": ("message_agent", {"to": "bob", "message": "x" * 64_001}),
                "needs content": ("message_agent", {"to": "bob", "message": " "}),
                "no argument 'from'": ("message_agent", {"to": "bob", "message": "x", "from": "bob"}),
                "'msg_nowhere' in the inbox": ("ack", {"messages": ["msg_nowhere"]}),
                "'msg_nowhere' in your inbox": ("reply", {"message": "msg_nowhere", "content": "x"}),
                "greater than 0": ("snooze", {"messages": ["msg_nowhere"], "seconds": 0}),
                "that of the last answer": ("read_inbox", {"after": "msg_nowhere"}),
            }
            for said, (tool, given) in wrong.items():
                assert said in refused(await ann.call_tool(tool, given)), (tool, given)
            assert "forbidden" in refused(await operator.call_tool("read_inbox", {}))


@pytest.mark.spec("WAKE-30")
async def test_what_a_person_wrote_is_answered_in_a_thread(tmp_path: Path) -> None:
    async with stand(tmp_path) as at:
        await at.agent("ann")
        async with at.store.begin_write() as tx:
            home = await tx.sessions.get_by_name("default")
            assert home is not None
            letter = OutgoingMessage(to="ann", content="how is it?")
            message = (await at.inbox.send(tx, Principal(), home, letter)).message.id
        async with at.client("ann") as ann:
            assert "say your answer in a thread" in refused(
                await ann.call_tool("reply", {"message": message, "content": "well"})
            )
