"""How many answers are made ready, how long they hold, and which of them are used."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from circadia.clock import SystemClock
from circadia.records.answer import AnswerDay
from circadia.testing.upstream import MockUpstream
from tests.gateway.bound_agent import chat
from tests.gateway.readied import ASKED, OTHER, ReadyAnswerServer, readied
from tests.interaction.live import KEY

pytestmark = pytest.mark.usefixtures("unhurried")
EXPECTED = (
    "Which tea does Ann like?", "Who likes tea?", "Where does Ann buy tea?", "When does Ann drink tea?",
    "How much tea has Ann?"
)  # fmt: skip
ALIKE = "What does Ann like drinking in the morning?"
QUIET = {"when": "manual", "model": {"upstream": "openai", "name": "mind-1"}}


def model(request: dict[str, Any]) -> str:
    """Expect five questions where that is asked, find two answers alike, and answer all else."""
    schema = json.dumps(request.get("response_format", ""))
    if '"answered"' in schema:
        kept: dict[str, Any] = {"answered": True, "stands_alone": True, "same": []}
        return json.dumps({"questions": [{"number": number, **kept} for number in range(1, 6)]})
    if '"phrasings"' in schema:
        return json.dumps({"questions": [{"phrasings": [each], "confidence": 0.8} for each in EXPECTED]})
    return '{"same": true}' if '"same"' in schema else "It is green."


async def asked_twice(ann: ReadyAnswerServer) -> None:
    """Have two different questions come in one frame."""
    for text in (OTHER, "And which in the barn?"):
        await ann.frame(chat(text))


async def passed(ann: ReadyAnswerServer) -> Any:
    asked = {"operations": ["precompute"], "full": True, "wait_seconds": 60}
    run = (await ann.at.rest("POST", "/banks/memory/passes", asked))[1]
    assert run["ended_at"] is not None
    return run


async def listed(ann: ReadyAnswerServer) -> Any:
    return (await ann.at.rest("GET", "/banks/memory/answers"))[1]["answers"]


@pytest.mark.setting("answers.questions", "answers.ttl_hours", "answers.useful_share")
@pytest.mark.parametrize(
    ("wasted", "answers", "made"),
    [(0, {}, 5), (0, {"questions": 2, "ttl_hours": 3.0}, 2), (10, {}, 1), (10, {"useful_share": 0.0}, 5)],
)
async def test_so_many_questions_are_answered_ahead_for_so_long(
    tmp_path: Path, wasted: int, answers: dict[str, Any], made: int
) -> None:
    async with MockUpstream(key=KEY, reply=model) as provider:
        sections = {"provider": provider, "sleeptime": QUIET, "answers": answers}
        async with readied(tmp_path, sections=sections) as ann:
            await asked_twice(ann)
            async with ann.store.begin_write() as tx:
                day = AnswerDay(bank_id=(await ann.held()).id, day=SystemClock().now().date(), wasted=wasted)
                await tx.answer_uses.add_counts([day])
            await passed(ann)
            found = await listed(ann)
    assert len(found) == made
    spans = {datetime.fromisoformat(each["expires_at"]) - datetime.fromisoformat(each["made_at"]) for each in found}
    assert spans == {timedelta(hours=3 if "ttl_hours" in answers else 24)}


@pytest.mark.spec("ANS-01")
async def test_an_answer_with_a_secret_in_it_is_not_kept(tmp_path: Path) -> None:
    secret = "sk-proj-NorasOwn0123456789abcdef"

    def reveal(request: dict[str, Any]) -> str:
        return f"Her key is {secret}." if EXPECTED[1] in json.dumps(request["messages"][-1]) else model(request)

    async with MockUpstream(key=KEY, reply=reveal) as provider:
        async with readied(tmp_path, sections={"provider": provider, "sleeptime": QUIET}) as ann:
            await asked_twice(ann)
            await passed(ann)
            found = [each["phrasings"][0] for each in await listed(ann)]
    assert sorted(found) == sorted({*EXPECTED} - {EXPECTED[1]})
    assert not any(secret.encode() in path.read_bytes() for path in tmp_path.iterdir() if path.is_file())


@pytest.mark.setting("answers.sample_share")
@pytest.mark.parametrize(("share", "judged"), [(1.0, 1), (0.0, 0)])
async def test_such_a_share_of_uses_is_answered_afresh(tmp_path: Path, share: float, judged: int) -> None:
    async with MockUpstream(key=KEY, reply=model) as provider:
        sections = {"provider": provider, "sleeptime": QUIET, "answers": {"sample_share": share}}
        async with readied(tmp_path, sections=sections) as ann:
            await asked_twice(ann)
            await passed(ann)
            assert (await ann.ask(chat(EXPECTED[0]))).outcome == "hit"
            await ann.uses()
            assert (await passed(ann))["counts"].get("answers_judged", 0) == judged


@pytest.mark.setting("answers.hint_similarity", "answers.check")
@pytest.mark.parametrize(
    ("answers", "asked", "outcome"),
    [
        ({"check": "off"}, ASKED, "hit"),
        ({"check": "off"}, ALIKE, "hint"),
        ({"check": "off", "hint_similarity": 1.0}, ALIKE, "miss"),
        ({"check": "off", "hint_similarity": 0.4}, "Which drink does Ann like?", "hint"),
    ],
)
async def test_an_answer_is_a_hint_from_such_a_similarity_on(
    tmp_path: Path, answers: dict[str, Any], asked: str, outcome: str
) -> None:
    async with readied(tmp_path, sections={"answers": answers}) as ann:
        await ann.put(await ann.frame(chat(OTHER)))
        assert (await ann.ask(chat(asked))).outcome == outcome


@pytest.mark.setting("answers.volatile")
@pytest.mark.parametrize(("volatile", "outcome"), [([], "miss"), (["ids"], "hit")])
async def test_a_system_prompt_may_differ_in_what_is_said_to_be_volatile(
    tmp_path: Path, volatile: list[str], outcome: str
) -> None:
    def call(asked: str, uuid: str) -> dict[str, Any]:
        body = chat(asked)
        return {**body, "messages": [{"role": "system", "content": f"You run as {uuid}."}, *body["messages"]]}

    async with readied(tmp_path, sections={"answers": {"volatile": volatile}}) as ann:
        await ann.put(await ann.frame(call(OTHER, "5f0c3c1e-3a52-4f0e-9d3c-1b8a52f0c3c1")))
        assert (await ann.ask(call(ASKED, "0e9d3c1b-8a52-4f0c-8c1e-3a525f0c3c1e"))).outcome == outcome
