"""`circadia events`."""

import signal

import pytest

from tests.cli.terminal import run, started
from tests.fixtures.server_process import CircadiaProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_events_are_printed_after_a_number_and_by_kind(operator: CircadiaProcess) -> None:
    await operator.create_session("record", [{"name": "ann"}])
    await run("sleep", "record:ann")
    await run("wake", "record:ann")
    kinds = ("--type", "sleep_start", "--type", "sleep_stop")
    found = (await run("events", "--session", "record", *kinds, "--json")).json["events"]
    assert [each["type"] for each in found] == ["sleep_start", "sleep_stop"]
    later = (await run("events", "--session", "record", "--after", str(found[0]["number"]), "--json")).json["events"]
    assert [each["type"] for each in later] == ["sleep_stop", "wake"]
    lines = (await run("events", "--session", "record", *kinds)).out.splitlines()
    assert len(lines) == 2
    assert "record:ann" in lines[0]
    assert "actor=operator" in lines[0]


async def test_the_newest_are_found_however_far_back_the_filter_reaches(operator: CircadiaProcess) -> None:
    await operator.create_session("early", [{"name": "ann"}])
    await operator.create_session("noise", [{"name": f"a{number}"} for number in range(40)])
    found = (await run("events", "--last", "1", "--session", "early", "--json")).json["events"]
    assert [(each["type"], each["agent"]) for each in found] == [("agent_created", "ann")]
    assert (await run("events", "--last", "0", "--json")).json == {"events": []}
    every = (await run("events", "--after", "0", "--json")).json["events"]
    assert (await run("events", "--last", "7", "--json")).json["events"] == every[-7:]


async def test_follow_prints_what_happens_next_one_document_a_line(operator: CircadiaProcess) -> None:
    await operator.create_session("next", [{"name": "ann"}])
    async with started("events", "--follow", "--json", "--session", "next", "--last", "1") as following:
        assert '"agent_created"' in await following.until("agent_created")
        await operator.put_sleeping("next", "ann", True)
        assert '"sleep_start"' in await following.until("sleep_start")
        following.signal(signal.SIGINT)
        ended = await following.ended()
    assert (ended.status, ended.err) == (130, "")


async def test_follow_resumes_after_a_number(operator: CircadiaProcess) -> None:
    await operator.create_session("resume", [{"name": "ann"}])
    await operator.put_sleeping("resume", "ann", True)
    first = (await run("events", "--session", "resume", "--after", "0", "--json")).json["events"][0]
    words = ("--after", str(first["number"]), "--session", "resume")
    async with started("events", "--follow", *words) as following:
        said = await following.until("sleep_start")
    assert "session_created" not in said
    assert "agent_created" in said
