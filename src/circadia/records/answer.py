"""An anticipated answer: a question that is expected, answered ahead, valid for one state of what it rests on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum

from circadia.ids import AgentId, AnswerId, BankId, PassId
from circadia.records.ready_view import BankHeads


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerableQuestion:
    """The question of an answer that is ready, as the lookup needs it."""

    id: AnswerId
    """Of the answer."""
    phrasings: Sequence[str]
    """The question in several wordings, the likeliest first."""
    confidence: float
    """How sure the answer is, 0 to 1."""
    conversation: str | None = None
    """The only conversation that may find it, since it does not stand alone; none if any may."""


class AnswerMode(StrEnum):
    """What an agent's calls make of ready answers (ANS-03)."""

    OFF = "off"
    """Nothing, and none are made."""
    HINT = "hint"
    """They stand in the context, marked as possibly of another question."""
    SERVE = "serve"
    """What is sure is the answer itself; the rest are hints."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerScope:
    """Whose question it is, asked how: an answer is never found from another scope (ANS-06)."""

    agent_id: AgentId
    """Who is asked."""
    end_user: str = ""
    """Who asks; empty if the agent's calls name nobody."""
    frame: str
    """Digest of all that a call says beside what was said in it: provider, model, system prompt, tools, settings."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerFrame:
    """A scope as the last call in it came: what a question is put into to be answered ahead."""

    bank_id: BankId
    """Whose memory the call was given."""
    scope: AnswerScope
    """What it is the frame of."""
    upstream: str
    """The provider."""
    target: str
    """Path and query behind the provider's base URL."""
    dialect: str
    """Key of what reads its bodies (`Route.dialect`)."""
    model: str
    """The model."""
    body: str
    """The call without what was said in it: JSON with the operator's messages only, not streamed."""
    headers: Sequence[tuple[str, str]] = ()
    """Those of the call's headers that change an answer, such as `anthropic-beta`; never one with a secret."""
    at: datetime
    """When the last call of it came."""
    asked: int = 1
    """How many questions came in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerBasis:
    """What an answer rests on: the state of its bank as far as the answer depends on it (ANS-04)."""

    blocks: Mapping[str, int] = field(default_factory=dict[str, int])
    """Version of each block of the bank, by label, deleted ones left out."""
    shown: Sequence[str] = ()
    """Labels of those that stood in the prompt."""
    notes: Mapping[int, float] = field(default_factory=dict[int, float])
    """Weight of each note that stood in it, by number."""
    episodes: Mapping[int, float] = field(default_factory=dict[int, float])
    """Weight of each episode that stood in it, by number."""
    heads: BankHeads
    """The greatest numbers of the bank then: what is greater came later."""
    generation: int
    """The bank's `generation` then: it moves when something is forgotten."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A ready answer."""

    id: AnswerId
    """Key."""
    bank_id: BankId
    """Whose memory it was made of."""
    scope: AnswerScope
    """Where it may be found."""
    phrasings: Sequence[str]
    """The question in several wordings, the one that was answered first."""
    confidence: float
    """How likely the question was held to be, 0 to 1."""
    conversation: str | None = None
    """The only conversation that may find it, since the question does not stand alone; none if any may."""
    text: str
    """The answer; empty once it is dropped."""
    reasoning: str = ""
    """What the model said of how it came to it; empty if it said nothing."""
    rests: AnswerBasis
    """What it rests on."""
    settled: BankHeads | None = None
    """The greatest numbers that a judge has looked at since, and found that the answer is still right."""
    pass_id: PassId | None = None
    """The pass that made it."""
    made_at: datetime
    """When."""
    expires_at: datetime
    """From then on it is none, used or not (ANS-05)."""
    tokens: int = 0
    """Input and output tokens that it took to answer."""
    nanousd: int | None = None
    """Their price in billionths of a US dollar; none if it is not known."""
    seconds: float = 0.0
    """How long that took."""
    uses: int = 0
    """How often it was served, or shown as a hint for a question that it answers."""
    used_at: datetime | None = None
    """When that was last."""
    revision: int = 0
    """The bank's count of changes to its answers when this one was last changed, uses aside."""
    dropped: str = ""
    """Why it is none any more, in a word of `DropReason`; empty as long as it is one."""
    dropped_at: datetime | None = None
    """When it was dropped."""


class DropReason(StrEnum):
    """Why an answer is none any more."""

    VOID = "void"
    """Something that it rests on has changed."""
    EXPIRED = "expired"
    """Its time is over."""
    CROWDED = "crowded"
    """Others were used later, and there is no room for all."""
    REPLACED = "replaced"
    """The question was answered anew."""
    WRONG = "wrong"
    """Answered afresh, it was another answer (ANS-07)."""
    BY_HAND = "by_hand"
    """A person dropped it."""
    FORGOTTEN = "forgotten"
    """Something was forgotten that may stand in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerUse:
    """One question that a ready answer was found for: what quality is sampled from."""

    id: str
    """Key; sorts by time."""
    bank_id: BankId
    """Whose memory."""
    answer_id: AnswerId
    """The answer."""
    scope: AnswerScope
    """Whose question."""
    question: str
    """As it was asked."""
    phrasing: str
    """The phrasing that it was taken for."""
    way: str
    """`exact` or `similar`."""
    served: bool
    """Whether the answer was served; else it was shown as a hint, though it was sure enough to be served."""
    at: datetime
    """When."""
    right: bool | None = None
    """Whether the question, answered afresh, has the same answer; none if nobody has looked, or can tell."""
    judged_at: datetime | None = None
    """When somebody looked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerDay:
    """Counts of one bank and day, in which nothing stands that anybody has said."""

    bank_id: BankId
    """Whose memory."""
    day: date
    """The day, in UTC."""
    served: int = 0
    """Calls that were answered."""
    hints: int = 0
    """Calls that were given a hint."""
    misses: int = 0
    """Questions for which nothing was found."""
    made: int = 0
    """Answers that were made."""
    used: int = 0
    """Answers that were used for the first time."""
    wasted: int = 0
    """Answers that were dropped and never used (ANS-08)."""
    wasted_tokens: int = 0
    """What those had taken."""
    right: int = 0
    """Uses that were looked at and found right."""
    wrong: int = 0
    """Uses that were looked at and found wrong."""
