"""`circadia send`, `wakes`, `chain`, `pulses` and `coordination`."""

import asyncio

import pytest

from tests.cli.terminal import refused, run
from tests.fixtures.server_process import CircadiaProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASLEEP = {"sleep_events": ["agent_started"]}
FREE = ("cooldown_seconds=0", "max_wakes_per_pair_per_day=null", "max_wakes_per_session=null")


async def crew(server: CircadiaProcess, session: str, *names: str) -> dict[str, str]:
    """Make a session of sleeping agents and return their tokens."""
    return await server.create_session(session, [{"name": name, **ASLEEP} for name in ("lead", "writer", *names)])


async def test_a_message_waits_in_the_inbox_and_wakes_nobody(operator: CircadiaProcess) -> None:
    await crew(operator, "calm")
    result = await run("send", "calm:writer", "the notes can start", "--type", "unblock")
    assert result.status == 0
    assert "msg_" in result.err
    assert (await operator.call("GET", "/sessions/calm/agents/writer/sleeping"))["sleeping"]
    told = (await run("inbox", "writer", "--session", "calm")).out
    assert "1 unread" in told
    assert "the notes can start" in told
    (item,) = (await run("inbox", "calm:writer", "--json")).json["messages"]
    assert (item["from"], item["type"], item["state"], item["seen_at"]) == ("operator", "unblock", "unread", None)


async def test_a_wake_opens_the_gate_and_is_listed(operator: CircadiaProcess) -> None:
    await crew(operator, "urgent")
    sent = (await run("send", "urgent:writer", "the build is red", "--wake", "blocker", "--json")).json
    assert (sent["decision"], sent["rule"]) == ("admitted", None)
    assert not (await operator.call("GET", "/sessions/urgent/agents/writer/sleeping"))["sleeping"]
    (wake,) = (await run("wakes", "--agent", "writer", "--session", "urgent", "--json")).json["wakes"]
    assert (wake["id"], wake["from"], wake["reason"]) == (sent["wake"], "operator", "blocker")
    assert "admitted" in (await run("wakes", "--agent", "urgent:writer", "--decision", "admitted")).out
    assert "no wake" in (await run("wakes", "--agent", "urgent:writer", "--decision", "refused")).err


async def test_a_key_makes_a_repeat_do_nothing(operator: CircadiaProcess) -> None:
    await crew(operator, "twice")
    words = ("send", "twice:writer", "once", "--key", "deploy-42", "--json")
    assert (await run(*words)).json["message"] == (await run(*words)).json["message"]
    assert len((await run("inbox", "twice:writer", "--all", "--json")).json["messages"]) == 1


async def test_the_inbox_is_searched_and_shows_all_states_if_asked(operator: CircadiaProcess) -> None:
    await crew(operator, "search")
    for text in ("deploy of 7.1", "lunch"):
        await run("send", "search:writer", text)
    (found,) = (await run("inbox", "search:writer", "--search", "DEPLOY", "--json")).json["messages"]
    await operator.call("POST", f"/agents/search:writer/inbox/{found['id']}/ack")
    assert len((await run("inbox", "search:writer", "--json")).json["messages"]) == 1
    states = [each["state"] for each in (await run("inbox", "search:writer", "--all", "--json")).json["messages"]]
    assert states == ["handled", "unread"]
    assert "1 handled" in (await run("inbox", "search:writer", "--limit", "1")).out


@pytest.mark.spec("WAKE-71")
async def test_why_not_tells_what_each_guardrail_says_and_writes_nothing(operator: CircadiaProcess) -> None:
    await crew(operator, "dry")
    await run("agents", "coordination", "dry:writer", "max_wakes_per_day=0", "max_chain_depth=0")
    result = await run("wakes", "why-not", "writer", "--from", "lead", "--session", "dry")
    assert result.status == 0
    failed = [line.split()[0] for line in result.out.splitlines() if " fails " in line]
    assert failed == ["max_chain_depth", "max_wakes_per_day"]
    told = (await run("wakes", "why-not", "dry:writer", "--json")).json
    assert (told["decision"], told["dry_run"], len(told["trace"])) == ("refused", True, 14)
    assert "no wake" in (await run("wakes", "--agent", "dry:writer")).err
    overridden = await run("wakes", "why-not", "dry:writer", "--override", "the demo begins")
    assert "let pass by operator: the demo begins" in overridden.out
    assert (await run("wakes", "--agent", "dry:writer", "--json")).json["wakes"] == []


@pytest.mark.spec("WAKE-71")
async def test_explain_shows_the_recorded_decision_with_each_guardrail(operator: CircadiaProcess) -> None:
    await crew(operator, "past")
    await run("agents", "coordination", "past:writer", "max_wakes_per_day=0")
    sent = (await run("send", "past:writer", "go", "--wake", "blocker", "--json")).json
    out = (await run("wakes", "explain", sent["wake"])).out
    assert [line.split()[0] for line in out.splitlines() if " fails " in line] == ["max_wakes_per_day"]
    assert "operator asked to wake past:writer for blocker: refused (max_wakes_per_day: " in out
    assert (await run("wakes", "explain", sent["wake"], "--json")).json["rule"] == "max_wakes_per_day"
    refused(await run("wakes", "explain", "wak_none"), 4, "'wak_none'")


async def test_a_person_lets_a_wake_pass_and_says_why(operator: CircadiaProcess) -> None:
    await crew(operator, "over")
    await run("agents", "coordination", "over:writer", "max_wakes_per_day=0")
    words = ("send", "over:writer", "now please", "--wake", "user_request")
    assert (await run(*words, "--json")).json["decision"] == "refused"
    assert (await run(*words, "--override", "the demo begins", "--json")).json["decision"] == "admitted"
    (passed,) = (await run("wakes", "--agent", "over:writer", "--decision", "admitted", "--json")).json["wakes"]
    assert passed["overridden_by"] == "operator: the demo begins"
    refused(await run("send", "over:writer", "x", "--override", "why"), 2, "--wake")


async def test_who_woke_whom_is_a_matrix(operator: CircadiaProcess) -> None:
    tokens = await crew(operator, "matrix", "editor")
    await run("agents", "coordination", "matrix:writer", *FREE, "max_wakes_per_day=1", "on_busy=refuse")
    await run("sleep", "matrix:writer")
    for name in ("lead", "lead", "editor"):
        await run("send", "writer", "look", "--wake", "blocker", "--session", "matrix", "--token", tokens[name])
        await run("sleep", "matrix:writer")
    out = (await run("wakes", "matrix")).out.splitlines()
    lead = next(line for line in out if line.startswith("matrix:lead"))
    assert "2 (1 not)" in lead
    pairs = (await run("wakes", "matrix", "--json")).json["pairs"]
    assert {"from": "matrix:editor", "to": "matrix:writer", "decisions": {"refused": 1}, "total": 1} in pairs


@pytest.mark.spec("WAKE-75")
async def test_replay_tells_which_decisions_another_limit_would_have_changed(operator: CircadiaProcess) -> None:
    tokens = await crew(operator, "replay")
    for name in ("writer", "lead"):
        await run("agents", "coordination", f"replay:{name}", *FREE)
    for number in range(4):
        await run("sleep", "replay:writer")
        sent = await run("send", "replay:writer", f"{number}", "--wake", "blocker", "--token", tokens["lead"], "--json")
        assert sent.json["decision"] == "admitted", sent.out
    words = ("wakes", "replay", "--since", "2026-01-01", "--agent", "replay:writer")
    assert (await run(*words, "--json")).json["changed"] == []
    told = (await run(*words, "--set", "max_wakes_per_day=2", "--json")).json
    assert (told["replayed"], told["was"], told["would_be"]) == (4, {"admitted": 4}, {"admitted": 2, "refused": 2})
    assert [(each["rule"], each["value"], each["limit"]) for each in told["changed"]] == [
        ("max_wakes_per_day", 2, 2)
    ] * 2
    out = (await run(*words, "--set", "max_wakes_per_day=2")).out
    assert out.startswith("2 of 4 decisions would change")
    assert "max_wakes_per_day: 2 of 2" in out
    (pair,) = (await run(*words, "--set", "max_wakes_per_pair_per_day=3", "--json")).json["changed"]
    assert pair["rule"] == "max_wakes_per_pair_per_day"
    refused(await run(*words, "--set", "max_wakes=4"), 2, "a replay cannot change 'max_wakes'")
    refused(await run("wakes", "replay", "--since", "soon"), 2, "'soon'")


async def test_a_deferred_wake_is_taken_back_and_its_message_stays(operator: CircadiaProcess) -> None:
    await crew(operator, "cancel")
    first = (await run("send", "cancel:writer", "one", "--wake", "blocker", "--json")).json
    second = (await run("send", "cancel:writer", "two", "--wake", "blocker", "--json")).json
    assert (first["decision"], second["decision"]) == ("admitted", "deferred")
    assert (await run("wakes", "cancel", second["wake"])).out == f"wake {second['wake']} of cancel:writer: cancelled\n"
    refused(await run("wakes", "cancel", second["wake"]), 5, "cancelled already")
    assert len((await run("inbox", "cancel:writer", "--json")).json["messages"]) == 2


@pytest.mark.spec("WAKE-71")
async def test_a_chain_is_a_tree_of_what_came_of_what(operator: CircadiaProcess) -> None:
    tokens = await crew(operator, "chain")
    sent = (await run("send", "chain:lead", "find out", "--wake", "blocker", "--json")).json
    await run("send", "chain:writer", "write it", "--wake", "blocker", "--token", tokens["lead"])
    out = (await run("wakes", "chain", sent["wake"])).out
    assert "2 messages, 2 wakes, 2 pulses, depth 2, 0 calls, 0 tokens" in out
    lines = [line for line in out.splitlines() if "write it" in line]
    assert lines
    assert lines[0].index("write it") > out.splitlines()[1].index("find out")
    found = (await run("wakes", "chain", sent["pulse"], "--json")).json
    assert (found["root"], found["depth"]) == (sent["root"], 2)
    refused(await run("wakes", "chain", "msg_none"), 4, "'msg_none'")


async def test_pulses_are_listed_and_cancelled(operator: CircadiaProcess) -> None:
    await crew(operator, "pulses")
    sent = (await run("send", "pulses:writer", "go", "--wake", "blocker", "--json")).json
    out = (await run("pulses", "--session", "pulses")).out
    assert "pulses:writer" in out
    assert "running" in out
    assert (await run("pulses", "cancel", sent["pulse"])).out == f"pulse {sent['pulse']} of pulses:writer: cancelled\n"
    (pulse,) = (await run("pulses", "--agent", "pulses:writer", "--status", "cancelled", "--json")).json["pulses"]
    assert pulse["id"] == sent["pulse"]
    refused(await run("pulses", "cancel", "pls_none"), 4, "'pls_none'")


async def test_a_pulse_is_started_by_hand_if_the_guardrails_admit_it(operator: CircadiaProcess) -> None:
    await crew(operator, "hand")
    words = ("pulses", "start", "hand:writer", "--reason", "write the notes")
    assert "is woken" in (await run(*words)).out
    (pulse,) = (await run("pulses", "--agent", "hand:writer", "--json")).json["pulses"]
    assert (pulse["by"], pulse["reason"]) == ("operator", "write the notes")
    await run("agents", "coordination", "hand:writer", *FREE, "max_wakes_per_day=0")
    await run("pulses", "cancel", pulse["id"])
    again = (await run(*words, "--json")).json
    assert (again["decision"], again["rule"]) == ("refused", "max_wakes_per_day")
    forced = (await run(*words, "--override", "the demo begins", "--timeout-seconds", "60", "--json")).json
    assert forced["decision"] == "admitted"


async def test_of_a_failure_of_many_lines_the_list_has_the_first_and_the_last_and_json_all(
    operator: CircadiaProcess,
) -> None:
    await crew(operator, "lines")
    await run("agents", "coordination", "lines:writer", "launcher=talker")
    await run("send", "lines:writer", "go", "--wake", "blocker")
    words = ("pulses", "--agent", "lines:writer", "--status", "failed")
    async with asyncio.timeout(60):
        while not (found := (await run(*words, "--json")).json["pulses"]):
            await asyncio.sleep(0.05)
    assert found[0]["detail"] == "exit status 3; its last output:\nfirst\nsecond"
    (_, line) = (await run(*words)).out.splitlines()
    assert line.rstrip().endswith("exit status 3; its last output: … second")


@pytest.mark.spec("WAKE-16")
async def test_each_setting_is_shown_with_its_source_and_changed(operator: CircadiaProcess) -> None:
    await crew(operator, "limits")
    words = ("agents", "coordination", "limits:writer")
    changed = (await run(*words, "max_wakes_per_day=4", "on_busy=refuse", "--json")).json
    shown = {key: (each["value"], each["source"]) for key, each in changed["settings"].items()}
    assert shown["wake_guardrails.max_wakes_per_day"] == (4, "patch")
    assert shown["on_busy"] == ("refuse", "patch")
    assert shown["launcher"] == ("resident", "default")
    line = next(each for each in (await run(*words)).out.splitlines() if "max_wakes_per_day" in each)
    assert line.split()[1:3] == ["4", "patch"]
    reset = ("--reset", "max_wakes_per_day", "--reset", "on_busy", "zone=Europe/Berlin")
    back = (await run(*words, *reset, "--json")).json["settings"]
    assert [back[key]["source"] for key in ("wake_guardrails.max_wakes_per_day", "on_busy", "zone")] == [
        "default", "default", "patch",
    ]  # fmt: skip
    refused(await run(*words, "--reset", "max_wakes_a_day"), 4, "max_wakes_per_day")
    refused(await run(*words, "max_wakes_a_day=4"), 2, "max_wakes_per_day")
    refused(await run(*words, "max_wakes_per_day=-1"), 2, "max_wakes_per_day")
    refused(await run(*words, "max_wakes_per_day"), 2, "KEY=VALUE")


@pytest.mark.parametrize(
    "words",
    [
        ("send", "near:wirter", "x"),
        ("inbox", "near:wirter"),
        ("wakes", "why-not", "near:wirter"),
        ("wakes", "--agent", "near:wirter"),
        ("pulses", "--agent", "near:wirter"),
        ("agents", "schedule", "near:wirter"),
        ("agents", "coordination", "near:wirter"),
    ],
    ids=" ".join,
)
async def test_an_unknown_agent_is_told_with_the_nearest_names(
    operator: CircadiaProcess, words: tuple[str, ...]
) -> None:
    known = [each["name"] for each in (await run("sessions", "--json")).json["sessions"]]
    if "near" not in known:
        await crew(operator, "near")
    refused(await run(*words), 4, "wirter", "writer")


async def test_an_agent_sees_its_own_inbox_only(operator: CircadiaProcess) -> None:
    tokens = await crew(operator, "own")
    assert (await run("inbox", "own:lead", "--token", tokens["lead"])).status == 0
    refused(await run("inbox", "own:writer", "--token", tokens["lead"]), 3, "lead")


async def test_messages_that_nobody_handled_are_listed_over_all_agents_and_only_dead_ones_requeued(
    operator: CircadiaProcess,
) -> None:
    await crew(operator, "waiting")
    sent = (await run("send", "waiting:writer", "the notes can start", "--json")).json["message"]
    assert "no message is dead" in (await run("messages")).err
    listed = (await run("messages", "--state", "unread")).out
    assert sent in listed
    assert "waiting:writer" in listed
    assert "was requeued before" in (await run("messages", "requeue", sent)).out
    await operator.call("POST", f"/agents/waiting:writer/inbox/{sent}/ack")
    refused(await run("messages", "requeue", sent), 5, sent, "handled")
    refused(await run("messages", "--state", "handled"), 2, "dead")
