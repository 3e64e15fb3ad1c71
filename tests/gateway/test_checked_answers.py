"""Ready answers that are only alike in meaning, where a check decides."""

from pathlib import Path

import pytest

from circadia.errors import StartError
from circadia.gateway.answer_check import LocalCheck
from tests.gateway.bound_agent import chat
from tests.gateway.readied import ASKED, OTHER, readied

pytestmark = pytest.mark.usefixtures("unhurried")


@pytest.mark.spec("ANS-02")
async def test_what_is_alike_in_meaning_is_served_only_if_the_tiers_model_says_so_where_that_is_wanted(
    tmp_path: Path,
) -> None:
    sections = {"answers": {"check": True, "serve_confidence": 0.5}}
    alike = "What does Ann like drinking in the morning?"
    async with readied(tmp_path, sections=sections) as ann:
        await ann.put(await ann.frame(chat(OTHER)))
        sent = ann.sends
        assert (await ann.ask(chat(ASKED.upper()))).outcome == "hit"
        assert ann.sends == sent, "what is the same word for word needs no check"
        for told, outcome in (('{"same": true}', "hit"), ('{"same": false}', "hint"), ("no idea", "hint")):
            ann.at.upstream.next(text=told)
            got = await ann.ask(chat(alike))
            assert got.outcome == outcome, told
        tiers = {each["key"]: each["calls"] for each in await ann.at.usage("tier")}
        uses = await ann.uses()
    assert tiers == {"hot": 3, "ready": 2, "sleep": 3}
    assert [(each.way, each.served) for each in uses] == [("exact", True), ("meaning", True)]


@pytest.mark.spec("ANS-02")
async def test_where_a_check_is_wanted_and_no_model_can_make_it_only_the_same_words_are_served(tmp_path: Path) -> None:
    checked = {"answers": {"check": True, "serve_confidence": 0.5}}
    async with readied(tmp_path, sections=checked) as ann:
        frame = await ann.frame(chat(OTHER))
    nobody = {**checked, "sleeptime": {"model": "none"}}
    async with readied(tmp_path, block="", sections=nobody) as ann:
        await ann.put(frame)
        assert (await ann.ask(chat(ASKED))).outcome == "hit"
        assert (await ann.ask(chat("What does Ann like drinking in the morning?"))).outcome == "hint"
        assert not [each for each in await ann.at.usage("tier") if each["key"] == "sleep"]


class _Sure:
    """Is sure of what stands in it, and keeps what it was asked."""

    def __init__(self, *same: str) -> None:
        self.same = same
        self.asked: list[str] = []

    def confidence(self, asked: str, known: str) -> float:
        """Return how sure it is."""
        self.asked.append(asked)
        return 0.9 if asked in self.same else 0.1

    def takes_the_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let servers ask it instead of the encoder."""

        async def loaded() -> _Sure:
            return self

        def check(_: object, bar: float) -> LocalCheck:
            return LocalCheck(loaded, bar)

        monkeypatch.setattr("circadia.server.answering.local_check", check)


@pytest.mark.spec("ANS-02")
async def test_the_check_in_the_server_may_overrule_guards_that_judge_by_words_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more, other = "What does Ann like to drink in the cold morning?", "What does Ann like to drink in the new morning?"
    forbidden = ("What does Ann like to drink in the evening?", "What did Ann never like to drink in the morning?")
    look = _Sure(more, *forbidden)
    look.takes_the_place(monkeypatch)
    async with readied(tmp_path, sections={"answers": {"check": "local"}}) as ann:
        frame = await ann.frame(chat(OTHER))
        for text in (ASKED.upper(), more):
            await ann.put(frame)
            sent = ann.sends
            assert ((await ann.ask(chat(text))).outcome, ann.sends) == ("hit", sent), text
        for text in (other, *forbidden):
            await ann.put(frame)  # what is answered in between may void one
            assert (await ann.ask(chat(text))).outcome in ("hint", "miss"), text
        assert look.asked == [more, other], "it is not asked of the same words, nor of what a guard forbids"
        uses = await ann.uses()
    assert [(each.question, each.way, each.served) for each in uses] == [
        (ASKED.upper(), "exact", True), (more, "meaning", True),
    ]  # fmt: skip


@pytest.mark.spec("ANS-02", "ANS-04")
@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ("What does Ann prefer to drink in the morning?", "hit"),
        ("Why does Ann like to drink in the morning?", "hit"),
        ("What does Ann like to drink in the cold morning?", "hit"),
        ("Ann wakes early. What does Ann like to drink in the morning?", "miss"),
        ("What does Ann like to drink in the hectic morning", "miss"),
    ],
)
async def test_a_question_that_the_check_takes_for_the_same_leaves_the_answer_unless_more_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, outcome: str
) -> None:
    _Sure(said).takes_the_place(monkeypatch)
    async with readied(tmp_path, sections={"answers": {"check": "local"}}) as ann:
        await ann.put(await ann.frame(chat(OTHER)))
        assert (await ann.ask(chat(said))).outcome == "hit"
        assert (await ann.ask(chat(ASKED))).outcome == outcome


@pytest.mark.spec("ANS-02")
async def test_without_its_weights_a_server_with_the_check_in_it_does_not_start_and_says_how_to_fetch_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    with pytest.raises(StartError, match="circadia model fetch minilm"):
        async with readied(tmp_path, sections={"answers": {"check": "local"}}):
            pass
