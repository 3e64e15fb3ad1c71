"""Precompute: answers expected questions ahead, as the agents themselves would (ANS-01, SLEEP-28).

It runs at the end of a pass, once everything is published: it drops invalid answers, judges some uses, and answers the
likeliest questions of each recently asked agent. It proposes nothing and needs no undo: an answer is valid for one
state of its bank only, and is never found in another.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

from circadia.answers.cleanup import clean_up
from circadia.errors import UpstreamFailed
from circadia.llm.chat_model import ModelAnswerError
from circadia.records.agent import Agent
from circadia.records.answer import AnswerDay, AnswerFrame
from circadia.records.bank import Bank
from circadia.records.change import Change
from circadia.records.sleep_pass import Trigger
from circadia.settings.answers import AnswersSettings
from circadia.sleeptime.answers.answer_maker import AnswerMaker
from circadia.sleeptime.answers.answer_run import AnswerRun, fetch_recently_asked_agents
from circadia.sleeptime.answers.sampling import AnswerSampler
from circadia.sleeptime.budget.model_calls import OverBudget, PassPreempted
from circadia.sleeptime.proposals.operation import ModelQueryFunction, PageContext, PassContext, Step

WINDOW: Final = timedelta(days=7)
"""Older outcomes of answers say nothing about the next ones."""
MIN_KNOWN_OUTCOMES: Final = 10
"""Answers whose use is known before fewer are made."""


def count_affordable_questions(settings: AnswersSettings, days: Sequence[AnswerDay]) -> int:
    """Return how many questions to answer ahead for an agent, from the counts of the window; at least 1.

    A used answer was useful, one that was dropped unused was waste, and a waiting one is neither. With 1 the use is
    still measured, and the number can rise again.
    """
    used, wasted = sum(day.used for day in days), sum(day.wasted for day in days)
    if not settings.useful_share or used + wasted < MIN_KNOWN_OUTCOMES:
        return settings.questions
    share = used / (used + wasted) / settings.useful_share
    return max(1, min(settings.questions, round(settings.questions * share)))


_logger = logging.getLogger(__name__)


class Precompute:
    name = "precompute"
    asks = True

    def plan(self, view: PageContext) -> Sequence[Step]:
        return []

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        return []

    async def close(self, bank: Bank, context: PassContext) -> Mapping[str, int]:
        """Work until a call waits or the budget is spent; the rest waits for another pass."""
        answer_services, sleep_pass = context.answer_services, context.run
        if answer_services is None or sleep_pass is None:
            return {}
        if sleep_pass.trigger is Trigger.NEEDED and self.name not in sleep_pass.operations:
            return {}  # a call waits for this pass, but not for ready answers
        counts: Counter[str] = Counter()
        with suppress(PassPreempted):
            try:
                counts["answers_dropped"] = await clean_up(bank, context.store, answer_services, context.yield_to_calls)
                if context.ask is not None:
                    run = AnswerRun(
                        bank=bank, context=context, answer_services=answer_services, ask=context.ask,
                        sleep_pass=sleep_pass,
                    )  # fmt: skip
                    await _make_answers(run, counts)
            except (OverBudget, ModelAnswerError, UpstreamFailed) as error:
                _logger.info("bank %r gets no more ready answers for now: %s", bank.name, error)
        return {name: number for name, number in counts.items() if number}


async def _make_answers(run: AnswerRun, counts: Counter[str]) -> None:
    """Judge some uses, answer expected questions, and count both even if it ends early."""
    sampling, making = AnswerSampler(run), AnswerMaker(run)
    try:
        agents = await _fetch_agents(run)
        await sampling.judge()
        settings = run.answer_services.settings
        max_questions = count_affordable_questions(settings, await _fetch_days(run)) if agents else 0
        for agent, frames in agents:
            await making.answer_for_agent(agent, frames, max_questions)
    finally:
        counts.update(answers=making.made, answers_judged=sampling.done)


async def _fetch_agents(run: AnswerRun) -> Sequence[tuple[Agent, Sequence[AnswerFrame]]]:
    async with run.context.store.begin_read() as tx:
        bank = await tx.banks.get(run.bank.id)
        now = run.answer_services.clock.now()
        if bank is None:
            return ()
        is_requested = run.sleep_pass.trigger in (Trigger.HAND, Trigger.NEEDED)
        return await fetch_recently_asked_agents(tx, bank, run.answer_services.drafter, now, is_requested=is_requested)


async def _fetch_days(run: AnswerRun) -> Sequence[AnswerDay]:
    since = (run.answer_services.clock.now() - WINDOW).date()
    async with run.context.store.begin_read() as tx:
        return await tx.answer_uses.find_days(run.bank.id, since=since)
