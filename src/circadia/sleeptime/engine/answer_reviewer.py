"""Has newer turns read for the ready answers of quiet banks, so that they can be served again (ANS-20).

It is no pass: neither the schedule nor a waiting call matters, and no call waits for it. A signal names a bank with a
new turn; a look at the rows each minute finds those whose signal was lost.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Final

from circadia.caches import BoundedDict
from circadia.clock import Clock
from circadia.ids import AnswerId, BankId, PassId
from circadia.jobs.loops import run_guarded
from circadia.llm.chat_model import ModelAnswerError
from circadia.memory.embedding.base import MAX_CHARACTERS
from circadia.memory.episodes import TOPIC
from circadia.records.answer import Answer, AnswerMode
from circadia.records.bank import Bank
from circadia.records.episode import Episode
from circadia.records.sleep_pass import Pass, Trigger
from circadia.sleeptime.answers.still_right import MAX_TURNS, TOGETHER, ask_if_still_right, find_turns
from circadia.sleeptime.budget.model_calls import OverBudget, PassModelClient, PassPreempted
from circadia.sleeptime.engine.pass_runner import SleepContext
from circadia.stores.base import Tx

_logger = logging.getLogger(__name__)

QUIET_SECONDS: Final = 10.0
"""Time without a new turn before a bank's answers are reviewed."""
EVERY_SECONDS: Final = 60.0
"""Minimum time between two questions about a bank, and between two looks at the rows."""
TICK_SECONDS: Final = 1.0
AT_ONCE: Final = 8
"""Banks that are reviewed at the same time."""
BANKS: Final = 10_000
"""Banks that are remembered, some hundred bytes each; those of a look at the rows are a tenth."""
CANDIDATES: Final = 200
"""Uncertain answers of an agent, from which the nearest are chosen."""
NEWEST: Final = 20
"""Turns that nearness is measured to."""
OPERATION: Final = "precompute"
"""The operation whose budget and model a review uses."""


@dataclass(kw_only=True, slots=True)
class _BankReview:
    due_at: float = inf
    asked_at: float = -inf
    newest: int = 0
    """The newest turn at the last question."""
    asked: set[AnswerId] = field(default_factory=set[AnswerId])
    """Answers that were asked about up to that turn; the judge may have left some out."""


class AnswerReviewer:
    def __init__(self, clock: Clock, context: SleepContext, *, alone: bool, leads: Callable[[], bool]) -> None:
        """`leads` tells whether this process reviews; one does at a time."""
        self._clock = clock
        self._context = context
        self._alone = alone
        self._leads = leads
        self._banks: BoundedDict[BankId, _BankReview] = BoundedDict(BANKS)
        self._look_at = -inf
        self._after = ""
        context.signals.listen(TOPIC, self._on_new_turn)

    def _on_new_turn(self, key: str, _: Mapping[str, object]) -> None:
        if self._leads():
            self._schedule(BankId(key), QUIET_SECONDS)

    def _schedule(self, bank_id: BankId, seconds: float) -> None:
        self._banks.setdefault(bank_id, _BankReview()).due_at = self._clock.monotonic() + seconds

    async def run(self) -> None:
        """Review banks until cancelled; without a model, or ready answers, return."""
        while self._context.answer_services is not None and self._context.model is not None:
            await self._clock.sleep(TICK_SECONDS)
            if self._leads():
                await run_guarded("the review of ready answers", self.step)

    async def step(self) -> None:
        """Review the banks that are due, some at a time."""
        await self._look()
        now = self._clock.monotonic()
        due = [
            bank_id
            for bank_id, review in self._banks.items()
            if review.due_at <= now and review.asked_at + EVERY_SECONDS <= now
        ]
        async with asyncio.TaskGroup() as reviews:
            for bank_id in due[:AT_ONCE]:
                reviews.create_task(run_guarded("a review of ready answers", partial(self.review, bank_id)))

    async def _look(self) -> None:
        """Schedule banks whose answers are uncertain, though no signal has named them."""
        now = self._clock.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + EVERY_SECONDS
        async with self._context.store.begin_read() as tx:
            page = await tx.answers.find_banks_to_review(
                self._clock.now(), after=BankId(self._after), limit=BANKS // 10
            )
        self._after = page[-1] if len(page) == BANKS // 10 else ""
        for bank_id in page:
            known = self._banks.get(bank_id)
            if known is None or known.due_at == inf:
                self._schedule(bank_id, 0.0)

    async def review(self, bank_id: BankId) -> None:
        """Ask one question about a bank, if some answers of it are uncertain."""
        review = self._banks.setdefault(bank_id, _BankReview())
        review.due_at = inf
        services, model = self._context.answer_services, self._context.model
        if services is None or model is None:
            return
        async with self._context.store.begin_read() as tx:
            bank = await tx.banks.get(bank_id)
            uncertain: Sequence[Answer] = () if bank is None else await self._find_uncertain(tx, bank, review)
            upto = min((answer.read_upto for answer in uncertain), default=0)
            turns = await find_turns(tx, bank_id, upto, self._clock.now()) if uncertain else ()
        if bank is None or not uncertain:
            return
        batch = await self._choose_nearest(uncertain, turns[-NEWEST:])
        review.asked |= {answer.id for answer in batch}
        review.asked_at = self._clock.monotonic()
        try:
            right = await ask_if_still_right(
                self._context.store, bank, batch, services, partial(self._build_client(bank).ask, OPERATION)
            )
            review.asked -= set(right)  # more turns than one question has may be left
        except OverBudget as error:
            review.asked -= {answer.id for answer in batch}  # once there is room, they are asked about
            _logger.info("answers of bank %r stay hints for now: %s", bank.name, error)
        except (ModelAnswerError, PassPreempted) as error:
            _logger.info("answers of bank %r stay hints until something is said: %s", bank.name, error)
        if len(uncertain) > len(batch) or len(turns) == MAX_TURNS:
            self._schedule(bank_id, EVERY_SECONDS)

    async def _find_uncertain(self, tx: Tx, bank: Bank, review: _BankReview) -> Sequence[Answer]:
        """Return the bank's uncertain answers that agents may serve, without those that were asked about."""
        services, policy = self._context.answer_services, self._context.sleeptime.policy(bank)
        paused = (await tx.sleep_states.get(bank.id)).paused_by is not None
        if services is None or paused or not (policy.enabled and policy.is_operation_enabled(OPERATION)):
            return ()
        found = await self._context.retrieval.read_weights(tx, bank, {})
        newest = 0 if found is None else found.newest_turn
        if newest != review.newest:
            review.newest, review.asked = newest, set()
        uncertain: list[Answer] = []
        for agent_id in {recent.scope.agent_id for recent in await tx.answer_frames.find_recent_scopes(bank.id)}:
            agent = await tx.agents.get(agent_id)
            if agent is None or agent.deleted_at is not None or agent.policy.answer_mode is not AnswerMode.SERVE:
                continue
            for answer in await tx.answers.find_live(bank.id, agent_id=agent_id, behind=newest, limit=CANDIDATES):
                is_open = answer.id not in review.asked and answer.expires_at > self._clock.now()
                if is_open and not (await services.validator.validity(tx, bank, answer)).void:
                    uncertain.append(answer)
        return uncertain

    async def _choose_nearest(self, answers: Sequence[Answer], turns: Sequence[Episode]) -> Sequence[Answer]:
        """Return the answers of one end user whose questions are nearest to a new turn, the nearest first."""
        if len(answers) > 1 and self._context.words is not None:
            vector_of = await self._context.words.word_vectors()
            said = [vector_of(turn.text[:MAX_CHARACTERS])[0] for turn in turns]

            def nearness(answer: Answer) -> float:
                vector, _ = vector_of(answer.phrasings[0])
                return max((float(vector @ each) for each in said), default=0.0)

            answers = sorted(answers, key=nearness, reverse=True)
        end_user = answers[0].scope.end_user
        return [answer for answer in answers if answer.scope.end_user == end_user][:TOGETHER]

    def _build_client(self, bank: Bank) -> PassModelClient:
        context, now = self._context, self._clock.now()
        assert context.model is not None
        named = self._context.sleeptime.policy(bank).operations.get(OPERATION)
        model = (
            context.model if named is None or not named.model or context.models is None else context.models(named.model)
        )
        run = Pass(id=PassId(context.ids.new("rev")), bank_id=bank.id, trigger=Trigger.HAND, created_at=now)
        return PassModelClient(
            self._clock, context.ids, context.store, model, run, context.sleeptime.limits(bank, run),
            traces=context.traces, alone=self._alone, bank=bank.name,
        )  # fmt: skip
