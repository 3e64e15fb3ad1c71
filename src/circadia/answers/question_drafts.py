"""The interface to the gateway for answering ahead: it knows an agent's provider, model, prompt and tools."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from pydantic import BaseModel

from circadia.answers.services import AnswerValidator
from circadia.clock import Clock
from circadia.ids import IdSource
from circadia.llm.chat_model import ChatModel, Prompt
from circadia.records.agent import Agent
from circadia.records.answer import AnswerBasis, AnswerFrame
from circadia.records.bank import Bank
from circadia.settings.answers import AnswersSettings
from circadia.stores.base import Tx


class AnticipatedAnswer(BaseModel):
    """An agent model's answer to a question that nobody has asked yet."""

    text: str
    reasoning: str = ""
    """Its reasoning, as far as the provider shows it."""
    called: bool = False
    """Whether it called a tool, or refused."""
    cut: bool = False
    """Whether a limit or a filter cut it off."""
    tokens: int = 0
    nanousd: int | None = None
    """Price in billionths of a US dollar; none if it is unknown."""
    seconds: float = 0.0
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionDraft:
    model: ChatModel
    """The agent's model; it answers with `AnticipatedAnswer` only."""
    prompt: Prompt
    """`data` is the body of the call with the bank's context; `rules` hold its address."""
    most_tokens: int
    basis: AnswerBasis
    """What the context rests on, at the time when it was built."""


class QuestionDrafter(Protocol):
    """Builds questions as an agent's own calls would; the gateway implements it, since sleep-time work cannot."""

    async def find_agent(self, tx: Tx, bank: Bank, frame: AnswerFrame) -> Agent | None:
        """Return the frame's agent; none if it is gone, off, or may not reach the bank, provider or model now."""
        ...

    async def draft_question(
        self, bank: Bank, frame: AnswerFrame, question: str, *, known: Collection[str] = ()
    ) -> QuestionDraft | None:
        """Return the question with the bank's context, without turns in `known`; none if `find_agent` returns none."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerServices:
    drafter: QuestionDrafter
    validator: AnswerValidator
    settings: AnswersSettings
    clock: Clock
    ids: IdSource
