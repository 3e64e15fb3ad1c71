"""Client methods for ready answers, and their typed answers."""

from typing import TypedDict

from circadia.client.connection import ApiConnection


class ReadyAnswerAnswer(TypedDict):
    id: str
    agent: str
    end_user: str | None
    frame: str
    question: str
    phrasings: list[str]
    confidence: float
    text: str
    reasoning: str
    stands: bool
    why_not: str
    blocks: dict[str, int]
    notes: list[int]
    episodes: list[int]
    pass_id: str | None
    made_at: str
    expires_at: str
    tokens: int
    usd: float | None
    seconds: float
    uses: int
    used_at: str | None


class AnswerPageAnswer(TypedDict):
    bank: str
    answers: list[ReadyAnswerAnswer]
    after: str | None


class TestedMatchAnswer(TypedDict):
    answer: str
    phrasing: str
    kind: str
    outcome: str
    similarity: float
    why: str


class TestedAnswer(TypedDict):
    bank: str
    agent: str
    mode: str
    trusted: bool
    outcome: str
    judge: str | None
    judge_confidence: float | None
    answer: ReadyAnswerAnswer | None
    steps: list[str]
    matches: list[TestedMatchAnswer]
    frames: int


class AnswerDayAnswer(TypedDict):
    day: str
    served: int
    hints: int
    misses: int
    made: int
    used: int
    wasted: int
    wasted_tokens: int
    right: int
    wrong: int


class JudgeUsageAnswer(TypedDict):
    """Use of the judge by an agent's recent lookups on this server."""

    agent: str
    lookups: int
    waits: int
    bar: float
    breaker_open: bool


class AnswerStatsAnswer(TypedDict):
    bank: str
    live: int
    hit_rate: float | None
    hint_rate: float | None
    precision: float | None
    samples: int
    used_share: float | None
    wasted_tokens: int
    judge: list[JudgeUsageAnswer]
    days: list[AnswerDayAnswer]


class DroppedAnswer(TypedDict):
    bank: str
    dropped: int


class AnswerCalls:
    """One method per endpoint of ready answers. Banks are given as in the memory methods."""

    _http: ApiConnection

    async def list_answers(
        self,
        bank: str,
        *,
        agent: str | None = None,
        after: str | None = None,
        limit: int = 100,
        user: str | None = None,
    ) -> AnswerPageAnswer:
        """Return ready answers, optionally only those for an agent; `after` is for the next page."""
        query = {"agent": agent, "after": after, "limit": str(limit), "user": user}
        return await self._http.call("GET", "banks", bank, "answers", query=query)

    async def show_answer(self, bank: str, answer: str, *, user: str | None = None) -> ReadyAnswerAnswer:
        return await self._http.call("GET", "banks", bank, "answers", answer, query={"user": user})

    async def try_answers(
        self, bank: str, agent: str, question: str, *, end_user: str | None = None, user: str | None = None
    ) -> TestedAnswer:
        """Return how a question would be answered, and why; this calls no model and changes nothing."""
        body = {"agent": agent, "question": question, "end_user": end_user}
        return await self._http.call("POST", "banks", bank, "answers", "test", body=body, query={"user": user})

    async def answer_stats(self, bank: str, *, days: int = 14, user: str | None = None) -> AnswerStatsAnswer:
        """Return how often ready answers were used, right and wasted."""
        return await self._http.call(
            "GET", "banks", bank, "answers", "stats", query={"days": str(days), "user": user}
        )  # fmt: skip

    async def drop_answer(self, bank: str, answer: str, *, user: str | None = None) -> None:
        await self._http.call("DELETE", "banks", bank, "answers", answer, query={"user": user})

    async def drop_answers(self, bank: str, *, agent: str | None = None, user: str | None = None) -> DroppedAnswer:
        """Drop all ready answers of a bank, or those of one agent."""
        return await self._http.call("DELETE", "banks", bank, "answers", query={"agent": agent, "user": user})
