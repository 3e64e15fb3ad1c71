"""The benchmark of recall reads conversations and counts evidence; what a search finds is more than full text does."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import recall

THINGS = ("kite", "canoe", "violin", "tent", "oven", "ladder", "drone", "quilt", "saddle", "lathe", "piano", "scooter")
ANSWERS = ("Up the hill, twice.", "With my sister, it was great.", "In the yard until dark.", "Never again, too cold.")


def talk() -> dict[str, Any]:
    """Return a talk in which answers share no word with what is asked about them later, as they do not in life."""
    turns: list[dict[str, str]] = []
    asked: list[dict[str, Any]] = []
    for number, thing in enumerate(THINGS):
        for person in ("Ann", "Bob"):
            other = "Bob" if person == "Ann" else "Ann"
            turns.append({"speaker": other, "dia_id": f"D1:{len(turns)}", "text": f"How was it with the {thing}?"})
            asked.append({"question": f"What did {person} do with the {thing}?", "evidence": [f"D1:{len(turns)}"]})
            turns.append({"speaker": person, "dia_id": f"D1:{len(turns)}", "text": ANSWERS[number % len(ANSWERS)]})
            turns += [
                {"speaker": other, "dia_id": f"D1:{len(turns) + at}", "text": f"My {thing} is old, number {at}."}
                for at in range(4)
            ]
    said = {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": turns}
    return {"conversation": said, "qa": [*asked, {"question": "Who?", "evidence": ["D9:9"]}, {"question": "What?"}]}


@pytest.mark.spec("MEM-06")
async def test_a_search_finds_answers_that_full_text_does_not(tmp_path: Path) -> None:
    data = tmp_path / "talks.json"
    data.write_text(json.dumps([talk(), talk()]), "utf-8")
    report = await recall.run(tmp_path, recall.Size(data=data))
    assert "48 questions about 288 turns of 2 talks" in report.title, "questions without evidence are left out"
    (goal,) = report.goals
    assert goal.met, goal.found
    found: dict[str, list[float]] = report.figures["recall"]
    assert found[recall.OURS][1] > 90
    for shares in found.values():
        assert shares == sorted(shares)
        assert all(0 <= share <= 100 for share in shares)
    assert any("on other conversations" in note and "--chosen-on" in note for note in report.notes)


async def test_without_data_the_report_says_so_and_promises_nothing(tmp_path: Path) -> None:
    report = await recall.run(tmp_path, recall.QUICK)
    assert report.goals == []
    assert any("made-up" in note for note in report.notes)


async def test_the_report_says_so_where_settings_were_chosen_on_the_given_conversations(tmp_path: Path) -> None:
    data = tmp_path / "talks.json"
    data.write_text(json.dumps([talk()]), "utf-8")
    report = await recall.run(tmp_path, recall.Size(data=data, chosen_on=True))
    assert report.figures["chosen_on"] is True
    assert any("on these very conversations" in note for note in report.notes)
    assert not any("on other conversations" in note for note in report.notes)
