"""What one pass makes and samples answers with, and for which agents and scopes: those with recent calls."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from circadia.answers.question_drafts import AnswerServices, AnticipatedAnswer, QuestionDrafter
from circadia.ids import AgentId
from circadia.records.agent import Agent
from circadia.records.answer import AnswerFrame
from circadia.records.bank import Bank
from circadia.records.sleep_pass import Pass
from circadia.sleeptime.proposals.operation import AskAnyModel, PassContext
from circadia.stores.base import Tx

LATELY: Final = timedelta(days=3)
"""A scope without a call for this long expects none."""
REPLACED: Final = timedelta(days=1)
"""A scope this much older than the newest of the same person has a replaced prompt."""
UNUSED: Final = timedelta(days=14)
"""Time without a use of an answer after which an agent gets none for an end user (SLEEP-86)."""
SCOPES: Final = 3
"""Scopes of an agent to use, those with the newest calls."""


async def fetch_recently_asked_agents(
    tx: Tx, bank: Bank, drafter: QuestionDrafter, now: datetime, *, is_requested: bool = False
) -> Sequence[tuple[Agent, Sequence[AnswerFrame]]]:
    """Return the bank's agents that answers are made for, the most recently asked first, with their frames.

    The frame of the scope with the most questions comes first. Without `is_requested`, end users are left out who have
    long used no answer.
    """
    agents: dict[AgentId, Agent] = {}
    frames: defaultdict[AgentId, list[AnswerFrame]] = defaultdict(list)
    newest: dict[tuple[AgentId, str], datetime] = {}
    for recent in await tx.answer_frames.find_recent_scopes(bank.id):  # newest call first
        scope, at = recent.scope, recent.at
        if not recent.is_open:
            continue
        last = newest.setdefault((scope.agent_id, scope.end_user), at)
        stale = at <= now - LATELY or at <= last - REPLACED
        if not (stale or is_requested):
            first, used = await tx.answers.fetch_use_span(bank.id, scope.agent_id, scope.end_user)
            stale = first is not None and max(first, used or first) <= now - UNUSED
        if stale or len(frames[scope.agent_id]) == SCOPES:
            continue
        frame = await tx.answer_frames.get_frame(bank.id, scope)
        agent = None if frame is None else await drafter.find_agent(tx, bank, frame)
        if frame is not None and agent is not None:
            agents[scope.agent_id] = agent
            frames[scope.agent_id].append(frame)
    return [(agent, sorted(frames[key], key=lambda frame: -frame.asked)) for key, agent in agents.items()]


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerRun:
    bank: Bank
    context: PassContext
    answer_services: AnswerServices
    ask: AskAnyModel
    sleep_pass: Pass


def is_usable_answer(answered: AnticipatedAnswer) -> bool:
    """Return whether it is a complete answer in words: no tool call, no refusal by the provider."""
    return not (answered.called or answered.cut) and bool(answered.text.strip())
