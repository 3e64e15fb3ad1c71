"""The benchmark of recall reads conversations and counts evidence; what a search finds is more than full text does."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import recall

THINGS = ("kite", "canoe", "violin", "tent", "oven", "ladder", "drone", "quilt", "saddle", "lathe", "piano", "scooter")
DONE = (
    "went up the hill, twice",
    "met a friend, it was great",
    "stayed in the yard until dark",
    "gave up, it was too cold",
)


def talk(*, told: bool) -> dict[str, Any]:
    """Return a talk of two about many things, each of which is asked for by its name later.

    What they did stands in a turn that names the thing, which full text finds, or (not `told`) in the answer to a turn
    that does, as it often does in life.
    """
    turns: list[dict[str, str]] = []
    asked: list[dict[str, Any]] = []

    def say(speaker: str, text: str) -> str:
        turns.append({"speaker": speaker, "dia_id": f"D1:{len(turns)}", "text": text})
        return turns[-1]["dia_id"]

    for number, thing in enumerate(THINGS):
        for person, other in (("Ann", "Bob"), ("Bob", "Ann")):
            did = DONE[number % len(DONE)]
            if told:
                evidence = say(person, f"I took the {thing} and {did}.")
                say(other, "Oh, I see.")
            else:
                say(other, f"How was it with the {thing}?")
                evidence = say(person, f"I {did}.")
            asked.append({"question": f"What did {person} do with the {thing}?", "evidence": [evidence]})
            for at in range(4):
                say(other, f"My {thing} is old, number {at}.")
    said = {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": turns}
    return {"conversation": said, "qa": [*asked, {"question": "Who?", "evidence": ["D9:9"]}, {"question": "What?"}]}


async def found_in(folder: Path, talk: dict[str, Any]) -> dict[str, list[float]]:
    """Return the shares of the evidence that are found, in percent, by way: among the first 5, 10 and 20."""
    folder.mkdir()
    data = folder / "talks.json"
    data.write_text(json.dumps([talk]), "utf-8")
    report = await recall.run(folder, recall.Size(data=data))
    assert "24 questions about 144 turns of 1 talks" in report.title, "questions without evidence are left out"
    assert any("on other conversations" in note and "--chosen-on" in note for note in report.notes)
    found: dict[str, list[float]] = report.figures["recall"]
    for shares in found.values():
        assert shares == sorted(shares)
        assert all(0 <= share <= 100 for share in shares)
    return found


@pytest.mark.spec("MEM-06")
async def test_a_search_finds_what_full_text_finds_and_answers_that_it_does_not(tmp_path: Path) -> None:
    told = await found_in(tmp_path / "told", talk(told=True))
    answered = await found_in(tmp_path / "answered", talk(told=False))
    ours, full_text = [(told[way][1], answered[way][1]) for way in (recall.OURS, recall.BM25)]
    assert full_text[0] > 90, "this talk is not made for full text to lose"
    assert ours[0] >= full_text[0]
    assert ours[1] > 90
    assert sum(ours) / 2 >= sum(full_text) / 2 + 3


async def test_without_data_the_report_says_so_and_promises_nothing(tmp_path: Path) -> None:
    report = await recall.run(tmp_path, recall.QUICK)
    assert report.goals == []
    assert any("made-up" in note for note in report.notes)


async def test_the_report_says_so_where_settings_were_chosen_on_the_given_conversations(tmp_path: Path) -> None:
    data = tmp_path / "talks.json"
    data.write_text(json.dumps([talk(told=True)]), "utf-8")
    report = await recall.run(tmp_path, recall.Size(data=data, chosen_on=True))
    assert report.figures["chosen_on"] is True
    assert any("on these very conversations" in note for note in report.notes)
    assert not any("on other conversations" in note for note in report.notes)
