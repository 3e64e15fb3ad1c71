"""`circadia import djinnbot`."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from circadia.records.coordination import build_coordination
from circadia.settings import AgentSettings, load_settings
from circadia.wake.coordination import flatten_keys
from tests.cli.terminal import Result, refused, run

pytestmark = pytest.mark.spec("WAKE-72")

NIGHT = "pulse_blackouts:\n- {label: Night, start_time: 23:00, end_time: '07:00', type: recurring}\n"
WRITER = f"""\
model: acme/large-1
pulse_enabled: true
pulse_interval_minutes: 120
pulse_offset_minutes: 24
pulse_columns: [Ready]
{NIGHT}\
pulse_container_timeout_ms: 120000
pulse_max_consecutive_skips: 3
pulse_one_offs: ['2026-12-24T09:00:00Z']
coordination:
  max_concurrent_pulse_sessions: 1
  wake_guardrails:
    cooldown_seconds: 600
    max_wakes_per_day: 4
    max_wakes_a_week: 9
thinking_level: 'off'
"""
BOMB = "a0: &a0 [1, 2]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))


def made(home: Path, config: str, *, pulse: str | None = "Look at the board.\n\nThen write.  \n") -> Path:
    """Write the folder of one agent and return that of all."""
    folder = home / "bot" / "agents" / "writer"
    folder.mkdir(parents=True)
    (folder / "config.yml").write_text(config, "utf-8")
    if pulse is not None:
        (folder / "PULSE.md").write_text(pulse, "utf-8")
    return home / "bot"


def lines(result: Result) -> dict[str, dict[str, Any]]:
    """Return the report by the keys, or the file where there is none."""
    return {each["key"] or each["file"]: each for each in result.json["lines"]}


def taken(file: Path) -> AgentSettings:
    """Return the agent as the server reads it."""
    return load_settings(file).agents["writer"]


async def test_the_file_that_is_written_says_what_djinnbots_said(home: Path) -> None:
    folder = made(home, WRITER)
    result = await run("import", "djinnbot", str(folder), "--write", "new.yaml", "--timezone", "Europe/Berlin")
    assert result.status == 0
    agent = taken(home / "new.yaml")
    routine, single = agent.routine_specs()
    assert (routine.name, routine.recurrence.every_seconds, routine.recurrence.offset_seconds) == ("pulse", 7200, 1440)
    assert routine.instructions == "Look at the board.\n\nThen write."
    assert routine.enabled
    assert [each.isoformat() for each in single.recurrence.at] == ["2026-12-24T09:00:00+00:00"]
    (night,) = agent.blackouts
    assert (night.start_time, night.end_time, night.label) == ("23:00", "07:00", "Night")
    assert (agent.timezone, agent.max_consecutive_skips, agent.models) == ("Europe/Berlin", 3, None)
    coordination = build_coordination(flatten_keys(agent.stated_coordination()) | {"blackouts": ()})
    assert coordination.max_concurrent_pulse_sessions == 1
    assert (coordination.wake_guardrails.cooldown_seconds, coordination.wake_guardrails.max_wakes_per_day) == (600, 4)
    assert coordination.pulse_timeout_seconds == 120


async def test_each_line_is_reported_with_what_became_of_it_or_why_not(home: Path) -> None:
    told = lines(await run("import", "djinnbot", str(made(home, WRITER)), "--json"))
    assert len(told) == 15
    assert (told["pulse_interval_minutes"]["line"], told["pulse_interval_minutes"]["to"]) == (
        3,
        "routines[pulse].every_seconds",
    )
    assert told["pulse_blackouts[0]"]["to"] == "blackouts[0]"
    limit = told["coordination.wake_guardrails.cooldown_seconds"]
    assert (limit["line"], limit["value"]) == (14, 600)
    unknown = told["coordination.wake_guardrails.max_wakes_a_week"]
    assert unknown["to"] is None
    assert "'max_wakes_per_day'" in unknown["note"]
    assert {key for key, each in told.items() if each["to"] is None} == {
        "model", "pulse_columns", "thinking_level", "coordination.wake_guardrails.max_wakes_a_week",
    }  # fmt: skip
    assert all(each["note"] for each in told.values() if each["to"] is None)


async def test_people_see_the_report_beside_the_section(home: Path) -> None:
    result = await run("import", "djinnbot", str(made(home, WRITER)))
    assert yaml.safe_load(result.out)["agents"]["writer"]["max_consecutive_skips"] == 3
    assert "writer: 11 of 15 mapped" in result.err
    assert "pulse_columns" in result.err
    assert "`upstreams` of these names" in result.err


async def test_models_become_a_limit_only_if_asked(home: Path) -> None:
    config = "model: acme/large-1\nthinking_model: acme/large-1\nexecutor_model: other/acme/small\n"
    result = await run("import", "djinnbot", str(made(home, config, pulse=None)), "--hold-to-models", "--json")
    assert result.json["agents"]["writer"]["models"] == ["large-1", "acme/small"]


async def test_an_agent_without_instructions_is_told_what_that_means(home: Path) -> None:
    told = lines(await run("import", "djinnbot", str(made(home, "pulse_enabled: false\n", pulse=None)), "--json"))
    assert "only while something is unread" in told["pulse_enabled"]["note"]
    folder = home / "bot" / "agents" / "writer"
    result = await run("import", "djinnbot", str(folder), "--json")
    (routine,) = result.json["agents"]["writer"]["routines"]
    assert routine == {"name": "pulse", "every_seconds": 1800, "enabled": False}


@pytest.mark.parametrize(
    ("config", "key", "to", "note"),
    [
        ("pulse_interval_minutes: 0.5", "pulse_interval_minutes", "routines[pulse].every_seconds", "of range; 60 s"),
        ("pulse_interval_minutes: 50", "pulse_interval_minutes", "routines[pulse].every_seconds", "midnight"),
        ("pulse_interval_minutes: often", "pulse_interval_minutes", None, "30 minutes"),
        ("pulse_offset_minutes: 45", "pulse_offset_minutes", "routines[pulse].offset_seconds", "900 s"),
        ("pulse_interval_minutes: .inf", "pulse_interval_minutes", None, "30 minutes"),
        ("pulse_offset_minutes: .nan", "pulse_offset_minutes", None, "no number"),
        ("pulse_container_timeout_ms: 1" + 400 * "0", "pulse_container_timeout_ms", None, "no number"),
        ("vacations: {2026-08-01: beach}", "vacations", None, "unknown key"),
        ("pulse_offset_minutes: -3", "pulse_offset_minutes", None, "no number"),
        ("pulse_one_offs: [tomorrow]", "pulse_one_offs[0]", None, "no date"),
        ("pulse_container_timeout_ms: 0", "pulse_container_timeout_ms", None, "no number"),
        ("pulse_max_consecutive_skips: 0", "pulse_max_consecutive_skips", None, "1 or more"),
        ("pulse_blackouts: [{start_time: '08:00', end_time: '08:00'}]", "pulse_blackouts[0]", None, "a whole day"),
        ("pulse_blackouts: [{start_time: '25:00', end_time: '08:00'}]", "pulse_blackouts[0]", None, "HH:MM"),
        ("pulse_blackouts: [{start_time: '22:00', end_time: '06:00', day_of_week: [5]}]", "pulse_blackouts[0]", None,
         "unknown keys: day_of_week"),
        ("pulse_blackouts: [{label: x}]", "pulse_blackouts[0]", None, "no start and end"),
        (
            "pulse_blackouts: [{start_time: '22:00', end_time: '06:00', days_of_week: [5]}]",
            "pulse_blackouts[0]",
            "blackouts[0]",
            "on which it starts",
        ),
        (
            "pulse_blackouts: [{type: one-off, start: 2026-12-23T00:00:00Z, end: '2026-12-27T00:00:00Z'}]",
            "pulse_blackouts[0]",
            "blackouts[0]",
            "",
        ),
        ("coordination: {wake_guardrails: {max_wakes_per_day: -1}}", "coordination.wake_guardrails.max_wakes_per_day",
         None, "greater than or equal to 0"),
        ("coordination: 7", "coordination", None, "no keys"),
        ("pulse_intervall_minutes: 5", "pulse_intervall_minutes", None, "'pulse_interval_minutes'"),
    ],
)  # fmt: skip
async def test_what_is_odd_is_told_and_what_is_written_can_be_served(
    home: Path, config: str, key: str, to: str | None, note: str
) -> None:
    folder = made(home, config + "\n")
    result = await run("import", "djinnbot", str(folder), "--json", "--write", "new.yaml")
    assert result.status == 0, result.err
    told = lines(result)[key]
    assert told["to"] == to
    assert note in told["note"]
    assert taken(home / "new.yaml")


FAULTS = [
    ("pulse_enabled: [", "the file is not YAML"),
    ("pulse_one_offs: [2026-02-30]", "the file is not YAML: day "),
    ("pulse_enabled: true\nother: &other {other: *other}", "has an alias in what it stands for"),
    (BOMB, "stands for too much; write it out"),
    ("# " + "x" * 2**18, "has more than 262144 bytes"),
    ("pulse_blackouts: [{start_time: '00:00', end_time: '24:00'}]", "cover the whole week"),
    ("pulse_one_offs: ['9999-01-01T00:00:00Z']", "not in the years 1970 to 9000"),
]


@pytest.mark.parametrize(("config", "told"), FAULTS)
async def test_an_agent_that_the_server_would_refuse_is_reported_and_left_out_and_the_others_are_mapped(
    home: Path, config: str, told: str
) -> None:
    folder = made(home, config)
    other = folder / "agents" / "lead"
    other.mkdir()
    (other / "config.yml").write_text("pulse_enabled: true\n", "utf-8")
    (other / "slack.yml").write_text("bot_token: x\n", "utf-8")
    (folder / "agents" / "_templates").mkdir()
    (folder / "agents" / "_templates" / "config.yml").write_text("", "utf-8")
    result = await run("import", "djinnbot", str(folder), "--json", "--write", "new.yaml")
    assert result.status == 9
    assert result.err.strip().endswith("1 of 2 agents left out: 'writer'; the report says what to correct")
    assert set(result.json["agents"]) == set(load_settings(home / "new.yaml").agents) == {"lead"}
    about = [each for each in result.json["lines"] if each["agent"] == "writer"]
    assert told in about[0]["note"]
    assert about[0]["note"].endswith("; the agent is left out")
    assert len(about[0]["note"]) < 250
    assert {each["to"] for each in about} == {None}
    assert "slack.yml" in {each["file"] for each in result.json["lines"]}
    seen = await run("import", "djinnbot", str(folder))
    assert seen.status == 9
    assert "writer: left out" in seen.err
    assert "lead: 1 of 2 mapped" in seen.err


async def test_agents_whose_names_cannot_be_taken_over_are_left_out(home: Path) -> None:
    folder = made(home, WRITER)
    for name in ("Writer", "écrivain"):
        (folder / "agents" / name).mkdir()
        (folder / "agents" / name / "config.yml").write_text("pulse_enabled: true\n", "utf-8")
    result = await run("import", "djinnbot", str(folder), "--json")
    assert (result.status, len(result.json["agents"])) == (9, 1)
    notes = {each["agent"]: each["note"] for each in result.json["lines"] if "left out" in each["note"]}
    assert "another agent is called 'writer' too" in notes["writer"]
    assert "a name must match" in notes["écrivain"]


async def test_what_is_there_is_not_overwritten(home: Path) -> None:
    folder = made(home, WRITER)
    (home / "circadia.yaml").write_text("agents: {}\n", "utf-8")
    refused(await run("import", "djinnbot", str(folder), "--write", "circadia.yaml"), 5, "exists")
    assert (home / "circadia.yaml").read_text("utf-8") == "agents: {}\n"


async def test_wrong_folders_and_zones_are_refused(home: Path) -> None:
    refused(await run("import", "djinnbot", str(home / "nowhere")), 2, "no folder")
    refused(await run("import", "djinnbot", str(home)), 2, "no agent")
    folder = made(home, WRITER)
    refused(await run("import", "djinnbot", str(folder), "--timezone", "Europe/Berln"), 2, "'Europe/Berlin'")


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"caf\xe9", "can't decode"), (b"x" * 2**25, "more than"), ("Look.".encode("utf-16"), "decode")],
)
async def test_an_agent_whose_instructions_cannot_be_read_is_left_out(home: Path, content: bytes, told: str) -> None:
    folder = made(home, "pulse_enabled: true")
    (folder / "agents" / "writer" / "PULSE.md").write_bytes(content)
    result = await run("import", "djinnbot", str(folder), "--json")
    assert result.status == 9
    note = lines(result)["config.yml"]["note"]
    assert "PULSE.md cannot be read" in note
    assert told in note


async def test_a_byte_order_mark_is_no_part_of_the_instructions(home: Path) -> None:
    folder = made(home, "pulse_enabled: true", pulse="\ufeffLook.")
    assert (await run("import", "djinnbot", str(folder), "--write", "new.yaml")).status == 0
    assert "Look." in str(load_settings(home / "new.yaml").agents["writer"])
    assert "ufeff" not in ascii((home / "new.yaml").read_text("utf-8")).lower()
