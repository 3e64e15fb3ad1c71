"""Evidence in contexts: talks in LoCoMo's format, told to a memory, and counted."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from circadia.clock import SystemClock
from circadia.errors import InvalidRequest, NotFound
from circadia.evaluation.locomo import (
    LocomoResults,
    build_locomo_findings,
    count_steps,
    load_conversations,
    measure_recall,
)
from circadia.testing.rule_based_model import RuleBasedModel
from tests.evaluation.stand import talk, written

pytestmark = pytest.mark.spec("ANS-10")

AT = datetime(2026, 1, 1, tzinfo=UTC)


async def test_evidence_tokens_and_calls_are_counted_without_a_model_and_with_one(tmp_path: Path) -> None:
    (one,) = load_conversations(written(tmp_path, [talk()]))
    assert len(one.questions) == 2, "questions without evidence are left out"
    bare, done = LocomoResults(), list[None]()
    await measure_recall([one], None, SystemClock(), bare, lambda: done.append(None))
    assert len(done) == count_steps([one]) == 3 + 2
    found = build_locomo_findings(bare, None, "circadia eval locomo talks.json", AT)
    assert found.complete
    by_group = {row["of"]: row for row in found.figures["recall"]}
    assert set(by_group) == {"talk t1", "several turns", "one turn", "all"}
    assert by_group["all"]["recall"] == 1, "all of so short a talk has room"
    assert 0 < by_group["all"]["context_tokens"] <= 1_000
    sleep = found.figures["sleep"]
    assert (sleep["passes"], sleep["calls"], sleep["tokens_a_turn"], sleep["turns"]) == (3, 0, 0, 36)
    assert any("spent no tokens" in note for note in found.notes)
    asking = LocomoResults()
    mind = RuleBasedModel()
    await measure_recall([one], mind, SystemClock(), asking, lambda: None)
    told = build_locomo_findings(asking, mind, "", AT).figures["sleep"]
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
        load_conversations(written(tmp_path, document))


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no file"):
        load_conversations(tmp_path / "nothing.json")
