"""For whom answers are made ready: the scopes of a bank in which somebody has asked lately."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from circadia.ids import AgentId
from circadia.records.agent import Agent
from circadia.records.answer import AnswerFrame
from circadia.records.bank import Bank
from circadia.sleeptime.proposals.question_drafts import QuestionDrafter
from circadia.stores.base import Tx

LATELY: Final = timedelta(days=3)
"""Who has not asked for so long is not expected to ask next."""
REPLACED: Final = timedelta(days=1)
"""A scope in which so much longer ago was asked than in another of the same person has a prompt that is over."""
SCOPES: Final = 3
"""Scopes of an agent that are looked at, those with the last calls."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentFrames:
    """An agent with its scopes."""

    agent: Agent
    """The agent."""
    frames: Sequence[AnswerFrame]
    """Of its scopes, the one with the most questions first."""


async def fetch_recently_asked_agents(
    tx: Tx, bank: Bank, ahead: QuestionDrafter, now: datetime
) -> Sequence[AgentFrames]:
    """Return the bank's agents whose answers may be made ready, those who were asked last first."""
    agents: dict[AgentId, Agent] = {}
    frames: defaultdict[AgentId, list[AnswerFrame]] = defaultdict(list)
    newest: dict[tuple[AgentId, str], datetime] = {}
    for scope, at in await tx.answers.find_recent_scopes(bank.id):  # the one with the last call first
        last = newest.setdefault((scope.agent_id, scope.end_user), at)
        stale = at <= now - LATELY or at <= last - REPLACED
        if stale or len(frames[scope.agent_id]) == SCOPES:
            continue
        frame = await tx.answers.get_frame(bank.id, scope)
        agent = None if frame is None else await ahead.find_agent(tx, bank, frame)
        if frame is not None and agent is not None:
            agents[scope.agent_id] = agent
            frames[scope.agent_id].append(frame)
    return [
        AgentFrames(agent=agent, frames=sorted(frames[key], key=lambda each: -each.asked))
        for key, agent in agents.items()
    ]
