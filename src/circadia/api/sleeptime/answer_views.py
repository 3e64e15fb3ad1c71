"""The REST view of a ready answer."""

from collections.abc import Sequence
from typing import Final

from circadia.api.parts import ApiParts
from circadia.ids import AgentId
from circadia.records.answer import Answer
from circadia.records.bank import Bank
from circadia.schemas.answers import AnswerView
from circadia.stores.base import Tx

NANOUSD: Final = 1e9


async def answer_views(tx: Tx, parts: ApiParts, bank: Bank, answers: Sequence[Answer]) -> list[AnswerView]:
    """Return views of a bank's answers, with their current validity."""
    names: dict[AgentId, str] = {}
    for agent_id in {each.scope.agent_id for each in answers}:
        agent = await tx.agents.get(agent_id)
        names[agent_id] = agent_id if agent is None else agent.reference
    return [_view(each, names[each.scope.agent_id], await _why_not(tx, parts, bank, each)) for each in answers]


async def _why_not(tx: Tx, parts: ApiParts, bank: Bank, answer: Answer) -> str:
    """Return why a lookup would not find the answer now; empty if it would."""
    now = parts.clock.now()
    if not answer.made_at <= now < answer.expires_at:
        return f"it holds from {answer.made_at} to {answer.expires_at}, and now is {now}"
    return (await parts.lookup.validity(tx, bank, answer)).why_not


def _view(answer: Answer, agent: str, why_not: str) -> AnswerView:
    rests = answer.rests
    return AnswerView.of(
        answer,
        agent=agent,
        end_user=answer.scope.end_user or None,
        frame=answer.scope.frame,
        question=answer.phrasings[0],
        stands=not why_not,
        why_not=why_not,
        blocks={label: rests.blocks[label] for label in rests.shown if label in rests.blocks},
        notes=sorted(rests.notes),
        episodes=sorted(rests.episodes),
        usd=None if answer.nanousd is None else answer.nanousd / NANOUSD,
    )
