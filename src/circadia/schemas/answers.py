"""Ready answers and their statistics in answers."""

from datetime import datetime

from pydantic import Field

from circadia.records.answer import AnswerMode, LookupOutcome, MatchKind
from circadia.schemas.view import View


class AnswerView(View):
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


class AnswerPage(View):
    """Ready answers of a bank."""

    bank: str = Field(description="Name of the bank.")
    answers: list[AnswerView] = Field(description="Sorted by id, which is by time of creation.")
    after: str | None = Field(description="Value of `after` for the next page; null at the end.")


class TestedMatch(View):
    """An expected question that was compared with the tested one."""

    answer: str = Field(description="Id of the answer.")
    phrasing: str = Field(description="Expected question.")
    kind: MatchKind = Field(description="`exact` if the texts are equal, else `similar`.")
    outcome: LookupOutcome = Field(description="Outcome of this match alone.")
    similarity: float = Field(description="Cosine similarity of both questions; 1 if the texts are equal.")
    why: str = Field(description="Explanation in one line.")


class TestView(View):
    """The expected outcome of a question."""

    bank: str = Field(description="Name of the bank.")
    agent: str = Field(description="Agent that would ask.")
    mode: AnswerMode = Field(description="How the agent's calls use ready answers.")
    trusted: bool = Field(description="Whether enough sampled answers were right to serve any.")
    outcome: LookupOutcome = Field(description="Outcome of the lookup; the mode may turn a hit into a hint.")
    answer: AnswerView | None = Field(description="Answer found.")
    steps: list[str] = Field(description="Explanation of the outcome, one line per step.")
    matches: list[TestedMatch] = Field(description="Compared questions, best match first.")
    frames: int = Field(description="Number of searched frames of the agent.")


class DayView(View):
    """Counts of one day."""

    day: str = Field(description="Day in UTC.", examples=["2026-11-22"])
    served: int = Field(description="Calls served with an answer.")
    hints: int = Field(description="Calls that got a hint.")
    misses: int = Field(description="Questions without a match.")
    made: int = Field(description="Answers prepared.")
    used: int = Field(description="Answers used for the first time.")
    wasted: int = Field(description="Answers dropped without use.")
    wasted_tokens: int = Field(description="Tokens spent on them.")
    right: int = Field(description="Sampled uses that were right.")
    wrong: int = Field(description="Sampled uses that were wrong.")


class JudgeUsageView(View):
    """Use of the judge by an agent's recent lookups on this server."""

    agent: str = Field(description="Agent.", examples=["default:helper"])
    lookups: int = Field(description="Number of recent lookups, up to 100.")
    waits: int = Field(description="Number of them that waited for the judge, up to 10.")
    bar: float = Field(description="Minimum similarity for the next wait.")
    breaker_open: bool = Field(description="Whether the judge pauses for a minute after three timeouts in a row.")


class AnswerStats(View):
    """Statistics on a bank's ready answers."""

    bank: str = Field(description="Name of the bank.")
    live: int = Field(description="Number of valid ready answers.")
    hit_rate: float | None = Field(description="Share of questions served with an answer; null without questions.")
    hint_rate: float | None = Field(description="Share of questions that got a hint; null without questions.")
    precision: float | None = Field(description="Share of sampled uses that were right; null without samples.")
    samples: int = Field(description="Number of checked samples.")
    used_share: float | None = Field(description="Share of prepared answers that were used; null without answers.")
    wasted_tokens: int = Field(description="Tokens spent on unused answers.")
    judge: list[JudgeUsageView] = Field(description="Judge usage by agent; empty without a judge.")
    days: list[DayView] = Field(description="Counts by day.")


class DroppedView(View):
    """The number of dropped answers."""

    bank: str = Field(description="Name of the bank.")
    dropped: int = Field(description="Number of dropped answers.")
