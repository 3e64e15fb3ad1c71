"""What it costs to keep an answer does not grow with how many are kept (WAKE-85)."""

import time
from datetime import UTC, datetime

import pytest
from starlette.types import Message

from circadia.clock import SystemClock, system_milliseconds
from circadia.gateway.dialects.base import Plain
from circadia.gateway.hold.reply import Reply, Ticker
from circadia.gateway.model_call.answer import ModelReplyFormat
from circadia.gateway.model_call.resume import ResumableAnswers
from circadia.ids import AgentId, RandomIds, SessionId
from circadia.records.agent import Agent, AgentPolicy

EVENT = b'data: {"choices": []}\n\n'
EVENTS = 5
CALLS = 200
ANN = Agent(
    id=AgentId("agt_ann"), session_id=SessionId("ses_1"), session="default", name="ann", token_hash="ann",
    since=datetime(2026, 1, 1, tzinfo=UTC), created_at=datetime(2026, 1, 1, tzinfo=UTC),
    policy=AgentPolicy(resume_seconds=60.0),
)  # fmt: skip
FEW, MANY = 200, 4_000


async def take(answers: ResumableAnswers, calls: int) -> float:
    """Relay calls to callers who read to the end; return the seconds of processor time of one."""

    async def send(_: Message) -> None: ...

    async def work(reply: Reply) -> None:
        await reply.start(200, [(b"content-type", b"text/event-stream")])
        for _ in range(EVENTS):
            await reply.write(EVENT)
        await reply.finish()

    began = time.process_time()
    for _ in range(calls):
        reply = Reply(send, ModelReplyFormat(Plain(), streamed=True), 15.0)
        await answers.open(ANN, None, reply).relay(work(reply))
    return (time.process_time() - began) / calls


@pytest.mark.spec("WAKE-85")
@pytest.mark.parametrize("is_full", [False, True])
async def test_an_answer_costs_the_same_beside_thousands_that_are_kept(is_full: bool) -> None:
    size = EVENTS * len(EVENT)
    clock = SystemClock()
    few, many = (
        ResumableAnswers(
            clock, RandomIds(system_milliseconds), Ticker(clock), count * size if is_full else 10**9, print
        )
        for count in (FEW, MANY)
    )
    await take(few, FEW)
    await take(many, MANY)
    costs = [(await take(few, CALLS), await take(many, CALLS)) for _ in range(3)]
    assert min(late / early for early, late in costs) < 2
    assert many.count == (MANY if is_full else MANY + 3 * CALLS)
