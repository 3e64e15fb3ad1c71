"""A process that is killed again and again while it makes answers ready: each is paid for once, and whole."""

import asyncio
import random
import signal
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from circadia.answers.lookup import AnswerLookup
from circadia.answers.question_drafts import AnticipatedAnswer
from circadia.clock import SystemClock
from circadia.ids import AgentId
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.records.answer import Answer, AnswerScope, LookupOutcome, MatchKind
from circadia.records.call import CallStatus
from circadia.records.sleep_call import SleepCall
from circadia.records.sleep_pass import Pass, PassStatus
from circadia.sleeptime.answers.prediction import Predictions, QuestionVerdicts
from circadia.stores.base import Store
from circadia.stores.postgres import open_postgres
from circadia.stores.sqlite import open_sqlite
from tests.durability.readying import EXPECTED
from tests.fixtures.program import Program
from tests.sleeptime.answers_stand import Hall, hall

PROGRAM = "tests.durability.readying"


async def life(place: str, questions: int, writes: int) -> tuple[list[str], bool]:
    """Let the program ask so many questions, then write so often, and kill it.

    Return what it asked, and whether it came to its end.
    """
    process = await Program.start([PROGRAM], place)
    told: list[str] = []
    awaited = ["asked"] * questions + ["wrote"] * writes
    async with asyncio.timeout(60):
        while awaited and (line := await process.stdout.readline()):
            told.append(line.decode().strip())
            if told[-1].startswith("ended"):
                break
            if told[-1].startswith(awaited[0]):
                del awaited[0]
    process.send_signal(signal.SIGKILL)
    told += [line.decode().strip() for line in (await process.stdout.read()).splitlines(keepends=True)]
    await process.wait()
    asked = [each.removeprefix("asked ") for each in told if each.startswith("asked ")]
    return asked, any(each.startswith("ended") for each in told)


async def journal(store: Store) -> tuple[Sequence[Pass], Sequence[SleepCall]]:
    """Return the passes, and all that they asked."""
    async with store.begin_read() as tx:
        runs = await tx.passes.find_all()
        return runs, [call for run in runs for call in await tx.sleep_calls.find_by_pass(run.id)]


def recorded(calls: Sequence[SleepCall]) -> list[str]:
    """Return which questions have an answer on record, as the program tells of them."""
    found: list[str] = []
    for answer in (each.answer for each in calls if each.answer is not None):
        if "stands_alone" in answer:
            found.append(f"verdicts on {len(QuestionVerdicts.model_validate_json(answer).questions)}")
        elif "questions" in answer:
            foreseen = Predictions.model_validate_json(answer)
            found.append(next(name for name, each in EXPECTED.items() if each == foreseen))
        else:
            found.append(AnticipatedAnswer.model_validate_json(answer).text.rpartition(" ")[0])
    return found


async def begun(made: Hall) -> dict[str, AnswerScope]:
    """Have agents asked; return the scope of each."""
    await made.said("I moved last year.")
    scopes: dict[str, AnswerScope] = {}
    for name in EXPECTED:
        await made.agent(name)
        rules = {"role": "system", "content": f"You are {name}. Be short."}
        scopes[name] = (await made.seen(name, messages=[rules])).scope
    return scopes


async def show_that_each_is_made_once(place: str, embedder: BundledEmbedder, seed: int) -> int:
    """Kill a pass at random until it has come to its end; return how often."""
    draw = random.Random(seed)
    store = await (open_postgres(place) if place.startswith("postgresql") else open_sqlite(Path(place)))
    try:
        async with hall(store, embedder, start=SystemClock().now() - timedelta(minutes=5)) as made:
            scopes = await begun(made)
            asked, lives, ended = list[str](), 0, False
            while not ended:
                _, calls = await journal(store)
                known = {each for each in recorded(calls) if not each.startswith("verdicts")}
                again, ended = await life(place, draw.randint(1, 4), draw.randint(0, 3))
                print(f"seed {seed}: life {lives} asked {again}")
                assert not known & set(again), "paid for twice"
                asked += again
                lives += 1
            await show_what_is_ready(made, scopes)
            await show_what_was_paid(made, asked, lives)
            return lives
    finally:
        await store.close()


async def show_what_is_ready(made: Hall, scopes: dict[str, AnswerScope]) -> None:
    """Each question that was expected has one whole answer, which is found by somebody who made none."""
    found = {(each.scope, tuple(each.phrasings)): each for each in await made.ready()}
    expected = {(scopes[name], tuple(each.phrasings)) for name in EXPECTED for each in EXPECTED[name].questions}
    assert (set(found), len(await made.ready())) == (expected, len(expected))
    lookup = AnswerLookup(SystemClock(), made.memory.retrieval, made.words, made.settings)
    names = {scope: name for name, scope in scopes.items()}
    async with made.store.begin_read() as tx:
        bank = await tx.banks.get(made.bank.id)
        assert bank is not None
        for (scope, phrasings), answer in found.items():
            assert answer.text.startswith(f"{names[scope]}: {phrasings[0]} ")
            assert (tuple(answer.basis.shown), answer.expires_at - answer.made_at) == (("ann",), timedelta(days=1))
            assert not (await lookup.validity(tx, bank, answer)).why_not
            assert await lookup.has_answer(tx, bank, scope, phrasings[0], None)  # waits for the index; a call does not
            for each in phrasings:
                ready = await lookup.find(tx, bank, scope, each)
                assert (ready.outcome, ready.answer) == (LookupOutcome.HIT, answer)
                assert ready.match is not None
                assert ready.match.kind is MatchKind.EXACT


async def show_what_was_paid(made: Hall, asked: Sequence[str], lives: int) -> None:
    """Journal, ledger, shelf and counts say the same: what has an answer was asked once; the rest died with a life."""
    runs, calls = await journal(made.store)
    ready = {each.text: each for each in await made.ready()}
    everything = [f"{name}: {each.phrasings[0]}" for name in EXPECTED for each in EXPECTED[name].questions]
    known = recorded(calls)
    assert sorted(each for each in known if not each.startswith("verdicts")) == sorted([*EXPECTED, *everything])
    judged = len([each for each in known if each.startswith("verdicts")])
    assert len(EXPECTED) <= judged <= len(EXPECTED) + lives, "what a killed life has not kept yet is judged again"
    assert [run.status for run in runs] == [PassStatus.NO_CHANGE]
    lost = [each for each in calls if each.answer is None]
    assert len(asked) <= len(calls), "no question without a line"
    assert len(lost) < lives, "a life that is killed loses one question at most"
    async with made.store.begin_read() as tx:
        ledger = {each.id: each for each in await tx.calls.find_latest(AgentId(""), 1000)}
        spent = await tx.sleep_calls.sum_cost()
    assert {each.id for each in calls} == set(ledger)
    assert spent.calls == len(calls)
    tokens = 0
    for call in calls:
        line = ledger[call.id]
        assert line.status is (CallStatus.RESERVED if call.answer is None else CallStatus.DONE)
        used = line.reserved_tokens if call.answer is None else (line.input_tokens or 0) + (line.output_tokens or 0)
        tokens += used
        if call.answer is not None and "questions" not in call.answer:
            paid = AnticipatedAnswer.model_validate_json(call.answer)
            answer: Answer = ready.pop(paid.text)
            assert (answer.tokens, answer.made_at, answer.pass_id) == (used, paid.at, call.pass_id)
    assert (not ready, spent.tokens) == (True, tokens)
    day = await made.day()
    assert (day.made, day.wasted) == (len(everything), 0)


@pytest.fixture(scope="module")
def embedder() -> BundledEmbedder:
    """The words that come with the package, loaded once."""
    return BundledEmbedder()


@pytest.mark.spec("SLEEP-10", "SLEEP-11", "SLEEP-28", "ANS-01", "ANS-05")
async def test_after_kills_while_answers_are_made_ready_each_is_paid_for_once_and_whole(
    place: str, embedder: BundledEmbedder
) -> None:
    assert await show_that_each_is_made_once(place, embedder, seed=1) > 1


@pytest.mark.slow
@pytest.mark.timeout(60 * 60)
@pytest.mark.spec("SLEEP-10", "SLEEP-28")
async def test_the_same_with_many_seeds(tmp_path: Path, embedder: BundledEmbedder) -> None:
    for seed in range(100):
        await show_that_each_is_made_once(str(tmp_path / f"{seed}.db"), embedder, seed)
