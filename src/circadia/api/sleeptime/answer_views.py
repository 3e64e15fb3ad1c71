"""The REST view of a ready answer."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from pydantic import BaseModel, Field

from circadia.api.parts import ApiParts
from circadia.ids import AgentId
from circadia.records.answer import Answer
from circadia.records.bank import Bank
from circadia.stores.base import Tx

NANOUSD: Final = 1e9


class AnswerView(BaseModel):
    """A ready answer."""

    id: str = Field(description="Unique id.", examples=["ans_0cwd…"])
    agent: str = Field(description="Agent whose calls it may answer.", examples=["default:helper"])
    end_user: str | None = Field(description="End user; null if the agent's calls name none.")
    frame: str = Field(description="Digest of provider, model, system prompt, tools and output settings.")
    question: str = Field(description="Question that was answered.")
    phrasings: list[str] = Field(description="All phrasings of the question, this one first.")
    confidence: float = Field(description="Expected probability of the question, 0 to 1.")
    text: str = Field(description="Answer.")
    reasoning: str = Field(description="Reasoning that the model reported.")
    stands: bool = Field(description="Whether a lookup would find it now.")
    why_not: str = Field(description="Why a lookup would not find it; empty if it would.")
    blocks: dict[str, int] = Field(description="Blocks that it depends on, with versions.")
    notes: list[int] = Field(description="Numbers of the notes that it depends on.")
    episodes: list[int] = Field(description="Numbers of the episodes that it depends on.")
    pass_id: str | None = Field(description="Id of the pass that made it.")
    made_at: datetime = Field(description="Time.")
    expires_at: datetime = Field(description="Time of expiry.")
    tokens: int = Field(description="Input and output tokens that it cost.")
    usd: float | None = Field(description="List price in US dollars; null if unknown.")
    seconds: float = Field(description="Time that it took.")
    uses: int = Field(description="Number of uses.")
    used_at: datetime | None = Field(description="Time of the last use.")


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
    return AnswerView(
        id=answer.id, agent=agent, end_user=answer.scope.end_user or None, frame=answer.scope.frame,
        question=answer.phrasings[0], phrasings=list(answer.phrasings), confidence=answer.confidence,
        text=answer.text, reasoning=answer.reasoning, stands=not why_not, why_not=why_not,
        blocks={label: rests.blocks[label] for label in rests.shown if label in rests.blocks},
        notes=sorted(rests.notes), episodes=sorted(rests.episodes), pass_id=answer.pass_id, made_at=answer.made_at,
        expires_at=answer.expires_at, tokens=answer.tokens,
        usd=None if answer.nanousd is None else answer.nanousd / NANOUSD,
        seconds=answer.seconds, uses=answer.uses, used_at=answer.used_at,
    )  # fmt: skip
