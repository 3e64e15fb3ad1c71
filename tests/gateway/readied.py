"""An agent that serves, and answers that are ready for it, for the tests of ready answers at the gateway."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from circadia.answers.freshness import fetch_bank_state, fetch_layers
from circadia.clock import SystemClock, system_milliseconds
from circadia.ids import AnswerId, RandomIds
from circadia.records.answer import Answer, AnswerBasis, AnswerFrame, AnswerUse
from circadia.records.bank import Bank
from circadia.records.sleep_call import Benefit
from tests.gateway.bound_agent import CHAT, MESSAGES, RESPONSES, BoundAgentServer, asking, bound

ASKED = "What does Ann like to drink in the morning?"
SAID = "Green tea, and never with milk."
OTHER = "Which tools hang in the shed?"
"""What nobody has an answer to."""
_TIER = {"sleeptime": {"enabled": False, "model": {"upstream": "openai", "name": "mind-1"}}}


@dataclass(frozen=True, kw_only=True)
class CallResult:
    """What a caller got."""

    status: int
    outcome: str | None
    answer_id: str | None
    kind: str
    body: bytes


@dataclass
class ReadyAnswerServer(BoundAgentServer):
    """A server with an agent that may have ready answers, and with a judge who finds each right after each call."""

    judges: bool = True

    async def ask(
        self, body: object, *, path: str = CHAT, headers: Mapping[str, str] | None = None, token: str | None = None,
        waits: bool = True,
    ) -> CallResult:  # fmt: skip
        """Make a call, and let all be written that is written behind it unless nobody `waits` for that."""
        upstream = "anthropic" if path == MESSAGES else "openai"
        async with self.at.call(token or self.token, path, body, upstream=upstream, headers=headers) as response:
            told = response.headers
            got = CallResult(
                status=response.status, outcome=told.get("x-circadia-answer"), kind=response.content_type,
                answer_id=told.get("x-circadia-answer-id"), body=await response.read(),
            )  # fmt: skip
        if waits:
            await self.at.server.exchanges.flush()
            if self.judges:
                await self.read()
        return got

    async def frame(
        self, body: Mapping[str, Any], *, path: str = CHAT, headers: Mapping[str, str] | None = None,
        token: str | None = None,
    ) -> AnswerFrame:  # fmt: skip
        """Ask it, so that its frame is seen; return that."""
        await self.ask(body, path=path, headers=headers, token=token)
        await self.at.server.answers.flush()
        async with self.store.begin_read() as tx:
            bank = await self.held()
            found = await tx.answer_frames.get_frame(
                bank.id, (await tx.answer_frames.find_recent_scopes(bank.id))[0].scope
            )
            assert found is not None
            return found

    async def held(self, name: str = "memory") -> Bank:
        bank = await self.bank(name)
        assert bank is not None
        return bank

    async def put(
        self, frame: AnswerFrame, question: str = ASKED, text: str = SAID, *, reasoning: str = "",
        more: Sequence[str] = (), confidence: float = 0.9, shown: Mapping[str, Mapping[int, float]] | None = None,
        others: Sequence[str] = (),
    ) -> Answer:  # fmt: skip
        """Make an answer ready that rests on the bank as it is now, and on weights of what was `shown`, by layer.

        It was made when the `others` of the agent's banks were as they are now.
        """
        now = SystemClock().now()
        async with self.store.begin_write() as tx:
            bank = await tx.banks.get(frame.bank_id)
            assert bank is not None
            blocks = {each.label: each.version for each in await tx.blocks.find_all(bank.id)}
            heads = (await fetch_bank_state(tx, bank)).heads
            new = Answer(
                id=AnswerId(RandomIds(system_milliseconds).new("ans")), bank_id=bank.id, scope=frame.scope,
                phrasings=[question, *more], confidence=confidence, text=text, reasoning=reasoning, made_at=now,
                basis=AnswerBasis(
                    blocks=blocks, shown=list(blocks), heads=heads, generation=bank.generation,
                    layers=await fetch_layers(tx, [await self.held(name) for name in others]), **(shown or {}),
                ),
                read_upto=heads.episodes, expires_at=now + timedelta(days=1), tokens=120, nanousd=5_000, seconds=1.5,
            )  # fmt: skip
            assert await tx.answers.put([new]) == [new.id]
        # It waits until all is loaded that takes longer than a call waits.
        asked = {"agent": "ann", "question": question, "end_user": frame.scope.end_user or None}
        status, told = await self.at.rest("POST", f"/banks/{bank.name}/answers/test", asked)
        assert (status, told["outcome"]) == (200, "hit"), told
        return new

    async def read(self) -> None:
        """Have a judge who finds every answer right read all that was said."""
        bank = await self.bank("memory")
        if bank is None or not bank.answers:
            return
        async with self.store.begin_write() as tx:
            live = await tx.answers.find_live(bank.id)
            heads = (await fetch_bank_state(tx, bank)).heads
            await tx.answers.mark_still_right(bank.id, [each.id for each in live], heads.episodes)

    async def uses(self) -> Sequence[AnswerUse]:
        await self.at.server.answers.flush()
        async with self.store.begin_read() as tx:
            return (await tx.answer_uses.find_uses((await self.held()).id))[::-1]

    async def counts(self) -> tuple[int, int, int, int]:
        """Return how many were served, hinted, missed and used for the first time."""
        await self.at.server.answers.flush()
        bank = await self.held()
        async with self.store.begin_read() as tx:
            days = await tx.answer_uses.find_days(bank.id, since=bank.created_at.date())
        return tuple(  # pyright: ignore[reportReturnType]
            sum(getattr(day, name) for day in days) for name in ("served", "hints", "misses", "used")
        )

    async def saved(self) -> Sequence[Benefit]:
        await self.at.server.answers.flush()
        bank = await self.held()
        async with self.store.begin_read() as tx:
            return await tx.benefits.find_all(bank.id, since=bank.created_at.date())

    @property
    def sends(self) -> int:
        """Return how many calls went upstream so far."""
        return len(self.at.upstream.requests)


@asynccontextmanager
async def readied(
    folder: Path,
    *,
    block: str = "Ann likes tea.",
    answer_mode: str = "serve",
    sections: Mapping[str, Any] | None = None,
    **more: Any,
) -> AsyncGenerator[ReadyAnswerServer]:
    """Run a server with an agent `ann` that serves, unless the policy says otherwise, and a bank with a block.

    There is a model for passes, and there are no passes.
    """
    async with bound(folder, answer_mode=answer_mode, sections={**_TIER, **(sections or {})}, **more) as ann:
        at = ReadyAnswerServer(ann.at, ann.token, ann.store)
        await at.make(block=block)
        yield at


def question(text: str = ASKED, *, path: str = CHAT, stream: bool = False, **more: object) -> dict[str, Any]:
    """Return a request of the path's API to which a ready answer may be the answer."""
    kept = {"store": False} if path == RESPONSES else {}
    return {**asking(path, text, stream=stream), **kept, **more}
