"""Newer turns are read for ready answers by the tier's model: one question for many answers, and no pass (ANS-20)."""

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import cycle, islice

import pytest
from pydantic import BaseModel

from benchmarks.talks import small_talk
from circadia.llm.chat_model import ModelAnswerError, Prompt
from circadia.records.answer import AnswerFrame, DropReason, LookupOutcome
from circadia.records.bank import BankPolicy, Trust
from circadia.records.coordination import Setting, SettingSource
from circadia.records.episode import EpisodeKind
from circadia.sleeptime.answers.still_right import AnswerVerdict, AnswerVerdicts
from circadia.sleeptime.engine.answer_reviewer import AnswerReviewer
from circadia.sleeptime.proposals.prompts import prompt_version
from circadia.testing.clock import START
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.answers_stand import CAT, HOME, JOB, Hall, expecting
from tests.sleeptime.changes_suite import changes_suite

pytestmark = pytest.mark.spec("ANS-20")

NEWS = "I have new neighbours."
QUIET, EVERY, TOGETHER = 10, 60, 20

FIRST_PERSON = (
    ("Where do I live?", "In Porto.", "We're all settled in Lisbon by now."),
    ("Who is my dentist?", "Dr. Silva.", "She has retired, and her practice is closed for good."),
    ("What do I drive?", "A green van.", "Sold the old thing; from today on I cycle."),
    ("When is my shift?", "Mondays at six.", "They put me on nights."),
    ("What am I allergic to?", "Peanuts.", "The new test says that nuts are fine, but milk is not."),
    ("Wo wohne ich?", "In Porto.", "Alle Kisten stehen schon in Lissabon."),
    ("Wer ist mein Zahnarzt?", "Doktor Silva.", "Der hat aufgehört und alle Patienten abgegeben."),
    ("Was fahre ich?", "Einen grünen Bus.", "Das alte Ding ist verkauft, ab jetzt nehme ich das Rad."),
    ("Wann beginnt meine Schicht?", "Montags um sechs.", "Man hat mich in die Nacht gesteckt."),
    ("Wie heißt mein Hund?", "Bello.", "Nun tobt hier ein Welpe, den alle Rex rufen."),
    ("Où est-ce que j'habite ?", "À Porto.", "Tous les cartons sont déjà à Lisbonne."),
    ("Qui est mon dentiste ?", "Le docteur Silva.", "Elle a pris sa retraite."),
    ("Qu'est-ce que je conduis ?", "Une camionnette verte.", "Tout est vendu, maintenant c'est le vélo."),
    ("Quand commence mon service ?", "Le lundi à six heures.", "On m'a mise de nuit."),
    ("¿Dónde vivo?", "En Oporto.", "Todas las cajas están ya en Lisboa."),
    ("¿Quién es mi dentista?", "La doctora Silva.", "Se ha jubilado y ha cerrado."),
    ("¿Qué conduzco?", "Una furgoneta verde.", "Ya está vendida, ahora voy en bici."),
    ("¿Cuándo empieza mi turno?", "Los lunes a las seis.", "Me han puesto de noche."),
    ("我住在哪里？", "波尔图。", "行李已经全部搬到里斯本了。"),
    ("我的牙医是谁？", "席尔瓦医生。", "她退休了，诊所关门了。"),
    ("我开什么车？", "一辆绿色面包车。", "已经卖掉了，现在骑自行车。"),
    ("我几点上班？", "星期一六点。", "他们让人家值夜班了。"),
    ("私はどこに住んでいますか？", "ポルトです。", "荷物はもうすべてリスボンに届いた。"),
    ("私の歯医者は誰ですか？", "シルバ先生です。", "引退して、医院は閉まった。"),
    ("私は何に乗っていますか？", "緑のバンです。", "もう売った。今は自転車。"),
    ("私の勤務は何時からですか？", "月曜の六時です。", "夜勤に回された。"),
    ("أين أسكن؟", "في بورتو.", "كل الصناديق صارت في لشبونة."),
    ("من هو طبيب أسناني؟", "الدكتورة سيلفا.", "تقاعدت وأغلقت عيادتها."),
    ("ماذا أقود؟", "شاحنة خضراء.", "بعتها، والآن أركب الدراجة."),
    ("متى تبدأ نوبتي؟", "يوم الاثنين في السادسة.", "نقلوني إلى الليل."),
)
"""Questions with their answers, and what changes these in the first person, in seven languages."""


def judge(
    verdict: Callable[[str, str], bool | None] = lambda _, __: True, *, broken: bool = False
) -> ScriptedChatModel:
    """Return a tier's model that judges each answer's part of the question by the new lines, and expects nothing."""

    def script(prompt: Prompt, output: type[BaseModel]) -> BaseModel | ModelAnswerError:
        if output is not AnswerVerdicts:
            return expecting()
        if broken:
            return ModelAnswerError("it makes no sense")
        said, *parts = prompt.data.split("## Answer ")
        told = [(part.partition("\n")[0], verdict(said, part)) for part in parts]
        return AnswerVerdicts(verdicts=[AnswerVerdict(id=key, right=right) for key, right in told if right is not None])

    return ScriptedChatModel(script)


async def serving(one: Hall, answer_mode: str = "serve") -> AnswerFrame:
    """Let the agent serve, with one turn in the bank, and return its frame."""
    await one.agent("guide", answer_mode=answer_mode)
    await one.said("I came by train.")
    return await one.seen()


async def outcome(one: Hall, frame: AnswerFrame, question: str = HOME) -> LookupOutcome:
    return (await one.found(frame, question)).outcome


async def after(one: Hall, reviewer: AnswerReviewer, seconds: float) -> None:
    one.clock.advance(seconds)
    await reviewer.step()


async def test_after_ten_quiet_seconds_a_judge_reads_the_new_turns_and_is_not_asked_twice(both: Hall) -> None:
    frame, mind = await serving(both), judge()
    reviewer = both.reviewer(mind)
    await reviewer.step()
    await both.put(frame, HOME, "In Porto.")
    await both.said(NEWS, "They are nice.")
    await after(both, reviewer, QUIET - 1)
    assert (await outcome(both, frame), mind.asked) == (LookupOutcome.HINT, []), "it was not quiet for long enough"
    await after(both, reviewer, 1)
    assert await outcome(both, frame) is LookupOutcome.HIT
    (asked,) = mind.asked
    assert all(text in asked.data for text in ("## Said since", NEWS, "They are nice.", HOME, "In Porto."))
    assert "I came by train." not in asked.data, "the answer knows it"
    await after(both, reviewer, EVERY)
    assert len(mind.asked) == 1
    assert await both.calls() == 1


async def test_new_turns_are_read_by_the_agents_clock(one: Hall) -> None:
    """It is 2025-12-31 still, 13:00."""
    frame, mind = await serving(one), judge()
    guide, zone = (
        await one.agent("guide", answer_mode="serve"),
        Setting(value="Pacific/Pago_Pago", source=SettingSource.PATCH, at=START),
    )
    async with one.store.begin_write() as tx:
        await tx.agents.save(replace(guide, settings={"zone": zone}))
    reviewer = one.reviewer(mind)
    await reviewer.step()
    await one.put(frame, HOME, "In Porto.")
    await one.said("I fly tomorrow.")
    await after(one, reviewer, QUIET)
    (asked,) = mind.asked
    assert "Today is 2025-12-31" in asked.rules
    assert "I fly tomorrow (2026-01-01)." in asked.data


async def test_of_a_bank_at_most_one_question_a_minute_is_asked(one: Hall) -> None:
    frame, mind = await serving(one), judge()
    reviewer = one.reviewer(mind)
    await reviewer.step()
    await one.put(frame, HOME, "In Porto.")
    await one.said(NEWS)
    await after(one, reviewer, QUIET)
    async with one.store.begin_write() as tx:
        await one.memory.episodes.remember(tx, one.bank, one.turn("They have a dog."))
    await after(one, reviewer, EVERY - 1)
    assert (len(mind.asked), await outcome(one, frame)) == (1, LookupOutcome.HINT)
    await after(one, reviewer, 1)
    assert (len(mind.asked), await outcome(one, frame)) == (2, LookupOutcome.HIT)
    assert NEWS not in mind.asked[1].data, "it was read before"


async def test_what_a_judge_finds_wrong_is_void_and_what_he_leaves_out_stays_a_hint(one: Hall) -> None:
    frame, said = await serving(one), [None, False]
    mind = judge(lambda _, __: said[0])
    reviewer = one.reviewer(mind)
    await reviewer.step()
    answer = await one.put(frame, HOME, "In Porto.")
    await one.said(NEWS)
    for _ in range(3):
        await after(one, reviewer, EVERY)
    assert (len(mind.asked), await outcome(one, frame)) == (1, LookupOutcome.HINT), "until something new is said"
    assert (await one.found(frame, HOME)).newer > 0
    said.pop(0)
    await one.said("We moved.")
    await after(one, reviewer, EVERY)
    assert (len(mind.asked), await outcome(one, frame)) == (2, LookupOutcome.MISS)
    async with one.store.begin_read() as tx:
        gone = await tx.answers.get(one.bank.id, answer.id)
    assert gone is not None
    assert gone.dropped == DropReason.VOID


async def test_an_answer_stays_a_hint_while_the_model_makes_no_sense(one: Hall) -> None:
    frame, mind = await serving(one), judge(broken=True)
    reviewer = one.reviewer(mind)
    await reviewer.step()
    await one.put(frame, HOME, "In Porto.")
    await one.said(NEWS)
    await after(one, reviewer, QUIET)
    assert (len(mind.asked), await outcome(one, frame)) == (1, LookupOutcome.HINT)


@pytest.mark.parametrize(
    ("answer_mode", "tier", "asks"),
    [
        ("hint", {}, False), ("off", {}, False), ("serve", {}, True), ("serve", {"enabled": False}, False),
        *(("serve", {"when": when}, True) for when in ("coding", "nightly", "weekly", "manual")),
        ("serve", {"operations": {"precompute": {"enabled": False}}}, False),
        ("serve", {"operations": {"precompute": {"budget": {"per_day": {"calls": 0}}}}}, False),
        ("serve", {"operations": {"rethink": {"budget": {"per_day": {"calls": 0}}}}}, True),
    ],
)  # fmt: skip
async def test_only_for_agents_that_serve_and_within_the_budget_of_precompute_whatever_when_says(
    one: Hall, answer_mode: str, tier: Mapping[str, object], asks: bool
) -> None:
    frame, mind = await serving(one, answer_mode), judge()
    one.tier = tier
    reviewer = one.reviewer(mind)
    await reviewer.step()
    await one.put(frame, HOME, "In Porto.")
    await one.said(NEWS)
    await after(one, reviewer, QUIET)
    found = await one.found(frame, HOME)
    assert (len(mind.asked), found.outcome) == ((1, LookupOutcome.HIT) if asks else (0, LookupOutcome.HINT))
    assert bool(found.newer) is not asks


async def test_over_the_budget_answers_stay_hints_until_there_is_room_again(one: Hall) -> None:
    frame, mind = await serving(one), judge()
    one.tier = {"operations": {"precompute": {"budget": {"per_hour": {"calls": 1}}}}}
    reviewer = one.reviewer(mind)
    await reviewer.step()
    await one.put(frame, HOME, "In Porto.")
    for calls, certain in ((1, LookupOutcome.HIT), (1, LookupOutcome.HINT)):
        await one.said(NEWS, f"That is all {certain}.")
        await after(one, reviewer, EVERY)
        assert (len(mind.asked), await outcome(one, frame)) == (calls, certain)
    await after(one, reviewer, 3_600)
    assert (len(mind.asked), await outcome(one, frame)) == (2, LookupOutcome.HIT)


async def test_a_turn_behind_many_texts_of_tools_is_read(one: Hall) -> None:
    frame, mind = await serving(one), judge()
    reviewer = one.reviewer(mind)
    await reviewer.step()
    await one.put(frame, HOME, "In Porto.")
    async with one.store.begin_write() as tx:
        for number in range(250):
            text = one.turn(f"line {number}", kind=EpisodeKind.TOOL, trust=Trust.TOOL)
            await one.memory.episodes.append(tx, one.bank, text)
    await one.said(NEWS)
    await after(one, reviewer, QUIET)
    assert (len(mind.asked), await outcome(one, frame)) == (1, LookupOutcome.HIT)
    assert "line 7" not in mind.asked[0].data


async def test_a_paused_bank_asks_nothing(one: Hall) -> None:
    frame, mind = await serving(one), judge()
    reviewer = one.reviewer(mind)
    await one.put(frame, HOME, "In Porto.")
    async with one.store.begin_write() as tx:
        await one.context().sleeptime.pause(tx, one.bank, by="op")
    await one.said(NEWS)
    await after(one, reviewer, QUIET)
    assert mind.asked == []


async def test_a_turn_whose_signal_was_lost_is_found_in_the_rows(both: Hall) -> None:
    frame, mind = await serving(both), judge()
    await both.put(frame, HOME, "In Porto.")
    await both.said(NEWS)
    reviewer = both.reviewer(mind)  # as after a restart
    await reviewer.step()
    assert (len(mind.asked), await outcome(both, frame)) == (1, LookupOutcome.HIT)


async def test_many_answers_are_asked_about_together_the_nearest_first_and_those_of_one_end_user(one: Hall) -> None:
    frame, mind = await serving(one), judge()
    eve = await one.seen(user="eve")
    reviewer = one.reviewer(mind)
    await reviewer.step()
    for number in range(TOGETHER + 2):
        await one.put(frame, f"What is in box number {number}?", "Books.")
    await one.put(frame, CAT, "Tom.")
    await one.put(eve, JOB, "At Acme.")
    await one.said("The cat of Ann has another name.")
    await after(one, reviewer, QUIET)
    for _ in range(2):
        await after(one, reviewer, EVERY)
    counts = [prompt.data.count("## Answer") for prompt in mind.asked]
    assert sorted(counts) == [1, 3, TOGETHER]
    assert mind.asked[0].data.index(CAT) < mind.asked[0].data.index("box number"), "it is nearest"
    assert [JOB in prompt.data for prompt in mind.asked].count(True) == 1
    assert await outcome(one, frame, "What is in box number 7?") is LookupOutcome.HIT
    assert await outcome(one, eve, JOB) is LookupOutcome.HIT


async def test_more_turns_than_one_question_has_are_read_one_part_after_the_other(one: Hall) -> None:
    frame, mind = await serving(one), judge()
    reviewer = one.reviewer(mind)
    await reviewer.step()
    await one.put(frame, HOME, "In Porto.")
    await one.said(*(f"Box {number} is full." for number in range(150)))
    await after(one, reviewer, QUIET)
    assert await outcome(one, frame) is LookupOutcome.HINT
    await after(one, reviewer, EVERY)
    assert await outcome(one, frame) is LookupOutcome.HIT
    lines = [re.findall(r"Box (\d+) is full", prompt.data) for prompt in mind.asked]
    assert [int(number) for part in lines for number in part] == list(range(150))


def _changes() -> Sequence[tuple[str, str, str]]:
    """Return 60 questions with their answers and what changes these, half of them in the first person."""
    others = [
        (case.question, case.answer, case.other_words) for each in changes_suite().values() for case in each.cases
    ]
    return [*FIRST_PERSON, *others[:: len(others) // 30][:30]]


@pytest.mark.parametrize(("errs", "least"), [(0, 95), (10, 85)])
async def test_of_sixty_changes_in_seven_languages_nearly_all_keep_the_answer_from_being_served(
    one: Hall, errs: int, least: int
) -> None:
    """The judge knows the truth, and errs in so many of a hundred verdicts: each change must come before him."""
    changes = _changes()
    assert len({question for question, _, _ in changes}) == 60
    told: dict[str, str] = {question: change for question, _, change in changes}
    turns = cycle([True] * errs + [False] * (100 - errs)) if errs else cycle([False])
    mistakes: Iterator[bool] = islice(turns, 0, None, 7)  # spread over the changes

    def verdict(said: str, part: str) -> bool:
        question = part.split("\n")[1].removeprefix("| ")
        right = told[question] not in said
        return right is not next(mistakes)

    frame = await serving(one)
    reviewer = one.reviewer(judge(verdict))
    await reviewer.step()
    kept = 0
    for question, answer, change in changes:
        await one.put(frame, question, answer)
        assert await outcome(one, frame, question) is LookupOutcome.HIT
        await one.said(change)
        assert await outcome(one, frame, question) is not LookupOutcome.HIT, "at once, until somebody has read it"
        await after(one, reviewer, EVERY)
        kept += await outcome(one, frame, question) is not LookupOutcome.HIT
    assert 100 * kept / len(changes) >= least
    assert errs == 0 or kept < len(changes), "else the judge did not err"


async def test_of_two_hundred_harmless_turns_nearly_all_leave_an_answer_certain(one: Hall) -> None:
    suites, draw = changes_suite().values(), random.Random(7)
    turns = [text for each in suites for text in (*each.unrelated, *(case.besides for case in each.cases)) if text]
    turns = list(dict.fromkeys(turns))
    while len(turns) < 200:
        turns = list(dict.fromkeys([*turns, small_talk(draw)]))
    turns = turns[:200]
    frame, left = await serving(one), 0
    reviewer = one.reviewer(judge())
    await reviewer.step()
    answer = await one.put(frame, HOME, "In Porto.")
    for text in turns:
        if answer.expires_at <= one.clock.now():
            raise AssertionError("the test takes longer than an answer lives")
        await one.said(text)
        await after(one, reviewer, EVERY)
        left += await outcome(one, frame) is LookupOutcome.HIT
    assert left / len(turns) >= 0.9


async def test_in_a_talk_with_a_turn_a_minute_an_answer_is_certain_half_of_the_time(one: Hall) -> None:
    frame, mind = await serving(one), judge()
    reviewer = one.reviewer(mind)
    await reviewer.step()
    await one.put(frame, HOME, "In Porto.")
    certain = looks = 0
    for minute in range(10):
        async with one.store.begin_write() as tx:
            await one.memory.episodes.remember(tx, one.bank, one.turn(f"Box {minute} is full."))
        for second in range(60):
            await after(one, reviewer, 1)
            if not second % 5:
                looks += 1
                certain += await outcome(one, frame) is LookupOutcome.HIT
    assert certain / looks >= 0.5
    assert len(mind.asked) <= 10


async def test_a_bank_may_have_its_own_policy_for_that(one: Hall) -> None:
    frame, mind = await serving(one), judge()
    policy = BankPolicy.model_validate({"sleeptime": {"operations": {"precompute": {"enabled": False}}}})
    async with one.store.begin_write() as tx:
        await one.memory.banks.change(tx, one.bank, by="op", policy=policy)
    reviewer = one.reviewer(mind)
    await one.put(frame, HOME, "In Porto.")
    await one.said(NEWS)
    await after(one, reviewer, QUIET)
    assert mind.asked == []


def test_the_rules_are_a_file_with_a_version() -> None:
    assert prompt_version("still_right") == 3
