"""Samples uses of ready answers and answers them afresh, to measure how many were right (ANS-07).

A hash of ids selects the uses, so a repeated pass takes the same. Each sample costs a call of the agent's model, and
mostly one of the tier's. A failed sample gets no verdict and is not repeated, so that it is paid for once.
"""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from pydantic import BaseModel, Field

from circadia.answers.cleanup import drop_ready_answers, write_if_unchanged
from circadia.answers.question_drafts import AnticipatedAnswer
from circadia.characters import visible_text
from circadia.llm.chat_model import ModelAnswerError
from circadia.memory.redaction import redact
from circadia.records.answer import Answer, AnswerDay, AnswerFrame, AnswerUse, DropReason, MatchKind
from circadia.records.bank import Bank
from circadia.settings.answers import AnswersSettings
from circadia.sleeptime.answers.answer_run import AnswerRun, is_usable_answer
from circadia.sleeptime.answers.still_right import ask_if_still_right
from circadia.sleeptime.budget.model_calls import OverBudget
from circadia.sleeptime.proposals.prompts import build_file_prompt
from circadia.stores.base import Tx

MAX_SAMPLES: Final = 5
"""Uses sampled by one pass."""
CANDIDATE_USES: Final = 200
"""Newest uses to sample from."""
LONGEST: Final = 6_000
"""Characters of an answer that the tier's model compares; a longer one gets no verdict."""
_HASH_RANGE: Final = 2**64
_IN_FIGURES: Final = "-+.,%$€£/:"


class SameAnswerVerdict(BaseModel):
    why: str = ""
    same: bool
    answered: bool = Field(True, description="Whether the second answer answers the question at all.")


def choose_samples(
    uses: Sequence[AnswerUse], judged: Sequence[AnswerUse], settings: AnswersSettings
) -> Sequence[AnswerUse]:
    """Return the unjudged uses to sample: the newest, one per answer.

    While too few uses were `judged` to measure anything, at least one is taken.
    """
    if not settings.sample_share:
        return ()
    sampled = [use for use in uses if _hash(use) < settings.sample_share * _HASH_RANGE]
    if not sampled and len(judged) < settings.least_samples:
        sampled = sorted(uses, key=_hash)[:1]
    newest: dict[str, AnswerUse] = {}
    for use in sorted(sampled, key=lambda use: (use.at, use.id), reverse=True):
        newest.setdefault(use.answer_id, use)
    return list(newest.values())[:MAX_SAMPLES]


class AnswerSampler:
    def __init__(self, run: AnswerRun) -> None:
        self._run = run
        self._silent = False
        self.done = 0

    async def judge(self) -> None:
        """Sample some uses; `done` counts those that got a verdict. Raises OverBudget, PassPreempted."""
        run = self._run
        async with run.context.store.begin_read() as tx:
            scopes = {recent_scope.scope for recent_scope in await tx.answer_frames.find_recent_scopes(run.bank.id)}
            waiting = await tx.answer_uses.find_uses(run.bank.id, judged=False, limit=CANDIDATE_USES)
            settings = run.answer_services.settings
            judged = await tx.answer_uses.find_uses(run.bank.id, judged=True, limit=settings.least_samples)
            live: list[AnswerUse] = []
            for use in waiting:
                await run.context.yield_to_calls()
                if use.scope in scopes and await self._fetch_valid_answer(tx, use, uncertain=True) is not None:
                    live.append(use)
        samples = choose_samples(live, judged, settings)
        await self._read_turns(samples)
        for use in samples:
            await run.context.yield_to_calls()
            self.done += await self._judge_use(use)
            if self._silent:
                break

    async def _read_turns(self, samples: Sequence[AnswerUse]) -> None:
        """Have newer turns read for the answers of these uses: what they have changed says nothing about a use."""
        run = self._run
        async with run.context.store.begin_read() as tx:
            answers = [await self._fetch_valid_answer(tx, use, uncertain=True) for use in samples]
        found = [answer for answer in answers if answer is not None]
        if not found:
            return
        with suppress(ModelAnswerError):
            await ask_if_still_right(run.context.store, run.bank, found, run.answer_services, run.ask)

    async def _fetch_answer(self, tx: Tx, use: AnswerUse) -> Answer | None:
        answer = await tx.answers.get(self._run.bank.id, use.answer_id)
        return answer if answer is not None and not answer.dropped and use.phrasing in answer.phrasings else None

    async def _fetch_valid_answer(self, tx: Tx, use: AnswerUse, *, uncertain: bool = False) -> Answer | None:
        """Return the answer of a use if it is still valid, and certain unless `uncertain` allows it not to be."""
        bank, answer = await tx.banks.get(self._run.bank.id), await self._fetch_answer(tx, use)
        if bank is None or answer is None:
            return None
        validity = await self._run.answer_services.validator.validity(tx, bank, answer)
        return None if validity.void or (validity.newer and not uncertain) else answer

    async def _judge_use(self, use: AnswerUse) -> bool:
        """Answer one use's question afresh and compare; return whether it got a verdict.

        A use without a verdict is not sampled again: it would cost again, and keep others from being sampled.
        """
        run, right = self._run, None
        async with run.context.store.begin_read() as tx:
            answer = await self._fetch_valid_answer(tx, use)
            frame = await tx.answer_frames.get_frame(run.bank.id, use.scope)
        if answer is None or frame is None:
            return False
        try:
            right = await self._is_right(use, frame, answer)
        except OverBudget as error:
            if not error.alone:
                raise
        except ModelAnswerError as error:
            self._silent = error.passing  # the others would fail as well
        return await self._write_verdict(use, right) and right is not None

    async def _is_right(self, use: AnswerUse, frame: AnswerFrame, answer: Answer) -> bool | None:
        """Return whether the question gets this answer, or none. Raises OverBudget, PassPreempted, ModelAnswerError."""
        run = self._run
        draft = await run.answer_services.drafter.draft_question(run.bank, frame, use.question, known=(answer.text,))
        if draft is None:
            return None
        prompt = replace(draft.prompt, rules=f"{draft.prompt.rules}\nafresh for {use.id}")
        fresh = await run.ask(prompt, AnticipatedAnswer, most_tokens=draft.most_tokens, model=draft.model)
        if not is_usable_answer(fresh):
            return None
        if _plain(fresh.text) == _plain(answer.text):
            return True
        if max(len(fresh.text), len(answer.text)) > LONGEST:
            return None
        texts = {"Question": use.question, "First answer": answer.text, "Second answer": fresh.text}
        data = "\n\n".join(f"## {head}\n{_quote_lines(text)}" for head, text in texts.items())
        alike = await run.ask(
            build_file_prompt("compare", data, mission=run.bank.policy.mission, today=run.sleep_pass.created_at),
            SameAnswerVerdict,
            most_tokens=160,
        )
        return alike.same if alike.answered else None

    async def _write_verdict(self, use: AnswerUse, right: bool | None) -> bool:
        """Save the verdict; if it is wrong, remove the phrasing if only that was wrong, else the answer."""
        now = self._run.answer_services.clock.now()

        async def write(tx: Tx, bank: Bank, answer: Answer) -> bool:
            await tx.answer_uses.save_judgment(bank.id, use.id, right=right, at=now)
            if right is None:
                return True
            await tx.answer_uses.add_counts(
                [AnswerDay(bank_id=bank.id, day=now.date(), right=int(right), wrong=int(not right))]
            )
            if not right and use.match_kind is MatchKind.EXACT and use.phrasing != answer.phrasings[0]:
                kept_phrasings = [phrasing for phrasing in answer.phrasings if phrasing != use.phrasing]
                await tx.answers.save_phrasings(bank.id, answer.id, kept_phrasings)
            elif not right:
                await drop_ready_answers(tx, bank.id, [answer.id], DropReason.WRONG, now)
            return True

        store, bank_id, validator = self._run.context.store, self._run.bank.id, self._run.answer_services.validator
        return await write_if_unchanged(store, bank_id, validator, lambda tx, _: self._fetch_answer(tx, use), write)


def _hash(use: AnswerUse) -> int:
    return int.from_bytes(hashlib.sha256(use.id.encode()).digest()[:8], "big")


def _plain(text: str) -> str:
    """Return the words and figures of a text, casefolded, without the marks around them."""
    spaced = "".join(letter if letter.isalnum() or letter in _IN_FIGURES else " " for letter in text.casefold())
    return " ".join(word for token in spaced.split() if (word := token.lstrip(".,:/").rstrip(".,:/-")))


def _quote_lines(text: str) -> str:
    """Return a text with each line quoted, so that none looks like a heading."""
    return "\n".join(f"| {line}" for line in visible_text(redact(text)).split("\n"))
