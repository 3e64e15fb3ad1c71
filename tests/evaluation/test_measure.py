"""What the arms take and bring: worked by hand, and with the scripted model."""

import asyncio
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from circadia.answers.index import AnswerIndex
from circadia.cli.eval import run_to_end
from circadia.clock import SystemClock
from circadia.errors import UpstreamFailed
from circadia.evaluation.arms import (
    QUESTION,
    READY,
    Arm,
    LikelyQuestions,
    PrecomputedAnswer,
    PreparedContext,
    ReasonedAnswer,
    RewrittenContext,
    Trial,
    build_answer_prompt,
    build_expect_prompt,
    load_rules,
)
from circadia.evaluation.asker import Asker, EvaluationUsage
from circadia.evaluation.dataset import Case, KeyedQuestion
from circadia.evaluation.generator import generate_cases
from circadia.evaluation.measure import (
    SIZES,
    BreakEven,
    LookupCounts,
    TrialResults,
    compute_arm_results,
    compute_bins,
    compute_break_even,
)
from circadia.evaluation.report import Findings, save
from circadia.evaluation.scripted_model import ScriptedEvalModel
from circadia.evaluation.stateful import SCRIPTED_NOTE, build_stateful_findings
from circadia.llm.chat_model import ModelAnswerError
from circadia.memory.search.vectors import TextVectors
from circadia.records.answer import MatchKind
from circadia.testing.clock import ManualClock
from circadia.testing.scripted_model import ScriptedChatModel
from tests.evaluation.stand import ARMS, Recording, Stand, same_vector, stand

MISLED = 0.2
STEP_TOKENS = 30
HELD_BACK = 0.5

pytestmark = pytest.mark.spec("ANS-10")


def trial(
    arm: Arm,
    question: int,
    hot: EvaluationUsage,
    *,
    is_right: bool = True,
    ready: str | None = None,
    match_kind: MatchKind | None = None,
) -> Trial:  # fmt: skip
    return Trial(
        arm=arm, case=0, question=question, likely=0.1 * question, hot=hot, right=is_right, ready=ready,
        match_kind=match_kind, false=ready is not None and not is_right,
    )  # fmt: skip


def likely_as(*likely: float) -> TrialResults:
    """A question of each predictability, asked of two arms."""
    made = (trial(arm, at, EvaluationUsage(prompt=at)) for at in range(len(likely)) for arm in (Arm.NONE, Arm.ANSWERS))
    return TrialResults(trials=[replace(each, likely=likely[each.question]) for each in made])


def by_hand() -> TrialResults:
    """Two questions: each takes 150 tokens without help; one of them, and it is a false hit, takes none with."""
    asked, nothing = EvaluationUsage(prompt=100, generated=50, calls=1), EvaluationUsage()
    prepared = PreparedContext(
        learned="", ready=(), index=AnswerIndex(same_vector), learning=EvaluationUsage(prompt=7, generated=9),
        answering=EvaluationUsage(prompt=300, generated=200, calls=4),
    )  # fmt: skip
    trials = [
        trial(Arm.NONE, 0, asked), trial(Arm.ANSWERS, 0, asked),
        trial(Arm.NONE, 1, asked),
        trial(Arm.ANSWERS, 1, nothing, is_right=False, ready="hit", match_kind=MatchKind.SIMILAR),
    ]  # fmt: skip
    return TrialResults(trials=trials, prepared={0: prepared})


def test_tokens_costs_and_shares_are_as_worked_by_hand() -> None:
    arms = (Arm.NONE, Arm.ANSWERS)
    one_none, one_answers, none, answers = compute_arm_results(by_hand(), arms)
    assert [each.questions for each in (one_none, one_answers, none, answers)] == [1, 1, 2, 2], "none has five"
    assert (one_answers.hot, one_answers.hits) == ((100, 50), 0)
    assert (none.hot, none.sleep, none.accuracy, none.hits, none.false) == ((100, 50), (0, 0), 1, 0, 0)
    assert (answers.hot, answers.sleep) == ((50, 25), (300, 200))
    assert (answers.accuracy, answers.hits, answers.hints, answers.false) == (0.5, 0.5, 0, 0.5)
    assert (none.cost(1), none.cost(10)) == (150, 1500)
    assert (answers.cost(1), answers.cost(10)) == (75 + 250, 750 + 250)
    assert (answers.exact, answers.meaning) == (LookupCounts(found=0, false=0), LookupCounts(found=1, false=1))
    assert (answers.cost(1, generated_only=True), one_answers.cost(1)) == (25 + 100, 150 + 500)


def test_the_break_even_is_the_least_number_of_questions_at_which_an_arm_is_cheaper() -> None:
    found = compute_break_even(compute_arm_results(by_hand(), (Arm.NONE, Arm.ANSWERS)))
    told = {(each.weight, each.generated_only): each.questions for each in found}
    # 500 tokens of sleep, 75 spared a question: 6 spare 450, 7 spare 525. Of 200 generated ones 25: 8 spare just 200.
    assert told == {(1, False): 7, (10, False): 1, (1, True): 9, (10, True): 1}
    dearer = compute_arm_results(by_hand(), (Arm.NONE, Arm.ANSWERS))
    swapped = [each for each in dearer if each.arm is Arm.NONE]
    assert compute_break_even(swapped) == [], "none has no break-even with itself"
    assert compute_break_even([each for each in dearer if each.arm is Arm.ANSWERS]) == [], "and without it nothing has"


def test_an_arm_that_spares_nothing_never_breaks_even() -> None:
    tally = by_hand()
    tally.trials[3] = trial(Arm.ANSWERS, 1, EvaluationUsage(prompt=100, generated=50))
    found = compute_break_even(compute_arm_results(tally, (Arm.NONE, Arm.ANSWERS)))
    assert {each.questions for each in found} == {None}
    assert all(isinstance(each, BreakEven) for each in found)


def test_bins_part_the_questions_by_how_likely_they_were() -> None:
    low_none, low, _, high = compute_bins(by_hand(), (Arm.NONE, Arm.ANSWERS), 2)
    assert (low.lowest, low.highest, low.questions, low.ready, low.accuracy) == (0, 0, 1, 0, 1)
    assert (low_none.hot_tokens, low.hot_tokens, high.hot_tokens) == (150, 150, 0)
    assert (high.lowest, high.ready, high.false, high.accuracy) == (0.1, 1, 1, 0)
    assert compute_bins(TrialResults(), ARMS) == []


@pytest.mark.parametrize(
    ("likely", "found"),
    [
        ([0.2, 0.2, 0.2, 0.2, 0.2], [(0.2, 0.2, 5)]),
        ([0.1, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.4], [(0.1, 0.3, 7), (0.4, 0.4, 1)]),
        ([0.5, 0.1], [(0.1, 0.1, 1), (0.5, 0.5, 1)]),
        ([0.0, 0.0, 0.00012345, 0.00012349, 0.9], [(0, 0, 2), (0.000123, 0.000123, 2), (0.9, 0.9, 1)]),
        ([0.1, 0.2, 0.3, 0.4], [(0.1, 0.1, 1), (0.2, 0.2, 1), (0.3, 0.3, 1), (0.4, 0.4, 1)]),
    ],
)
def test_questions_that_are_equally_likely_stand_in_one_bin(
    likely: list[float], found: list[tuple[float, float, int]]
) -> None:
    arms = (Arm.NONE, Arm.ANSWERS)
    parts = compute_bins(likely_as(*likely), arms)
    for arm in arms:
        assert [(each.lowest, each.highest, each.questions) for each in parts if each.arm is arm] == found


async def test_hits_are_told_by_how_they_were_found_with_the_false_ones_of_each(words: TextVectors) -> None:
    made = stand(words, cases=generate_cases(11, 8, 12), expected=8)
    await made.measuring.run(lambda: None)
    tally = made.measuring.tally
    by_arm = {each.arm: each for each in compute_arm_results(tally, ARMS, (12,))}
    answers, hints = by_arm[Arm.ANSWERS], by_arm[Arm.HINTS]
    assert answers.exact.found + answers.meaning.found == round(answers.hits * 8 * 12)
    assert answers.exact.false + answers.meaning.false == round(answers.false * 8 * 12)
    assert answers.exact.found > answers.exact.false == 0, "the same words ask for the same"
    assert hints.exact == answers.exact
    assert answers.meaning.found > answers.meaning.false == 0, "the judge knows all wordings"
    assert hints.meaning.found > 0, "what is only near is shown"
    for arm in (Arm.NONE, Arm.LEARNED, Arm.WRONG_HINTS):
        assert by_arm[arm].exact.found == by_arm[arm].meaning.found == 0, "nothing was looked for"
    (grid,) = [each for each in findings_of(made, (12,)).grids if "by how they were found" in each.title]
    rows = {row[0]: list(map(int, row[1:])) for row in grid.rows}
    assert rows.keys() == {"answers", "hints", "both"}
    assert rows["hints"] == [hints.exact.found, 0, hints.meaning.found, hints.meaning.false]


async def test_half_of_the_questions_are_asked_in_words_that_the_scripted_model_never_expects() -> None:
    asked = foreseen = 0
    for case in generate_cases(21, 12, 20):
        expected, _ = await ScriptedEvalModel().ask(
            build_expect_prompt(case.context, 10_000), LikelyQuestions, most_tokens=1
        )
        said = {text for each in expected.questions for text in (each.question, *each.other_wordings)}
        asked += len(case.questions)
        foreseen += sum(each.text in said for each in case.questions)
    assert foreseen / asked == pytest.approx(1 - HELD_BACK, abs=0.1)
    assert pytest.approx(0.5) == HELD_BACK
    assert f"{HELD_BACK:.0%}" in SCRIPTED_NOTE


def findings_of(made: Stand, sizes: Sequence[int]) -> Findings:
    return build_stateful_findings(
        made.measuring, sizes, scripted=False, generated=True, command="circadia eval stateful", at=SystemClock().now()
    )


async def test_a_table_and_a_picture_have_a_place_for_each_range_that_there_is(
    tmp_path: Path, words: TextVectors
) -> None:
    same = [KeyedQuestion(text=each.text, key=each.key, likely=0.25) for each in generate_cases(3, 1, 5)[0].questions]
    made = stand(words, cases=[Case(name="c", context=generate_cases(3, 1)[0].context, questions=same)])
    await made.measuring.run(lambda: None)
    found = findings_of(made, (1, 5))
    (grid,) = [each for each in found.grids if "predictability" in each.title]
    assert grid.columns == ["arm", "0.25 (5)"]
    (chart,) = [each for each in found.charts if each.name == "predictability"]
    assert {len(values) for values in chart.series.values()} == {len(chart.places)} == {1}
    assert "predictability.png" in {path.name for path in save(found, tmp_path)}


async def finished(words: TextVectors, seed: int = 5) -> Stand:
    made = stand(words, seed=seed)
    await made.measuring.run(lambda: None)
    return made


async def test_each_arm_does_what_it_is_for(words: TextVectors) -> None:
    made = await finished(words)
    assert made.measuring.tally.complete
    found = {each.arm: each for each in compute_arm_results(made.measuring.tally, ARMS) if each.questions == 5}
    assert found[Arm.NONE].accuracy == 1, "the scripted model makes no mistake of its own"
    assert found[Arm.WRONG_HINTS].accuracy < found[Arm.HINTS].accuracy
    assert found[Arm.WRONG_HINTS].hints == found[Arm.WRONG_HINTS].false == 1
    assert found[Arm.WRONG_HINTS].hot > found[Arm.NONE].hot
    assert found[Arm.LEARNED].hot[1] < found[Arm.NONE].hot[1], "what was worked out ahead is not worked out again"
    assert found[Arm.ANSWERS].hits > 0
    assert found[Arm.ANSWERS].hot[1] < found[Arm.NONE].hot[1], "a judge reads more than it writes"
    assert found[Arm.ANSWERS].sleep == found[Arm.HINTS].sleep == found[Arm.WRONG_HINTS].sleep
    both = found[Arm.BOTH].sleep
    assert both == tuple(sum(pair) for pair in zip(found[Arm.LEARNED].sleep, found[Arm.ANSWERS].sleep, strict=True))
    assert found[Arm.BOTH].hits == found[Arm.ANSWERS].hits


async def test_a_run_is_the_same_again(words: TextVectors) -> None:
    first, again = await finished(words), await finished(words)
    assert compute_arm_results(first.measuring.tally, ARMS) == compute_arm_results(again.measuring.tally, ARMS)
    other = await finished(words, 6)
    assert compute_arm_results(first.measuring.tally, ARMS) != compute_arm_results(other.measuring.tally, ARMS)


async def test_progress_and_calls_are_told_before_and_no_prompt_is_paid_twice(words: TextVectors) -> None:
    mind, steps = Recording(), list[None]()
    made = stand(words, mind=mind)
    await made.measuring.run(lambda: steps.append(None))
    assert len(steps) == made.measuring.step_count
    assert len(mind.asked) == made.asker.spent.calls <= made.measuring.max_calls
    hot = [(prompt, name) for prompt, name in mind.asked if name == "ReasonedAnswer"]
    assert len(set(hot)) >= len(hot) - 4 * 6, "only what was also answered ahead is asked again"


def test_the_scripted_model_thinks_by_the_step_and_is_misled_as_often_as_it_says() -> None:
    model, case = ScriptedEvalModel(), stand(same_vector).cases[0]
    asked = case.questions[0]

    async def tokens(context: str) -> tuple[str, int]:
        reply, used = await model.ask(build_answer_prompt(context, asked.text), ReasonedAnswer, most_tokens=600)
        assert used.reasoning_tokens is not None
        assert used.reasoning_tokens % STEP_TOKENS == 0
        return reply.answer, used.output_tokens or 0

    async def misled() -> float:
        wrong = 0
        for at in range(400):
            prompt = build_answer_prompt(case.context, asked.text, ready(f"Who is number {at}?", "nobody"))
            reply, _ = await model.ask(prompt, ReasonedAnswer, most_tokens=600)
            wrong += reply.answer == "nobody"
        return wrong / 400

    def ready(question: str, answer: str) -> PrecomputedAnswer:
        return PrecomputedAnswer(question=question, phrasings=[question], reasoning="so it is", answer=answer)

    answer, used = asyncio.run(tokens(case.context))
    assert answer == asked.key
    nothing, less = asyncio.run(tokens("Nothing is told here."))
    assert (nothing, less <= used) == ("unknown", True)
    assert asyncio.run(misled()) == pytest.approx(MISLED, abs=0.06)


def test_the_prompts_say_what_they_must() -> None:
    for name in ("answer", "rewrite", "expect"):
        assert "never an instruction" in load_rules(name)
    assert "unknown" in load_rules("answer")
    assert "very same" in load_rules("answer")
    assert "{count}" in load_rules("expect")
    prompt = build_answer_prompt("C.", "Q?", None)
    assert QUESTION in prompt.data
    assert READY not in prompt.data


def test_ctrl_c_leaves_what_was_measured(tmp_path: Path, words: TextVectors) -> None:
    class Interrupting(Recording):
        def before(self, number: int) -> None:
            if number == 40:
                signal.raise_signal(signal.SIGINT)

    made = stand(words, mind=Interrupting(), at_once=1)
    assert run_to_end(made.measuring.run(lambda: None)) == (False, None)
    tally = made.measuring.tally
    assert tally.trials
    assert not tally.complete
    found = findings_of(made, SIZES)
    results, page, *_ = save(found, tmp_path)
    assert '"complete": false' in results.read_text("utf-8")
    assert "interrupted" in page.read_text("utf-8")
    assert found.figures["figures"], "the first context was whole"


async def test_a_provider_that_answers_nothing_ends_the_run_and_one_that_falters_does_not() -> None:
    clock = ManualClock()
    dead = Asker(ScriptedChatModel([ModelAnswerError("HTTP status 401")] * 3), clock)
    prompt = build_answer_prompt("C.", "Q?")
    for _ in range(2):
        assert await dead.ask(prompt, ReasonedAnswer, most_tokens=9) == (None, EvaluationUsage(calls=1, failed=1))
    with pytest.raises(UpstreamFailed, match="401"):
        await dead.ask(prompt, ReasonedAnswer, most_tokens=9)
    good = ReasonedAnswer(reasoning="r", answer="7")
    faltering = Asker(
        ScriptedChatModel([ModelAnswerError("busy", passing=True), good, ModelAnswerError("cut off")]), clock
    )
    asking = asyncio.create_task(faltering.ask(prompt, ReasonedAnswer, most_tokens=9))
    await clock.wait_for_sleepers(1)
    clock.advance(2)
    assert await asking == (good, EvaluationUsage(prompt=100, generated=10, calls=2, failed=1))
    assert await faltering.ask(prompt, ReasonedAnswer, most_tokens=9) == (None, EvaluationUsage(calls=1, failed=1))


async def test_a_context_that_cannot_be_rewritten_is_used_as_it_is() -> None:
    def script(_: object, output: object) -> ReasonedAnswer | ModelAnswerError:
        return ModelAnswerError("cut off") if output is RewrittenContext else ReasonedAnswer(reasoning="", answer="x")

    made = stand(same_vector, mind=ScriptedChatModel(script), arms=(Arm.NONE, Arm.LEARNED))
    await made.measuring.run(lambda: None)
    assert all(made.measuring.tally.prepared[at].learned == case.context for at, case in enumerate(made.cases))
