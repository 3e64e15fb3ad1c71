"""How `circadia.yaml` is read, and what is said of mistakes in it."""

from pathlib import Path

import pytest

from circadia.errors import ConfigError
from circadia.settings import load_settings
from circadia.settings.parsing import parsed


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "circadia.yaml"


def test_off_is_a_word_and_may_stand_for_false_too(file: Path) -> None:
    file.write_text(
        """
        agents: {ann: {answers: off, capture: off}, bob: {answers: serve, multi_user: yes}}
        upstreams: {here: {base_url: "http://127.0.0.1:1"}}
        sleeptime: {model: {upstream: here, reasoning: off}, enabled: no}
        """,
        "utf-8",
    )
    settings = load_settings(file)
    assert (settings.agents["ann"].answers, settings.agents["ann"].capture) == ("off", False)
    assert settings.agents["bob"].multi_user is True
    assert settings.sleeptime.enabled is False


@pytest.mark.parametrize("word", ["off", "Off", "on", "yes", "NO", "y"])
def test_only_true_and_false_are_truth_values(word: str) -> None:
    assert parsed(word) == word
    assert [parsed(each) for each in ("true", "False")] == [True, False]


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
    file.write_text(text, "utf-8")
    with pytest.raises(ConfigError, match="is not YAML") as caught:
        load_settings(file)
    assert told in caught.value.message
    assert "\n" not in caught.value.message


def test_a_value_that_is_refused_is_told_once(file: Path) -> None:
    file.write_text("upstreams: {openai: {base_url: api.openai.com}}", "utf-8")
    with pytest.raises(ConfigError) as caught:
        load_settings(file)
    expected = "upstreams.openai.base_url: must start with http:// or https://, got 'api.openai.com'"
    assert caught.value.message == expected
