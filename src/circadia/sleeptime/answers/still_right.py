"""Asks the tier's model whether ready answers are still right after newer turns of their bank (ANS-20)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from pydantic import BaseModel, Field

from circadia.answers.cleanup import drop_ready_answers
from circadia.answers.question_drafts import AnswerServices
from circadia.ids import AnswerId, BankId
from circadia.memory.relative_dates import in_zone
from circadia.records.answer import Answer, DropReason
from circadia.records.bank import Bank
from circadia.records.episode import SILENT, Episode
from circadia.records.schedule import load_zone
from circadia.sleeptime.proposals.operation import AskAnyModel
from circadia.sleeptime.proposals.prompts import NumberedLines, build_file_prompt
from circadia.stores.base import Store, Tx

TOGETHER: Final = 20
"""Answers in one question."""
MAX_TURNS: Final = 100
"""Turns in one question, the oldest first; the next question goes on with the others."""
ROWS_READ: Final = 200
LONGEST_ANSWER: Final = 1_000
LONGEST_TURN: Final = 400
TOKENS_EACH: Final = 60


class AnswerVerdict(BaseModel):
    id: str
    why: str = ""
    right: bool


class AnswerVerdicts(BaseModel):
    verdicts: list[AnswerVerdict] = Field(max_length=2 * TOGETHER)


async def find_turns(tx: Tx, bank_id: BankId, after: int, now: datetime) -> Sequence[Episode]:
    """Return the turns after a number, oldest first, without tools' texts and what ready answers have said."""
    turns, is_last = list[Episode](), False
    while len(turns) < MAX_TURNS and not is_last:
        rows = await tx.episodes.find_all(bank_id, after=after, now=now, limit=ROWS_READ)
        turns += [row for row in rows if row.kind not in SILENT]
        after, is_last = rows[-1].number if rows else after, len(rows) < ROWS_READ
    return turns[:MAX_TURNS]


async def ask_if_still_right(
    store: Store, bank: Bank, answers: Sequence[Answer], services: AnswerServices, ask: AskAnyModel
) -> Sequence[AnswerId]:
    """Ask about up to `TOGETHER` answers, drop the wrong ones, and mark and return the right ones.

    Raises ModelAnswerError, OverBudget, PassPreempted.
    """
    now = services.clock.now()
    async with store.begin_read() as tx:
        turns = await find_turns(tx, bank.id, min(answer.read_upto for answer in answers), now)
        agent = await tx.agents.get(answers[0].scope.agent_id)
    if not turns or agent is None:
        return ()
    zone = load_zone(agent.coordination.zone)
    turns = [in_zone(turn, zone) for turn in turns]
    upto = turns[-1].number
    prompt = _build_prompt(turns, answers)
    output_tokens = 100 + TOKENS_EACH * len(answers)
    question = build_file_prompt("still_right", prompt, mission=bank.policy.mission, today=now.astimezone(zone))
    given = await ask(question, AnswerVerdicts, most_tokens=output_tokens)
    verdicts = {verdict.id.strip(): verdict.right for verdict in given.verdicts}
    judged = {answer.id: verdicts.get(f"a{place}") for place, answer in enumerate(answers, 1)}
    wrong = [answer_id for answer_id, is_right in judged.items() if is_right is False]
    right = [answer.id for answer in answers if judged[answer.id] and answer.read_upto < upto]
    async with store.begin_write() as tx:
        await drop_ready_answers(tx, bank.id, wrong, DropReason.VOID, now)
        await tx.answers.mark_still_right(bank.id, right, upto)
    return right


def _build_prompt(turns: Sequence[Episode], answers: Sequence[Answer]) -> str:
    lines = NumberedLines()
    lines.add_heading("Said since")
    lines.add_episodes(turns, longest=LONGEST_TURN)
    for place, answer in enumerate(answers, 1):
        lines.add_block(f"Answer a{place}", f"{answer.phrasings[0]}\n{answer.text}", LONGEST_ANSWER)
    return lines.text
