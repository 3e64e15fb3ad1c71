"""Answering ahead: what a pass asks of whoever knows an agent's provider, model, prompt and tools."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from pydantic import BaseModel

from circadia.answers.lookup import AnswerLookup
from circadia.clock import Clock
from circadia.ids import IdSource
from circadia.llm.chat_model import ChatModel, Prompt
from circadia.records.agent import Agent
from circadia.records.answer import AnswerBasis, AnswerFrame
from circadia.records.bank import Bank
from circadia.settings.answers import AnswersSettings
from circadia.stores.base import Tx


class AnticipatedAnswer(BaseModel):
    """What an agent's model says to a question that nobody has asked yet."""

    text: str
    """Its words."""
    reasoning: str = ""
    """What it told of how it came to them."""
    called: bool = False
    """Whether it called a tool, or refused."""
    cut: bool = False
    """Whether a limit or a filter cut it off."""
    tokens: int = 0
    """Input and output tokens that it took."""
    nanousd: int | None = None
    """Their price in billionths of a US dollar; none if it is not known."""
    seconds: float = 0.0
    """How long it took."""
    at: datetime
    """When."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionDraft:
    """A question as it would go to an agent's model now."""

    mind: ChatModel
    """The agent's model; it answers with `AnticipatedAnswer` only."""
    prompt: Prompt
    """`data` is the body of the call, with the bank's context; `rules` tell where it goes."""
    most_tokens: int
    """What it may write at most."""
    rests: AnswerBasis
    """What of the bank the context rests on, as it was when it was built."""


class QuestionDrafter(Protocol):
    """Puts questions as an agent's own calls would: the gateway does, which sleep-time work knows nothing of."""

    async def find_agent(self, tx: Tx, bank: Bank, frame: AnswerFrame) -> Agent | None:
        """Return whose frame it is; none if the agent is gone, off, or may not reach bank, provider or model now."""
        ...

    async def draft_question(
        self, bank: Bank, frame: AnswerFrame, question: str, *, known: Collection[str] = ()
    ) -> QuestionDraft | None:
        """Return the question in the frame with what the bank says to it; none where `agent` is none.

        Turns with a text of `known` are left out of what it says.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerServices:
    """What answers are made ready with."""

    ahead: QuestionDrafter
    """Puts questions."""
    lookup: AnswerLookup
    """Finds what is ready, and tells whether it still stands."""
    settings: AnswersSettings
    """How many, and for how long."""
    clock: Clock
    """Time."""
    ids: IdSource
    """Ids of answers."""
