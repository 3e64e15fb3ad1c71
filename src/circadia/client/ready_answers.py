"""Client methods for ready answers."""

from circadia.client.connection import ApiConnection
from circadia.schemas.answers import AnswerPage, AnswerStats, AnswerView, DroppedView, TestView


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
    ) -> AnswerPage:
        """Return ready answers, optionally only those for an agent; `after` is for the next page."""
        query = {"agent": agent, "after": after, "limit": str(limit), "user": user}
        return await self._http.fetch(AnswerPage, "GET", "banks", bank, "answers", query=query)

    async def show_answer(self, bank: str, answer: str, *, user: str | None = None) -> AnswerView:
        return await self._http.fetch(AnswerView, "GET", "banks", bank, "answers", answer, query={"user": user})

    async def try_answers(
        self, bank: str, agent: str, question: str, *, end_user: str | None = None, user: str | None = None
    ) -> TestView:
        """Return how a question would be answered, and why; this calls no model and changes nothing."""
        body = {"agent": agent, "question": question, "end_user": end_user}
        return await self._http.fetch(
            TestView, "POST", "banks", bank, "answers", "test", body=body, query={"user": user}
        )

    async def answer_stats(self, bank: str, *, days: int = 14, user: str | None = None) -> AnswerStats:
        """Return how often ready answers were used, right and wasted."""
        return await self._http.fetch(
            AnswerStats, "GET", "banks", bank, "answers", "stats", query={"days": str(days), "user": user}
        )

    async def drop_answer(self, bank: str, answer: str, *, user: str | None = None) -> None:
        await self._http.call("DELETE", "banks", bank, "answers", answer, query={"user": user})

    async def drop_answers(self, bank: str, *, agent: str | None = None, user: str | None = None) -> DroppedView:
        """Drop all ready answers of a bank, or those of one agent."""
        return await self._http.fetch(
            DroppedView, "DELETE", "banks", bank, "answers", query={"agent": agent, "user": user}
        )
