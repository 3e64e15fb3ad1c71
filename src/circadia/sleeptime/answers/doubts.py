"""Asks the tier's model whether ready answers are still right after later rows (ANS-04).

A pass asks about many used or new answers in one question: those in doubt first, then those that a later row is less
likely to change.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import BaseModel, Field

from circadia.answers.cleanup import drop_ready_answers
from circadia.answers.services import Validity
from circadia.ids import AnswerId
from circadia.llm.chat_model import ModelAnswerError, Prompt
from circadia.records.answer import Answer, DropReason
from circadia.records.episode import Episode
from circadia.records.index_entry import Layer
from circadia.records.note import Note
from circadia.sleeptime.answers.answer_run import AnswerRun
from circadia.sleeptime.proposals.prompts import NumberedLines, build_file_prompt
from circadia.stores.base import Tx

TOGETHER: Final = 20
"""Answers in one question."""
QUESTIONS: Final = 5
"""Questions of one pass."""
LONGEST_ANSWER: Final = 1_000
LONGEST_ROW: Final = 400
TOKENS_EACH: Final = 60


class AnswerVerdict(BaseModel):
    id: str
    why: str = ""
    right: bool


class AnswerVerdicts(BaseModel):
    verdicts: list[AnswerVerdict] = Field(max_length=2 * TOGETHER)


async def settle_doubts(run: AnswerRun, found: Mapping[AnswerId, Validity], counts: Counter[str]) -> None:
    """Ask about these answers, drop the wrong, count both. Raises OverBudget, PassPreempted, ModelAnswerError."""
    order = sorted(found, key=lambda answer_id: (not found[answer_id].doubt, answer_id))
    for at in range(0, min(len(order), TOGETHER * QUESTIONS), TOGETHER):
        await run.context.yield_to_calls()
        batch = order[at : at + TOGETHER]
        async with run.context.store.begin_read() as tx:
            every = [await tx.answers.get(run.bank.id, answer_id) for answer_id in batch]
            answers = [answer for answer in every if answer is not None and not answer.dropped and answer.phrasings]
            prompt = await _build_prompt(tx, run, answers, found)
        if not answers:
            continue
        try:
            answer = await run.ask(prompt, AnswerVerdicts, most_tokens=100 + TOKENS_EACH * len(answers))
        except ModelAnswerError as error:
            if error.passing:
                raise
            continue
        verdicts = {verdict.id.strip(): verdict.right for verdict in answer.verdicts}
        judged = {answer.id: verdicts.get(f"a{place}") for place, answer in enumerate(answers, 1)}
        wrong = [answer_id for answer_id, right in judged.items() if right is False]
        right = {answer_id: found[answer_id].heads for answer_id, is_right in judged.items() if is_right}
        async with run.context.store.begin_write() as tx:
            dropped = await drop_ready_answers(tx, run.bank.id, wrong, DropReason.VOID, run.answer_services.clock.now())
            await tx.answers.mark_still_right(run.bank.id, right)
        counts["answers_dropped"] += len(dropped)
        counts["answers_settled"] += len(right)


async def _build_prompt(
    tx: Tx, run: AnswerRun, answers: Sequence[Answer], found: Mapping[AnswerId, Validity]
) -> Prompt:
    """Build the question about these answers: each new row once, then each answer with the ids of its rows."""
    concerns = {(concern.layer, concern.number) for answer in answers for concern in found[answer.id].concerns}
    episodes = await tx.episodes.get_by_numbers(
        run.bank.id, [number for layer, number in concerns if layer is Layer.EPISODES]
    )
    notes = await tx.notes.get_by_numbers(run.bank.id, [number for layer, number in concerns if layer is Layer.NOTES])
    lines = NumberedLines()
    lines.add_heading("Said since")
    lines.add_episodes([episodes[number] for number in sorted(episodes)], longest=LONGEST_ROW)
    lines.add_notes([notes[number] for number in sorted(notes)])
    for place, answer in enumerate(answers, 1):
        rows: list[Episode | Note | None] = [
            episodes.get(concern.number) if concern.layer is Layer.EPISODES else notes.get(concern.number)
            for concern in found[answer.id].concerns
        ]
        ids = " ".join(lines.id_of(row) for row in rows if row is not None)
        lines.add_block(f"Answer a{place}, beside {ids}", f"{answer.phrasings[0]}\n{answer.text}", LONGEST_ANSWER)
    return build_file_prompt(
        "still_right", lines.text, mission=run.bank.policy.mission, today=run.sleep_pass.created_at
    )
