"""Evidence in contexts: talks in LoCoMo's format, told to a memory, and counted."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from circadia.clock import SystemClock
from circadia.errors import InvalidRequest, NotFound
from circadia.evaluation.conversations import load
from circadia.evaluation.locomo import Measured, findings, measure, steps
from circadia.testing.dreamer import Dreamer

pytestmark = pytest.mark.spec("ANS-10")

AT = datetime(2026, 1, 1, tzinfo=UTC)
THINGS = ("kite", "canoe", "violin", "tent", "oven", "ladder")


def talk(name: str = "t1") -> dict[str, Any]:
    """Return three sittings, with questions whose answer shares words with one turn."""
    said: dict[str, Any] = {}
    asked: list[dict[str, Any]] = []
    for sitting in range(1, 4):
        turns: list[dict[str, str]] = []
        for thing in THINGS:
            turns.append({"speaker": "Ann", "dia_id": f"D{sitting}:{len(turns)}", "text": f"How is the {thing}?"})
            place = f"D{sitting}:{len(turns)}"
            turns.append(
                {"speaker": "Bob", "dia_id": place, "text": f"My {thing} number {sitting} broke in {thing}town."}
            )
        said[f"session_{sitting}_date_time"] = f"1:56 pm on {sitting} May, 2023"
        said[f"session_{sitting}"] = turns
    asked = [
        {"question": "Where did Bob's kite break?", "evidence": ["D1:1", "D2:1"], "category": 1},
        {"question": "What broke in oventown?", "evidence": ["D1:9"], "category": 4},
        {"question": "Who?", "evidence": ["D9:9"]},
    ]
    return {"sample_id": name, "conversation": said, "qa": asked}


def written(folder: Path, document: object) -> Path:
    path = folder / "talks.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document), "utf-8")
    return path


async def test_evidence_tokens_and_calls_are_counted_without_a_model_and_with_one(tmp_path: Path) -> None:
    (one,) = load(written(tmp_path, [talk()]))
    assert len(one.asked) == 2, "questions without evidence are left out"
    bare, done = Measured(), list[None]()
    await measure([one], None, SystemClock(), bare, lambda: done.append(None))
    assert len(done) == steps([one]) == 3 + 2
    found = findings(bare, None, "circadia eval locomo talks.json", AT)
    assert found.complete
    by_group = {row["of"]: row for row in found.figures["recall"]}
    assert set(by_group) == {"talk t1", "several turns", "one turn", "all"}
    assert by_group["all"]["recall"] == 1, "all of so short a talk has room"
    assert 0 < by_group["all"]["context_tokens"] <= 1_000
    sleep = found.figures["sleep"]
    assert (sleep["passes"], sleep["calls"], sleep["tokens_a_turn"], sleep["turns"]) == (3, 0, 0, 36)
    assert any("no token was spent" in note for note in found.notes)
    asking = Measured()
    mind = Dreamer()
    await measure([one], mind, SystemClock(), asking, lambda: None)
    told = findings(asking, mind, "", AT).figures["sleep"]
    assert told["calls"] == len(mind.asked) > 0
    assert told["prompt_tokens"] == sum(used.input_tokens or 0 for _, used in mind.asked)
    assert told["calls_a_turn"] == pytest.approx(told["calls"] / 36)


BAD: Sequence[tuple[Any, str]] = [
    ("{", "JSON"),
    ("", "JSON"),
    ([], "no question"),
    ([{"qa": []}], "'conversation'"),
    ([talk(), {"conversation": {"session_1": []}, "qa": []}], "conversation 2"),
    ([{"conversation": {"session_1": 5, "session_1_date_time": "1:56 pm on 8 May, 2023"}, "qa": []}], "format"),
    ([{"conversation": {"session_1": [], "session_1_date_time": "yesterday"}, "qa": []}], "yesterday"),
    ([5], "format"),
    (talk() | {"qa": [{"question": "Who?"}]}, "no question"),
]


@pytest.mark.parametrize(("document", "told"), BAD)
def test_a_file_of_another_format_is_told(tmp_path: Path, document: object, told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        load(written(tmp_path, document))


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no file"):
        load(tmp_path / "nothing.json")
