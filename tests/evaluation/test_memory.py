"""`circadia eval memory`: answers about long talks, by models whose true score is known."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from pydantic import BaseModel

from circadia.clock import SystemClock
from circadia.errors import InvalidRequest, NotFound, UpstreamFailed
from circadia.evaluation.arms import ReasonedAnswer
from circadia.evaluation.memory.arms import MemoryArm, RecallStep
from circadia.evaluation.memory.findings import interval
from circadia.evaluation.memory.grading import Verdict, grade_by_rule
from circadia.evaluation.memory.measure import AnswerFile, MemoryMeasurement, MemoryModels
from circadia.evaluation.memory.talks import AskedTalk, load_talks
from circadia.llm.chat_model import Prompt
from circadia.llm.usage import Usage
from tests.evaluation.stand import written

pytestmark = pytest.mark.spec("MEM-38")

T = TypeVar("T", bound=BaseModel)

FILLER = ("It rained all day.", "The train was late again.", "I had soup.", "Nothing new here.", "We played cards.")
ARMS = tuple(MemoryArm)


def locomo_talk() -> dict[str, Any]:
    """Return a talk of four sittings, in each of which one fact is told among much else, with its questions."""
    facts = [
        ("When did Ann buy the canoe?", "I bought a canoe on 7 May, the red one.", "7 May 2023", 2),
        ("How many kites does Bob own?", "By the way, I own 14 kites by now.", "14", 4),
        ("Who repaired the violin?", "Clara Weiss repaired my violin.", "Clara Weiss", 4),
        ("Why did Ann leave the choir?", "I left the choir since the evenings got too long.", "too long evenings", 1),
        ("Which horse did Bob ride?", "", "", 5),
    ]
    conversation: dict[str, Any] = {}
    for sitting, (_, said, _, _) in enumerate(facts[:4], 1):
        texts = [*(f"{text} ({sitting}-{number})" for number, text in enumerate(FILLER * 8)), said]
        conversation[f"session_{sitting}_date_time"] = f"1:56 pm on {sitting + 6} May, 2023"
        conversation[f"session_{sitting}"] = [
            {"speaker": ("Ann", "Bob")[place % 2], "dia_id": f"D{sitting}:{place}", "text": text}
            for place, text in enumerate(texts)
        ]
    asked = [{"question": ask, "answer": key or None, "category": kind} for ask, _, key, kind in facts]
    return {"sample_id": "t1", "conversation": conversation, "qa": asked}


def haystack(key: str = "Porto") -> dict[str, Any]:
    """Return a question in LongMemEval's format; its sessions are not in order of time."""
    return {
        "question_id": "q7", "question_type": "knowledge-update", "question": "Where do I live?", "answer": key,
        "question_date": "2023/05/30 (Tue) 23:40", "haystack_session_ids": ["s2", "s1"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/19 (Fri) 10:00"],
        "haystack_sessions": [
            [{"role": "user", "content": "I moved to Porto."}, {"role": "assistant", "content": "How nice!"}],
            [{"role": "user", "content": "I live in Lisbon."}],
        ],
    }  # fmt: skip


SAID = {
    "When did Ann buy the canoe?": ("bought a canoe", "2023-05-07"),
    "How many kites does Bob own?": ("own 14 kites", "He owns 14."),
    "Who repaired the violin?": ("repaired my violin", "Clara Weiss did"),
    "Why did Ann leave the choir?": ("left the choir", "the evenings were too long for her"),
}


class Reader:
    """Answers what its prompt says, and `unknown` else; it looks up what it lacks, where it may."""

    name, upstream, thinking_tokens = "reader", "scripted", 0

    def __init__(self, before: Callable[[int], None] = lambda number: None) -> None:
        self.asked = 0
        self.shown: list[str] = []
        self._before = before

    async def ask(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> tuple[T, Usage]:
        self.asked += 1
        self._before(self.asked)
        self.shown.append(prompt.data)
        question = prompt.data.split("\n")[-2]
        said, answer = SAID.get(question, ("never said", ""))
        answer = answer if said in prompt.data else "unknown"
        if output is RecallStep:
            lacks = answer == "unknown" and "## Looked up" not in prompt.data
            step = RecallStep(reasoning="", look_up=question if lacks else None, answer=answer)
            return cast("T", step), Usage(input_tokens=100, output_tokens=10)
        return cast("T", ReasonedAnswer(reasoning="", answer=answer)), Usage(input_tokens=100, output_tokens=10)

    def price(self, used: Usage) -> int | None:
        return 1_000_000 * ((used.input_tokens or 0) + (used.output_tokens or 0))

    def worst_price(self, input_tokens: int, output_tokens: int) -> int | None:
        return 1_000_000 * (input_tokens + output_tokens)


class Judge(Reader):
    """Knows which answers are right."""

    async def ask(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> tuple[T, Usage]:
        self.asked += 1
        self.shown.append(prompt.data)
        key, answer = (prompt.data.split(f"## {head}\n")[1].split("\n")[0] for head in ("Key", "Answer"))
        right = (
            answer != "unknown"
            if key == "too long evenings"
            else (answer, key) == ("unknown", "The talk does not tell it.")
        )
        return cast("T", Verdict(reasoning="", right=right)), Usage(input_tokens=50, output_tokens=5)


async def measured(
    talks: Sequence[AskedTalk], answering: Reader | None, file: AnswerFile | None = None, **more: Any
) -> MemoryMeasurement:
    judging = None if answering is None else Judge()
    measuring = MemoryMeasurement(
        talks, more.pop("arms", ARMS), MemoryModels(answering=answering, judging=judging), SystemClock(),
        file or AnswerFile(None, "x"), **more,
    )  # fmt: skip
    await measuring.run(lambda: None)
    return measuring


async def test_each_arm_has_its_true_score(tmp_path: Path) -> None:
    (talk,) = talks = load_talks(written(tmp_path, [locomo_talk()]))
    assert [each.kind for each in talk.questions] == ["time", "one turn", "one turn", "several turns", "adversarial"]
    reader = Reader()
    measuring = await measured(talks, reader)
    right = {arm: sum(each.right for each in measuring.file.answers.values() if each.arm == arm) for arm in ARMS}
    assert right == {
        MemoryArm.NOTHING: 1, MemoryArm.ALL: 5, MemoryArm.BM25: 5, MemoryArm.CONTEXT: 5, MemoryArm.RECALL: 5,
    }, "without memory, only what nobody told is answered rightly: `unknown`"  # fmt: skip
    judged = {each.question for each in measuring.file.answers.values() if each.judged and each.arm == MemoryArm.ALL}
    assert judged == {"t1/4", "t1/5"}, "days, numbers and names are graded by rule"
    assert sum("It rained" in shown for shown in reader.shown) >= 5
    recalled = [each for each in measuring.file.answers.values() if each.arm == MemoryArm.RECALL]
    assert max(each.input_tokens for each in recalled) == 200, "what nobody told is looked up once"


async def test_the_hits_of_full_text_have_the_room_of_the_context(tmp_path: Path) -> None:
    talks = load_talks(written(tmp_path, [locomo_talk()]))
    measuring = await measured(talks, None, arms=(MemoryArm.BM25, MemoryArm.CONTEXT, MemoryArm.ALL))
    tokens = {
        arm: [each.input_tokens for (_, of), each in sorted(measuring.file.answers.items()) if of == arm]
        for arm in ("bm25", "context", "all")
    }
    assert all(bm25 <= context for bm25, context in zip(tokens["bm25"], tokens["context"], strict=True))
    assert max(tokens["context"]) <= 2_000 < min(tokens["all"])


async def test_haystacks_of_the_other_format_are_asked_when_they_say(tmp_path: Path) -> None:
    (talk,) = load_talks(written(tmp_path, [haystack()]))
    assert [turn.text for turn in talk.turns] == ["I live in Lisbon.", "I moved to Porto.", "How nice!"]
    reader = Reader()
    measuring = await measured([talk], reader, arms=(MemoryArm.CONTEXT,))
    assert "asked on 2023-05-30" in reader.shown[0]
    assert "I moved to Porto" in reader.shown[0]
    assert measuring.file.answers["q7", "context"].kind == "knowledge-update"


async def test_a_run_that_was_killed_goes_on_where_it_ended(tmp_path: Path) -> None:
    talks = load_talks(written(tmp_path, [locomo_talk()]))
    path = tmp_path / "answers.jsonl"

    def stop(number: int) -> None:
        if number == 8:
            raise UpstreamFailed("the provider is down")

    with pytest.raises(UpstreamFailed):
        await measured(talks, Reader(stop), AnswerFile(path, "x"), arms=(MemoryArm.ALL, MemoryArm.BM25), at_once=1)
    with path.open("ab") as file:
        file.write(b'{"question": "t1/')  # it was being written
    first = AnswerFile(path, "x")
    kept = len(first.answers)
    assert 7 <= kept < 10
    reader, steps = Reader(), list[None]()
    measuring = MemoryMeasurement(
        talks, (MemoryArm.ALL, MemoryArm.BM25), MemoryModels(answering=reader, judging=Judge()), SystemClock(), first
    )
    await measuring.run(lambda: steps.append(None))
    assert reader.asked == 10 - kept
    assert len(steps) == measuring.step_count == 10
    again = AnswerFile(path, "x").answers
    assert len(again) == 10
    assert sum(each.right for each in again.values()) == 10
    with pytest.raises(InvalidRequest, match="another run"):
        AnswerFile(path, "y")
    path.write_text("{}}\n")
    with pytest.raises(InvalidRequest, match="damaged"):
        AnswerFile(path, "x")


async def test_nothing_more_is_asked_once_the_budget_is_spent(tmp_path: Path) -> None:
    talks = load_talks(written(tmp_path, [locomo_talk()]))
    reader = Reader()
    arms = (MemoryArm.ALL,)
    read, generated, price = MemoryMeasurement(
        talks, arms, MemoryModels(answering=reader, judging=Judge()), SystemClock(), AnswerFile(None, "x")
    ).estimate()
    assert read > 5 * 100
    assert generated > 0
    assert price is not None
    assert price > 5 * 110_000_000, "the estimate is at most, not at least"
    measuring = await measured(talks, reader, arms=arms, budget_nanousd=220_000_000, at_once=1)
    assert reader.asked == 2, "each answer costs 0.11 dollars"
    assert measuring.is_over_budget


@pytest.mark.parametrize(
    ("answer", "key", "right"),
    [
        ("2023-05-07", "7 May 2023", True),
        ("It was on May 7, 2023.", "7 May 2023", True),
        ("2023-05-08", "7 May 2023", False),
        ("in spring", "7 May 2023", None),
        ("14", "14", True),
        ("1,400 of them", "1400", True),
        ("15", "14", False),
        ("14 or 15", "14", None),
        ("It was Clara Weiss.", "Clara Weiss", True),
        ("her teacher", "Clara Weiss", None),
        ("unknown", "14", None),
        ("", "14", None),
        ("she was tired of long evenings", "too long evenings with the choir", None),
    ],
)
def test_days_numbers_and_names_are_graded_by_rule(answer: str, key: str, right: bool | None) -> None:
    assert grade_by_rule(answer, key) is right


def test_intervals_are_those_of_wilson() -> None:
    assert interval(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)  # Brown, Cai and DasGupta 2001, section 3
    assert interval(0, 0) == (0.0, 1.0)


BAD: Sequence[tuple[Any, str]] = [
    ("{", "JSON"),
    ([], "no question"),
    ([{"qa": []}], "'conversation'"),
    ([haystack() | {"haystack_dates": ["2023/05/20 (Sat) 02:21"]}], "entry 1"),
    ([haystack() | {"question_date": "yesterday"}], "yesterday"),
    ([locomo_talk() | {"qa": [{"question": "Who?"}]}], "no question"),
    ([5], "entry 1"),
]


@pytest.mark.parametrize(("document", "told"), BAD)
def test_a_file_in_no_known_format_is_told(tmp_path: Path, document: object, told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        load_talks(written(tmp_path, document))


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no file"):
        load_talks(tmp_path / "nothing.json")


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "talks.json"
    path.write_text("\ufeff" + json.dumps([haystack()]), "utf-8")
    assert load_talks(path)[0].name == "q7"
