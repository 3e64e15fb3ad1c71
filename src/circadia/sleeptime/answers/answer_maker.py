"""Answers expected questions ahead, as the agent's own call would be answered, and stores the valid ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Final

from circadia.answers.cleanup import PAGE, drop_excess_answers, write_if_unchanged
from circadia.answers.question_drafts import AnticipatedAnswer, QuestionDraft
from circadia.ids import AgentId, AnswerId
from circadia.llm.chat_model import ModelAnswerError
from circadia.records.agent import Agent
from circadia.records.answer import Answer, AnswerDay, AnswerFrame
from circadia.records.bank import Bank
from circadia.records.schedule import load_zone
from circadia.sleeptime.answers.answer_run import AnswerRun, is_usable_answer
from circadia.sleeptime.answers.prediction import (
    ExpectedQuestion,
    KeptQuestion,
    QuestionMaterial,
    QuestionVerdict,
    fetch_material,
    judge_questions,
    keep_question,
    predict_questions,
)
from circadia.sleeptime.budget.model_calls import OverBudget, PassPreempted
from circadia.stores.base import Tx
from circadia.wake.scheduling.wall_clock import day_bounds

OLD: Final = timedelta(hours=1)
"""A paid answer that is older is asked for again: the world has moved on, even if the bank has not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _AnsweredQuestion:
    question: ExpectedQuestion
    draft: QuestionDraft
    answer: AnticipatedAnswer


class AnswerMaker:
    """Makes answers for one agent after another; skips an upstream after it failed."""

    def __init__(self, run: AnswerRun) -> None:
        self._run = run
        self._silent: set[str] = set()
        self.made = 0

    async def answer_for_agent(self, agent: Agent, frames: Sequence[AnswerFrame], max_questions: int) -> None:
        """Answer up to so many expected questions of an agent. Raises OverBudget, PassPreempted, ModelAnswerError."""
        left = max_questions
        for at, frame in enumerate(frames):
            share = -(-left // (len(frames) - at))
            if share and frame.upstream not in self._silent:
                left -= await self._answer_in_scope(agent, frame, share)

    async def _answer_in_scope(self, agent: Agent, frame: AnswerFrame, share: int) -> int:
        """Answer the expected questions of one scope; return how many were tried.

        Answers made since the scope's last call count: nobody has asked since, so nothing else is expected.
        """
        run = self._run
        ready = [answer for answer in await self._fetch_live_answers(agent.id) if answer.scope == frame.scope]
        own = sum(answer.pass_id == run.sleep_pass.id for answer in ready)
        before = sum(answer.pass_id != run.sleep_pass.id and answer.made_at >= frame.at for answer in ready)
        if before + own >= share:
            return own
        await run.context.yield_to_calls()
        async with run.context.store.begin_read() as tx:
            material = await fetch_material(
                tx, run.bank, agent, frame.scope, upto=run.sleep_pass.upto, now=run.answer_services.clock.now()
            )
        today = run.sleep_pass.created_at.astimezone(load_zone(agent.coordination.zone)).date()
        expected = await self._predict_questions(agent, material, ready, today)
        answered, tried = list[_AnsweredQuestion](), own
        try:
            for question in expected:
                if tried + before >= share or frame.upstream in self._silent:
                    break
                fresh = await self._drop_ready_phrasings(frame, question, material.conversation)
                if fresh is None:
                    continue
                await run.context.yield_to_calls()
                tried += 1
                if (one := await self._answer_question(frame, fresh)) is not None:
                    answered.append(one)
            verdicts = await self._judge(answered, today)
        except (OverBudget, PassPreempted):  # store what is paid for and needs no verdict
            await self._store_answers(frame, material, answered, {})
            raise
        await self._store_answers(frame, material, answered, verdicts)
        return tried

    async def _judge(self, answered: Sequence["_AnsweredQuestion"], today: date) -> Mapping[int, QuestionVerdict]:
        if not answered:
            return {}
        run, texts = self._run, [(entry.question, entry.answer.text) for entry in answered]
        return await judge_questions(texts, run.ask, mission=run.bank.policy.mission, today=today)

    async def _store_answers(
        self, frame: AnswerFrame, material: QuestionMaterial, answered: Sequence["_AnsweredQuestion"],
        verdicts: Mapping[int, QuestionVerdict],
    ) -> None:  # fmt: skip
        for place, entry in enumerate(answered):
            kept_question = keep_question(entry.question, verdicts.get(place))
            if kept_question is None or (not kept_question.stands_alone and material.conversation is None):
                continue
            conversation = None if kept_question.stands_alone else material.conversation
            self.made += await self._store_answer(frame, kept_question, conversation, entry.draft, entry.answer)

    async def _predict_questions(
        self, agent: Agent, material: QuestionMaterial, ready: Sequence[Answer], today: date
    ) -> Sequence[ExpectedQuestion]:
        """Return the expected questions; none if the model's answer for this scope is unusable."""
        run = self._run
        try:
            return await predict_questions(
                material, agent, ready, run.answer_services, run.ask,
                mission=run.bank.policy.mission, instructions=run.sleep_pass.instructions,
                today=today, own=run.sleep_pass.id,
            )  # fmt: skip
        except ModelAnswerError as error:
            if error.passing:
                raise
            return ()

    async def _fetch_live_answers(self, agent_id: AgentId) -> Sequence[Answer]:
        answers: list[Answer] = []
        while True:
            after = answers[-1].id if answers else None
            async with self._run.context.store.begin_read() as tx:
                page = await tx.answers.find_live(self._run.bank.id, agent_id=agent_id, after=after, limit=PAGE)
            answers += [replace(answer, text="", reasoning="") for answer in page]
            if len(page) < PAGE:
                return answers

    async def _drop_ready_phrasings(
        self, frame: AnswerFrame, question: ExpectedQuestion, conversation: str | None
    ) -> ExpectedQuestion | None:
        """Return the question without answered phrasings; none if its first phrasing is answered."""
        run = self._run
        phrasings: list[str] = []
        async with run.context.store.begin_read() as tx:
            bank = await tx.banks.get(run.bank.id)
            if bank is None:
                return None
            for phrasing in question.phrasings:
                if not await run.answer_services.validator.has_answer(tx, bank, frame.scope, phrasing, conversation):
                    phrasings.append(phrasing)
                elif not phrasings:
                    return None
        return replace(question, phrasings=phrasings)

    async def _answer_question(self, frame: AnswerFrame, question: ExpectedQuestion) -> "_AnsweredQuestion | None":
        run = self._run
        draft = await run.answer_services.drafter.draft_question(run.bank, frame, question.phrasings[0])
        if draft is None:
            return None
        try:
            answered = await self._ask_model(draft)
        except OverBudget as error:
            if not error.alone:
                raise
            return None
        except ModelAnswerError as error:
            if error.passing:
                self._silent.add(frame.upstream)
            return None
        return (
            _AnsweredQuestion(question=question, draft=draft, answer=answered) if is_usable_answer(answered) else None
        )

    async def _ask_model(self, draft: QuestionDraft) -> AnticipatedAnswer:
        run = self._run
        answered = await run.ask(draft.prompt, AnticipatedAnswer, most_tokens=draft.most_tokens, model=draft.model)
        if answered.at > run.sleep_pass.created_at - OLD:
            return answered
        prompt = replace(draft.prompt, rules=f"{draft.prompt.rules}\nfor pass {run.sleep_pass.id}")
        return await run.ask(prompt, AnticipatedAnswer, most_tokens=draft.most_tokens, model=draft.model)

    async def _store_answer(
        self, frame: AnswerFrame, kept: KeptQuestion, conversation: str | None, draft: QuestionDraft,
        answered: AnticipatedAnswer,
    ) -> bool:  # fmt: skip
        """Store the answer if it is still valid and its agent may have it, in one transaction."""
        run, answer_services, question = self._run, self._run.answer_services, kept.question
        answer = Answer(
            id=AnswerId(answer_services.ids.new("ans")), bank_id=run.bank.id, scope=frame.scope,
            phrasings=question.phrasings, confidence=question.confidence, conversation=conversation,
            text=answered.text, reasoning=answered.reasoning, basis=draft.basis,
            read_upto=draft.basis.heads.episodes, pass_id=run.sleep_pass.id, made_at=answered.at,
            expires_at=answered.at + timedelta(hours=answer_services.settings.ttl_hours), tokens=answered.tokens,
            nanousd=answered.nanousd, seconds=answered.seconds,
        )  # fmt: skip
        now = answer_services.clock.now()

        async def find_allowed_answer(tx: Tx, bank: Bank) -> Answer | None:
            agent = await answer_services.drafter.find_agent(tx, bank, frame)
            if agent is None:
                return None
            midnight = day_bounds(agent.coordination.zone, answer.made_at)[1]
            ends = min(answer.expires_at, midnight) if kept.one_day else answer.expires_at
            return None if ends <= now else replace(answer, expires_at=ends)

        async def put(tx: Tx, bank: Bank, answer: Answer) -> bool:
            if not await tx.answers.put([answer]):
                return False
            await tx.answer_uses.add_counts([AnswerDay(bank_id=bank.id, day=now.date(), made=1)])
            await drop_excess_answers(tx, bank.id, answer_services.settings, now)
            return True

        return await write_if_unchanged(
            run.context.store, run.bank.id, answer_services.validator, find_allowed_answer, put, uncertain=True
        )
