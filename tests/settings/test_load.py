"""How `circadia.yaml` is read, and what is said of mistakes in it."""

from pathlib import Path

import pytest

from circadia.errors import ConfigError
from circadia.settings import load_settings
from circadia.settings.load import parse_yaml


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "circadia.yaml"


def refusal(file: Path, text: str) -> str:
    """Return what is said of a file with this text."""
    file.write_text(text, "utf-8")
    with pytest.raises(ConfigError) as caught:
        load_settings(file)
    return caught.value.message


def test_off_is_a_word_and_may_stand_for_false_too(file: Path) -> None:
    file.write_text(
        """
        agents: {ann: {answer_mode: off, capture: off}, bob: {answer_mode: serve, multi_user: yes}}
        upstreams: {here: {base_url: "http://127.0.0.1:1"}}
        sleeptime: {model: {upstream: here, reasoning: off}, enabled: no}
        """,
        "utf-8",
    )
    settings = load_settings(file)
    assert (settings.agents["ann"].answer_mode, settings.agents["ann"].capture) == ("off", False)
    assert settings.agents["bob"].multi_user is True
    assert settings.sleeptime.enabled is False


def test_a_policy_takes_a_whole_number_for_a_fraction_but_no_quoted_number(file: Path) -> None:
    file.write_text("agents: {ann: {max_usd_per_day: 2, coordination: {defer_max_seconds: 60}}}", "utf-8")
    ann = load_settings(file).agents["ann"]
    assert (ann.max_usd_per_day, ann.coordination.defer_max_seconds) == (2.0, 60.0)
    expected = "agents.ann.max_calls_per_day: Input should be a valid integer (got '5')"
    assert refusal(file, 'agents: {ann: {max_calls_per_day: "5"}}') == expected


@pytest.mark.parametrize("word", ["off", "Off", "on", "yes", "NO", "y"])
def test_only_true_and_false_are_truth_values(word: str) -> None:
    assert parse_yaml(word) == word
    assert [parse_yaml(each) for each in ("true", "False")] == [True, False]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("upstreams: [a", "line 1, column 14: "),
        ("a: 1\nb: c: d\n", "line 2, column 5: mapping values"),
        ("a: 2026-02-30", "day is out of range"),
        ("a: \x00", "special characters"),
    ],
)
def test_what_is_no_yaml_is_told_in_one_line_with_its_place(file: Path, text: str, told: str) -> None:
    said = refusal(file, text)
    assert "is not YAML" in said
    assert told in said
    assert "\n" not in said


def test_a_value_that_is_refused_is_told_once(file: Path) -> None:
    expected = "upstreams.openai.base_url: must start with http:// or https://, got 'api.openai.com'"
    assert refusal(file, "upstreams: {openai: {base_url: api.openai.com}}") == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "upstreams: {a: {base_url: http://a, retrys: 2}}",
            "unknown key 'upstreams.a.retrys'; did you mean 'retries'?",
        ),
        (
            "launchers: {run: {kind: subprocess, command: [a], promt: file}}",
            "unknown key 'launchers.run.promt'; did you mean 'prompt'?",
        ),
        (
            "launchers: {run: {kind: webhook, url: https://a, secret_env: A, tmp_mebibytes: 2}}",
            "unknown key 'launchers.run.tmp_mebibytes'; known keys: allowed_networks, answer_timeout_seconds, "
            "connect_timeout_seconds, grace_seconds, kind, resumes, retries, retry_max_seconds, secret_env, url",
        ),
        (
            "memory: {previous_embedder: {kind: fastembed, modell: m}}",
            "unknown key 'memory.previous_embedder.modell'; did you mean 'model'?",
        ),
        ("memory: {embedder: {tag: 1}}", "memory.embedder: the key 'kind' is missing"),
        (
            "{upstreams: {a: {base_url: 'http://a'}}, sleeptime: {model: {upstream: a, times: 2}}}",
            "unknown key 'sleeptime.model.times'; did you mean 'timeout_seconds'?",
        ),
        (
            "banks: {team: {sleeptime: {operations: {reflect: {enable: true}}}}}",
            "unknown key 'banks.team.sleeptime.operations.reflect.enable'; did you mean 'enabled'?",
        ),
        (
            "upstreams: {retries: {base_url: http://a, path: []}}",
            "unknown key 'upstreams.retries.path'; did you mean 'paths'?",
        ),
    ],
)
def test_an_unknown_key_is_told_with_its_path_in_the_file_and_the_nearest_that_is_known_there(
    file: Path, text: str, told: str
) -> None:
    assert refusal(file, text) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("answers: {check: perhaps}", "answers.check: Input should be 'model' or 'off' (got 'perhaps')"),
        ("sleeptime: {model: [a]}", "sleeptime.model: Input should be a map of keys and values, or 'none' (got ['a'])"),
        ("sleeptime: {model: {name: a}}", "sleeptime.model.upstream: Field required"),
        ("launchers: {run: {kind: container}}", "launchers.run.image: Field required"),
        (
            "launchers: {run: {kind: cron}}",
            "launchers.run: 'kind' should be one of 'resident', 'subprocess', 'container', 'webhook', 'callable', "
            "'kubernetes' (got 'cron')",
        ),
        (
            "answers: {volatile: [dates, weeks]}",
            "answers.volatile.1: Input should be 'dates', 'times' or 'ids', or String should match pattern '^/.+/$' "
            "(got 'weeks')",
        ),
        ("sleeptime: {own_operations: {mine: 'a:b'}}", "sleeptime.own_operations.mine: String should match pattern"),
        ("agents: {ann: {write_banks: team}}", "agents.ann.write_banks: Input should be a list (got 'team')"),
        ("agents: [ann]", "agents: Input should be a map of keys and values (got ['ann'])"),
    ],
)
def test_a_wrong_value_is_told_with_its_path_in_the_file_and_all_that_it_may_be(
    file: Path, text: str, told: str
) -> None:
    said = refusal(file, text)
    assert said.startswith(told)
    assert ";" not in said


@pytest.mark.spec("ANS-22")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "answers: {check: local, check_confidence: 0.9}",
            "answers: `check: local` is withdrawn; write `check: model`, or `check: off` to serve the same text alone",
        ),
        ("answers: {check_confidence: 0.9}", "answers: `check_confidence` is withdrawn with `check: local`; remove it"),
    ],
)
def test_the_judge_in_the_server_is_refused_with_what_to_write_instead(file: Path, text: str, told: str) -> None:
    assert refusal(file, text) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("agents: {circadia: {}}", "agents.circadia: messages and events call"),
        (
            "{launchers: {nightly: {kind: callable, function: 'a:b'}}, "
            "agents: {ann: {coordination: {launcher: nighty}}}}",
            "agents.ann.coordination.launcher: there is no launcher 'nighty'; did you mean 'nightly'?",
        ),
        (
            "{upstreams: {here: {base_url: http://a}}, sleeptime: {model: {upstream: there}}}",
            "sleeptime.model.upstream: there is no upstream 'there'; did you mean 'here'?",
        ),
        ("banks: {My notes: {}}", "banks: bank name 'My notes' must match"),
        ("agents: {ann: {read_banks: [team, 'of-{person}']}}", "agents.ann: bank name 'of-{person}' must match"),
        (
            "launchers: {loop: {kind: subprocess, command: [a], user: ann, prompt: file}}",
            "launchers.loop: a program with a `user` of its own cannot read the server's files; use `prompt: stdin`",
        ),
        ("launchers: {loop: {kind: subprocess, command: [a], user: 'ann:bob'}}", "launchers.loop.user: "),
        ("mcp_servers: {far: {url: 'http://a/mcp', user: ann}}", "mcp_servers.far: `user` is for a `command`"),
        ("sleeptime: {model: {upstream: openai}}", "sleeptime.model.upstream: there is no upstream 'openai'"),
    ],
)
def test_a_file_that_names_what_it_does_not_have_is_refused_before_a_server_starts(
    file: Path, text: str, told: str
) -> None:
    assert refusal(file, text).startswith(told)


@pytest.mark.parametrize("name", ["team", "support-{user}", "{user}", "{user}.notes", "ann@example.org", "7~b"])
def test_a_bank_or_template_may_be_called_so(file: Path, name: str) -> None:
    file.write_text(f"banks: {{'{name}': {{}}}}\nagents: {{ann: {{bank: '{name}'}}}}", "utf-8")
    assert load_settings(file).agents["ann"].bank == name


def test_a_value_that_is_long_is_not_shown(file: Path) -> None:
    said = refusal(file, f"upstreams: {{here: {{base_url: http://a, api: {'x' * 200}}}}}")
    assert said == "upstreams.here.api: Input should be 'openai', 'anthropic' or 'gemini'"


@pytest.mark.spec("SLEEP-86")
def test_a_withdrawn_key_is_named_in_the_log_and_ignored(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    bank = "{tune_importance: true, sleeptime: {views: 0}}"
    sleeptime = "{views: 7, benefit: {enabled: false}, unused_days: 9}"
    file.write_text(f"sleeptime: {sleeptime}\nbanks: {{ann: {bank}}}\n", "utf-8")
    settings = load_settings(file)
    assert settings.sleeptime.unused_days == 9
    assert [record.getMessage() for record in caplog.records] == [
        f"{key} has no effect any more: remove it from the configuration"
        for key in ("sleeptime.views", "sleeptime.benefit", "banks.ann.tune_importance", "banks.ann.sleeptime.views")
    ]
    assert "views" not in settings.sleeptime.policy_of({"views": 5}).model_dump()
    assert refusal(file, "sleeptime: {view: 7}") == "unknown key 'sleeptime.view'; did you mean 'review'?"


TEN_MISTAKES = """
server: {prot: 4114}
upstreams:
  openai: {base_url: https://api.openai.com/v1/chat/completions, key_env: sk-proj-Zm9vYmFyYmF6cXV4}
  groq: {base_ulr: https://api.groq.com}
port: 4000
defaults: {max_tokens_per_day: lots}
mcp_servers:
  files: {command: [files], env: {PIN: 83752901}}
agents:
  ann: {launcher: nightly}
  bob: {timezone: Mars/Olympus, coordination: {launcher: nightly}}
"""


@pytest.mark.spec("SHIP-12")
def test_all_mistakes_of_a_file_are_named_at_once_each_once_and_no_value_that_may_be_a_secret(file: Path) -> None:
    said = refusal(file, TEN_MISTAKES)
    first, *lines = said.splitlines()
    assert first == "10 mistakes in the configuration:"
    assert sorted(line.strip() for line in lines) == sorted(
        [
            "unknown key 'server.prot'; did you mean 'port'?",
            "upstreams.openai.base_url: leave out '/chat/completions': clients add it to the address",
            "upstreams.openai.key_env: write the name of an environment variable, such as OPENAI_API_KEY, and put the "
            "secret into that variable",
            "unknown key 'upstreams.groq.base_ulr'; did you mean 'base_url'?",
            "unknown key 'port'; move it under `server`",
            "defaults.max_tokens_per_day: Input should be a valid integer (got 'lots')",
            "mcp_servers.files.env.PIN: Input should be a valid string",
            "unknown key 'agents.ann.launcher'; move it under `coordination`",
            "agents.bob: there is no time zone 'Mars/Olympus'; write one like 'Europe/Berlin' or 'UTC'",
            "agents.bob.coordination.launcher: there is no launcher 'nightly'; there are 'resident'",
        ]
    )


@pytest.mark.spec("SHIP-12")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("agents: {a: {}}\nlimits: {}\nagents: {b: {}}", ["the key 'agents' appears on lines 1 and 3; join them"]),
        (
            "agents:\n  a: {bank: team}\n  b: {}\nagents:\n  a: {bank: team}\nagents: {}",
            [
                "the key 'agents' appears on lines 1, 4 and 6; join them",
                "the key 'agents.a' appears on lines 2 and 5; join them",
                "the key 'agents.a.bank' appears on lines 2 and 5; join them",
            ],
        ),
        (
            "server: {port: 1}\nserver: {prot: 2}",
            ["the key 'server' appears on lines 1 and 2; join them", "unknown key 'server.prot'; did you mean 'port'?"],
        ),
        ("sleeptime: {schedules: [{cron: 0 3 * * *, cron: 0 4 * * *}]}", ["the key 'sleeptime.schedules.0.cron' "]),
    ],
)
def test_a_key_that_is_there_twice_is_refused_with_all_its_lines(file: Path, text: str, told: list[str]) -> None:
    lines = [line.strip() for line in refusal(file, text).splitlines()]
    lines = lines[1:] or lines
    assert len(lines) == len(told)
    assert all(line.startswith(each) for line, each in zip(lines, told, strict=True)), lines


def test_a_merged_map_and_an_alias_are_no_double_keys(file: Path) -> None:
    text = "defaults: &base {bank: team, max_calls_per_day: 3}\nagents: {a: {<<: *base, bank: own}, b: *base}"
    file.write_text(text, "utf-8")
    agents = load_settings(file).agents
    assert [(agents[name].bank, agents[name].max_calls_per_day) for name in "ab"] == [("own", 3), ("team", 3)]


@pytest.mark.spec("SHIP-12")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("agents: {ann: {max_wakes_per_day: 3}}", "move it under `coordination.wake_guardrails`"),
        ("agents: {ann: {coordination: {max_calls_per_day: 3}}}", "move it under `agents.ann`"),
        ("agents: {ann: {base_url: 'http://a'}}", "move it under `upstreams.NAME`"),
        ("limits: {drain_seconds: 3}", "move it under `server`"),
        ("server: {agents: {}}", "move it to the top of the file"),
        ("agent: {}", "did you mean 'agents'?"),
        ("upstream: {}", "did you mean 'upstreams'?"),
        ("banks: {team: {when: nightly}}", "move it under `sleeptime`"),
    ],
)
def test_a_key_in_the_wrong_place_is_told_where_it_belongs(file: Path, text: str, told: str) -> None:
    said = refusal(file, text)
    assert said.startswith("unknown key")
    assert told in said


@pytest.mark.spec("SHIP-12")
@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("upstreams: {a: {base_url: http://a, key_env: %}}", "sk-ant-api03-abcdefgh"),
        ("upstreams: {a: {base_url: http://a, key_env: %}}", "AIzaSyD0abcdefghijklmnopqrstuvwxyz12345"),
        ("upstreams: {a: {base_url: http://a, key_env: %}}", "gsk_Zm9vYmFyYmF6cXV4ZZ"),
        ("upstreams: {a: {base_url: %}}", "gsk_Zm9vYmFyYmF6cXV4"),
        ("upstreams: {a: {base_url: http://a, api: %}}", "0123456789abcdef0123456789abcdef"),
        ("mcp_servers: {a: {url: http://a, headers_env: {authorization: %}}}", "Bearer abcdef"),
        ("launchers: {a: {kind: webhook, url: https://a, secret_env: %}}", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        ("agents: {ann: {token_env: %}}", "circadia-agent-0123456789abcdef0123456789abcdef0123456789a"),
        ("launchers: {a: {kind: webhook, url: 'https://user:%@a', secret_env: A}}", "hunter2"),
        ("signals_env: %", "redis://:hunter2@host"),
    ],
)
def test_a_secret_in_the_wrong_place_is_refused_and_not_shown(file: Path, text: str, secret: str) -> None:
    assert secret not in refusal(file, text.replace("%", secret))


def test_the_bank_or_banks_of_an_agent_replace_those_of_the_defaults(file: Path) -> None:
    file.write_text(
        "{defaults: {banks: [mine, team]}, agents: {ann: {bank: own}, bob: {banks: [other, team]}, cid: {}}}", "utf-8"
    )
    agents = load_settings(file).agents
    assert {name: (agent.bank, agent.banks) for name, agent in agents.items()} == {
        "ann": ("own", ()), "bob": ("other", ("other", "team")), "cid": ("mine", ("mine", "team")),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "KEY2", "my_provider_key", "Key_1", "_X"])
def test_a_variable_may_be_called_so(file: Path, name: str) -> None:
    file.write_text(f"upstreams: {{a: {{base_url: http://a, key_env: {name}}}}}", "utf-8")
    assert load_settings(file).upstreams["a"].key_env == name


@pytest.mark.parametrize(
    "section",
    [
        "upstreams: {a: {base_url: 'http://a', key_env: A_KEY}}",
        "server: {metrics_token_env: A_KEY}",
        "server: {database_url: 'postgresql://a/b'}, signals_env: A_KEY",
        "redis_bridge: {url_env: A_KEY}",
        "fleet: {alert_webhook_secret_env: A_KEY}",
        "memory: {embedder: {kind: endpoint, base_url: 'http://a', model: m, key_env: A_KEY}}",
        "memory: {previous_embedder: {kind: endpoint, base_url: 'http://a', model: m, key_env: A_KEY}}",
        "hooks: {a: {agent: ann, signature: github, secret_env: A_KEY}}",
        "hooks: {a: {agent: ann, signature: github, secret_env: ANOTHER, previous_secret_env: A_KEY}}",
        "mcp_servers: {a: {url: 'http://a', headers_env: {authorization: A_KEY}}}",
        "mcp_servers: {a: {command: [a], env_from: [A_KEY]}}",
    ],
)
def test_a_launcher_that_would_hand_out_a_secret_of_the_server_is_refused(file: Path, section: str) -> None:
    launchers = "launchers: {run: {kind: subprocess, command: [a], env_from: [LANG, A_KEY]}}"
    said = refusal(file, f"{{{section}, {launchers}}}")
    assert said == "launchers.run.env_from: 'A_KEY' is a secret of this server, which no agent may get"
