"""`circadia sessions`."""

import json
from pathlib import Path

import pytest

from tests.cli.terminal import refused, run
from tests.fixtures.server_process import CircadiaProcess
from tests.house.tree import DOCS, REFERENCE, blocks

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEAM = {
    "name": "team",
    "sleepers": "all-but [lead]",
    "agents": [{"name": "lead"}, {"name": "writer", "wake_events": ["mentioned"]}],
    "threads": [{"name": "plan", "participants": ["lead"]}],
}


@pytest.mark.spec("GATE-06")
async def test_a_session_is_made_from_names_with_sleepers(operator: CircadiaProcess) -> None:
    words = ("--agent", "lead", "--agent", "writer", "--sleepers", "all-but lead")
    made = (await run("sessions", "add", "named", *words, "--json")).json
    assert {each["name"]: each["sleeping"] for each in made["agents"]} == {"lead": False, "writer": True}
    assert all(each["token"].startswith("circadia-agent-") for each in made["agents"])


async def test_people_see_each_token_once(operator: CircadiaProcess) -> None:
    result = await run("sessions", "add", "shown", "--agent", "ann", "--agent", "bob")
    assert result.status == 0
    assert result.out.count("circadia-agent-") == 2
    assert "circadia-agent-" not in (await run("sessions", "show", "shown")).out


@pytest.mark.parametrize("ending", ["json", "yaml"])
async def test_a_session_is_made_from_a_file(operator: CircadiaProcess, home: Path, ending: str) -> None:
    file = home / f"team.{ending}"
    file.write_text(json.dumps(TEAM), "utf-8")  # JSON is YAML as well
    made = (await run("sessions", "add", f"from-{ending}", "--file", str(file), "--json")).json
    assert made["name"] == f"from-{ending}"
    assert [each["sleeping"] for each in made["agents"]] == [False, True]
    assert made["threads"][0]["participants"] == ["lead"]


@pytest.mark.parametrize(
    ("page", "language"),
    [(REFERENCE / "cli.md", "yaml"), (DOCS / "get-started.md", "json")],
    ids=["cli", "get-started"],
)
async def test_the_graphs_in_the_docs_are_accepted(
    operator: CircadiaProcess, home: Path, page: Path, language: str
) -> None:
    (example,) = [block for block in blocks(page) if block.language == language and "circadia" not in block.flags]
    (home / "team").write_text(example.body, "utf-8")
    made = (await run("sessions", "add", f"docs-{language}", "--file", "team", "--json")).json
    assert {each["name"]: each["sleeping"] for each in made["agents"]}["lead"] is False
    assert sum(each["sleeping"] for each in made["agents"]) == len(made["agents"]) - 1


async def test_the_presets_mapping_form_is_taken_too(operator: CircadiaProcess, home: Path) -> None:
    file = home / "team.yaml"
    file.write_text("agents: [{name: a}, {name: b}]\nsleepers: {all_but: [a]}\n", "utf-8")
    made = (await run("sessions", "add", "--file", str(file), "--json")).json
    assert [each["sleeping"] for each in made["agents"]] == [False, True]


@pytest.mark.spec("GATE-06")
async def test_dead_ends_are_warned_of_beside_the_result(operator: CircadiaProcess) -> None:
    result = await run("sessions", "add", "dead", "--agent", "ann", "--sleepers", "all-but")
    assert result.status == 0
    assert "warning: all agents start asleep" in result.err


async def test_sessions_are_listed_shown_and_closed(operator: CircadiaProcess) -> None:
    await operator.create_session("brief", [{"name": "ann", "description": "writes [red]briefs"}])
    await operator.call("POST", "/sessions/brief/threads", {"name": "plan", "participants": ["ann"]})
    assert "brief" in (await run("sessions")).out
    shown = (await run("sessions", "show", "brief")).out
    assert "writes [red]briefs" in shown
    assert "plan" in shown
    assert (await run("sessions", "show", "brief", "--json")).json["threads"][0]["name"] == "plan"
    assert (await run("sessions", "close", "brief")).out == "closed session brief\n"
    open_ones = (await run("sessions", "--json")).json["sessions"]
    every = (await run("sessions", "--closed", "--json")).json["sessions"]
    assert "brief" not in [each["name"] for each in open_ones]
    assert "brief" in [each["name"] for each in every]
    refused(await run("sessions", "close", "brief"), 5, "closed already")


async def test_an_unknown_session_is_told_with_the_nearest_names(operator: CircadiaProcess) -> None:
    await operator.create_session("harbour", [])
    refused(await run("sessions", "show", "harbor"), 4, "'harbor'", "'harbour'")


async def test_the_session_default_never_ends(operator: CircadiaProcess) -> None:
    refused(await run("sessions", "close", "default"), 5, "never ends")


async def test_a_name_that_is_taken_is_refused(operator: CircadiaProcess) -> None:
    await operator.create_session("taken", [])
    refused(await run("sessions", "add", "taken"), 5, "'taken'")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("agents: [", ("neither YAML nor JSON",)),
        ("- a\n", ("must hold keys and values",)),
        ("agent: []\n", ("unknown key 'agent'", "agents")),
        ("sleepers: everyone\n", ("all-but",)),
        ("agents: [{name: ann, wake_event: [mentioned]}]\n", ("wake_events",)),
    ],
)
async def test_a_file_that_holds_no_graph_is_refused(
    operator: CircadiaProcess, home: Path, text: str, words: tuple[str, ...]
) -> None:
    file = home / "graph.yaml"
    file.write_text(text, "utf-8")
    result = await run("sessions", "add", "--file", str(file))
    assert result.status == 2
    assert all(word in result.err for word in words), result.err


async def test_a_file_that_is_missing_or_given_with_agents_is_refused(operator: CircadiaProcess, home: Path) -> None:
    refused(await run("sessions", "add", "--file", "nowhere.yaml"), 2, "nowhere.yaml")
    (home / "some.yaml").write_text("{}", "utf-8")
    refused(await run("sessions", "add", "--file", "some.yaml", "--agent", "ann"), 2, "--agent")
