"""`circadia agents`."""

from pathlib import Path

import pytest

from tests.cli.terminal import refused, run
from tests.fixtures.server_process import ADMIN_TOKEN, CircadiaProcess
from tests.house.tree import DOCS, parts

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def agents(server: CircadiaProcess, session: str) -> dict[str, dict[str, object]]:
    found = (await server.call("GET", f"/sessions/{session}/agents"))["agents"]
    return {each["name"]: each for each in found}


async def test_a_new_agents_token_and_what_its_program_needs_are_printed(operator: CircadiaProcess) -> None:
    result = await run("agents", "add", "helper")
    assert result.status == 0
    token = next(word for word in result.out.split() if word.startswith("circadia-agent-"))
    assert f"OPENAI_API_KEY={token}" in result.err
    assert f"OPENAI_BASE_URL={operator.url}/llm/openai/v1" in result.err
    assert (await run("sleep", "helper", "--token", token)).status == 0


async def test_the_lines_are_those_of_the_providers_that_the_agent_may_call(home: Path) -> None:
    upstreams = {
        "first": {"base_url": "http://127.0.0.1:1"},
        "claude": {"base_url": "http://127.0.0.1:1", "api": "anthropic"},
        "google": {"base_url": "http://127.0.0.1:1", "api": "gemini"},
        "azure": {"base_url": "http://127.0.0.1:1", "key_header": "api-key"},
        "second": {"base_url": "http://127.0.0.1:1/v1"},
    }
    async with CircadiaProcess(home, {"upstreams": upstreams}) as server:
        words = ("--url", server.url, "--token", ADMIN_TOKEN)
        result = await run("agents", "add", "helper", *words)
        token = result.out.split()[-1]
        assert result.err.splitlines()[2:] == [
            f"  export AZURE_OPENAI_API_KEY={token}",
            f"  export AZURE_OPENAI_ENDPOINT={server.url}/llm/azure",
            f"  export ANTHROPIC_API_KEY={token}",
            f"  export ANTHROPIC_BASE_URL={server.url}/llm/claude",
            f"  export OPENAI_API_KEY={token}",
            f"  export OPENAI_BASE_URL={server.url}/llm/first/v1",
            f"  # or, for second: OPENAI_BASE_URL={server.url}/llm/second/v1",
            f"  export GEMINI_API_KEY={token}",
            f"  export GOOGLE_GEMINI_BASE_URL={server.url}/llm/google",
            f"  # MCP: {server.url}/mcp, with `Authorization: Bearer` and the token",
        ]
        result = await run("agents", "add", "other", "--set", "upstreams=[claude]", *words)
        assert "ANTHROPIC_API_KEY" in result.err
        assert "OPENAI_API_KEY" not in result.err


async def test_events_and_policy_are_taken(operator: CircadiaProcess) -> None:
    await operator.create_session("crew", [])
    words = ("--wake-on", "mentioned", "--sleep-on", "agent_started", "--description", "writes")
    policy = ("--set", "max_calls_per_day=7", "--set", "may_wake=[lead, editor]", "--set", "on_wake=forward")
    made = (await run("agents", "add", "writer", "--session", "crew", *words, *policy, "--json")).json
    assert (made["sleeping"], made["wake_events"], made["description"]) == (True, ["mentioned"], "writes")
    kept = {key: made["policy"][key] for key in ("max_calls_per_day", "may_wake", "on_wake")}
    assert kept == {"max_calls_per_day": 7, "may_wake": ["lead", "editor"], "on_wake": "forward"}


async def test_the_list_shows_the_state_of_each(operator: CircadiaProcess) -> None:
    await operator.create_session("list", [{"name": "ann"}, {"name": "bob", "sleep_events": ["agent_started"]}])
    out = (await run("agents", "--session", "list")).out.splitlines()
    assert [line.split()[:2] for line in out[1:]] == [["ann", "awake"], ["bob", "asleep"]]
    assert "the event agent_started" in out[2]
    await run("sleep", "list:ann")
    assert "operator, over REST" in (await run("agents", "--session", "list")).out
    listed = (await run("agents", "--session", "list", "--json")).json["agents"]
    assert [each["name"] for each in listed] == ["ann", "bob"]


async def test_one_is_shown_with_its_policy(operator: CircadiaProcess) -> None:
    policy = {"max_calls_per_day": 7, "may_wake": ["ann"]}
    await operator.create_session("show", [{"name": "ann", "sleep_events": ["agent_started"], "policy": policy}])
    out = (await run("agents", "show", "show:ann")).out
    shown = {line.split()[0]: " ".join(line.split()[1:]) for line in out.splitlines()}
    assert (shown["ann"].split()[0], shown["falls"]) == ("asleep", "asleep when agent_started")
    assert {key: shown[key] for key in ("max_calls_per_day", "may_wake", "write_banks", "inject", "bank")} == {
        "max_calls_per_day": "7", "may_wake": "ann", "write_banks": "[]", "inject": "true", "bank": "–",
    }  # fmt: skip
    assert (await run("agents", "show", "ann", "--session", "show", "--json")).json["policy"]["max_calls_per_day"] == 7


@pytest.mark.spec("UI-18")
async def test_one_says_since_when_why_and_what_wakes_it_next_and_flags_a_circle(operator: CircadiaProcess) -> None:
    await operator.create_session("circle", [{"name": "ping"}, {"name": "pong"}])
    await run("sleep", "circle:ping")
    out = " ".join((await run("agents", "show", "circle:ping")).out.split())
    assert "asleep for" in out
    assert "by operator; nothing planned wakes it, only: mentioned" in out
    assert "in a circle" not in out
    people = {"participants": ["ping", "pong"], "name": "game"}
    await operator.call("POST", "/sessions/circle/threads", people)
    message = ""
    for sender, target in (("ping", "pong"), ("pong", "ping")):
        await run("sleep", f"circle:{target}")
        said = {"from": sender, "content": "your turn", "mentions": [target]}
        message = (await operator.call("POST", "/sessions/circle/threads/game/messages", said))["id"]
    shown = await run("agents", "show", "circle:ping")
    line = " ".join(shown.out.split())
    assert "awake for" in line
    assert "mentioned by circle:pong" in line
    assert "wakes in a circle today: circle:ping, circle:pong, 2 times" in line
    found = (await run("agents", "show", "circle:ping", "--json")).json
    assert found["because"] == "mentioned by circle:pong"
    assert found["circles"][0]["wakes"] == 2
    why = " ".join((await run("wakes", "explain", message)).out.split())
    assert "circle:ping yes" in why
    assert "admitted" in why


async def test_what_agents_wrote_cannot_steer_the_readers_terminal(operator: CircadiaProcess) -> None:
    await operator.create_session("sly", [{"name": "ann", "description": "\x1b[2Jgone\x07"}])
    out = (await run("agents", "--session", "sly")).out
    assert "\x1b" not in out
    assert "\\x1b[2Jgone\\x07" in out


async def test_a_change_leaves_the_rest_as_it_is(operator: CircadiaProcess) -> None:
    await operator.create_session("change", [{"name": "ann", "description": "old", "wake_events": ["mentioned"]}])
    words = ("agents", "change", "change:ann")
    assert (await run(*words, "--disable", "--set", "max_calls_per_day=3")).out == "changed agent change:ann\n"
    ann = (await agents(operator, "change"))["ann"]
    assert (ann["enabled"], ann["description"], ann["wake_events"]) == (False, "old", ["mentioned"])
    assert "disabled" in (await run("agents", "--session", "change")).out
    changed = (await run(*words, "--enable", "--wake-on", "none", "--set", "max_calls_per_day=null", "--json")).json
    assert (changed["enabled"], changed["wake_events"]) == (True, [])
    assert changed["policy"]["max_calls_per_day"] is None
    assert (await run(*words, "--set", "answer_mode=off", "--json")).json["policy"]["answer_mode"] == "off"


async def test_who_changes_an_agent_of_the_file_is_told_that_the_file_takes_it_back(operator: CircadiaProcess) -> None:
    told = "takes this back when it changes or the server starts"
    for words in (("--description", ""), ("--set", "answer_mode=off"), ("--wake-on", "none"), ("--sleep-on", "none")):
        changed = await run("agents", "change", "filed", *words)
        assert (changed.status, told in changed.err) == (0, True), words
    as_json = await run("agents", "change", "filed", "--set", "answer_mode=hint", "--json")
    assert (as_json.json["in_file"], told in as_json.err) == (True, True)
    assert told not in (await run("agents", "change", "filed", "--disable")).err  # which the file does not speak of
    assert "the configuration file" in (await run("agents", "show", "filed")).out
    await operator.create_session("unfiled", [{"name": "filed"}])
    assert told not in (await run("agents", "change", "unfiled:filed", "--description", "x")).err
    assert "the configuration file" not in (await run("agents", "show", "unfiled:filed")).out


async def test_a_new_token_replaces_the_old_one(operator: CircadiaProcess) -> None:
    old = (await operator.create_session("rotate", [{"name": "ann"}]))["ann"]
    new = (await run("agents", "token", "rotate:ann")).out.strip()
    refused(await run("sleep", "rotate:ann", "--token", old), 3)
    assert (await run("sleep", "rotate:ann", "--token", new)).status == 0
    assert (await run("agents", "token", "rotate:ann", "--json")).json["token"] not in (old, new)


async def test_a_deleted_agents_token_opens_nothing(operator: CircadiaProcess) -> None:
    token = (await operator.create_session("delete", [{"name": "ann"}, {"name": "bob"}]))["ann"]
    assert (await run("agents", "delete", "delete:ann")).out == "deleted agent delete:ann\n"
    refused(await run("sleep", "delete:ann", "--token", token), 3)
    gone = (await run("agents", "delete", "delete:bob", "--json")).json
    assert gone == {"deleted": {"session": "delete", "agent": "bob"}}


@pytest.mark.parametrize("command", [("show",), ("change",), ("delete",), ("token",)], ids=" ".join)
async def test_an_unknown_agent_is_told_with_the_nearest_names(
    operator: CircadiaProcess, command: tuple[str, ...]
) -> None:
    session = f"near-{command[0]}"
    await operator.create_session(session, [{"name": "writer"}])
    refused(await run("agents", *command, f"{session}:wirter"), 4, "'wirter'", "'writer'")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--wake-on", "mention"), "'mentioned'"),
        (("--set", "max_calls=3"), "max_calls_per_day"),
        (("--set", "max_calls_per_day"), "KEY=VALUE"),
        (("--set", "models=[a"), "cannot be read"),
        (("--set", "max_calls_per_day=-1"), "max_calls_per_day"),
    ],
)
async def test_a_wrong_event_or_policy_is_named(operator: CircadiaProcess, words: tuple[str, ...], told: str) -> None:
    result = await run("agents", "add", "default:wrong", *words)
    assert result.status == 2
    assert told in result.err


async def test_a_name_that_is_taken_or_not_allowed_is_refused(operator: CircadiaProcess) -> None:
    await operator.create_session("names", [{"name": "ann"}])
    refused(await run("agents", "add", "names:ann"), 5, "'ann'")
    refused(await run("agents", "add", "names:Ann!"), 2, "'Ann!'")


PROGRAMS = {
    "codex": "Codex",
    "claude-code": "Claude Code",
    "gemini": "Gemini CLI",
    "opencode": "opencode",
    "qwen-code": "Qwen Code",
    "aider": "aider",
}


@pytest.mark.spec("GATE-93")
async def test_for_a_coding_agent_the_block_of_its_documentation_is_printed_filled_in(home: Path) -> None:
    base = {"base_url": "http://127.0.0.1:1"}
    names = {"openai": "mine", "anthropic": "claude", "gemini": "google"}
    upstreams = {names[api]: {**base, "api": api} for api in names}
    async with CircadiaProcess(home, {"upstreams": upstreams}) as server:
        words = ("--url", server.url, "--token", ADMIN_TOKEN)
        for program, heading in PROGRAMS.items():
            result = await run("agents", "add", program, "--for", program, *words)
            head, block = result.out.split("\n\n", 1)
            token = head.split()[-1]
            for api, name in names.items():
                block = block.replace(f"/llm/{name}", f"/llm/{api}")
            block = block.replace(server.url, "http://127.0.0.1:4114").replace(token, "circadia-agent-…")
            (section,) = (part.text for part in parts(DOCS / "get-started.md") if part.heading == heading)
            assert f"\n{block}```\n" in section
            assert (token in result.out, "export OPENAI_BASE_URL" in result.err) == (True, False)


@pytest.mark.spec("GATE-93")
async def test_a_coding_agent_without_a_provider_that_it_can_use_is_not_made(operator: CircadiaProcess) -> None:
    result = await run("agents", "add", "lost", "--for", "claude-code")
    refused(result, 2, "ANTHROPIC_BASE_URL", "no upstream")
    assert "lost" not in await agents(operator, "default")
    result = await run("agents", "add", "lost", "--for", "codex", "--set", "upstreams=[other]")
    refused(result, 2, "OPENAI_BASE_URL", "no upstream")
