"""Room for kept answers: who is read keeps his, and the oldest that nobody reads goes first (WAKE-85)."""

from contextlib import aclosing

import pytest
from starlette.types import Message

from circadia.errors import NotFound
from circadia.gateway.dialects.base import Plain
from circadia.gateway.hold.reply import Reply, Ticker
from circadia.gateway.model_call.answer import ModelReplyFormat
from circadia.gateway.model_call.resume import ResumableAnswers
from circadia.ids import RandomIds
from circadia.records.principal import Principal
from circadia.testing.clock import ManualClock
from tests.contract.rows import agent

ADA = agent("ada")
EVENT = b"data: %s\n\n" % (b"x" * 90)


async def drop_message(_: Message) -> None:
    """Take a message as a caller who reads fast."""


def ignore(*_: object) -> None:
    """Record nothing."""


async def keep(answers: ResumableAnswers, events: int) -> str:
    """Let an answer of so many events of 98 bytes pass, and return its id."""
    reply = Reply(drop_message, ModelReplyFormat(Plain(), streamed=True), 1.0)
    answer = answers.open(ADA, None, reply)

    async def write() -> None:
        await reply.start(200, [(b"content-type", b"text/event-stream")])
        for _ in range(events):
            await reply.write(EVENT)
        await reply.finish()

    await answer.relay(write())
    return answer.id


@pytest.mark.spec("WAKE-85")
async def test_an_answer_that_is_read_is_not_dropped_for_another_one() -> None:
    clock = ManualClock()
    answers = ResumableAnswers(clock, RandomIds(lambda: 0), Ticker(clock), 1_000, ignore)
    me = Principal(agent=ADA)
    old, newer = await keep(answers, 4), await keep(answers, 4)
    async with aclosing(answers.find(me, old, 0).read(0, 1.0)) as events:
        assert await anext(events) == EVENT
        last = await keep(answers, 4)
        assert [each async for each in events] == [EVENT] * 3
    with pytest.raises(NotFound):
        answers.find(me, newer, 0)
    assert answers.bytes == 8 * len(EVENT)
    assert answers.find(me, last, 0).bytes == 4 * len(EVENT)
    large = await keep(answers, 11)
    with pytest.raises(NotFound):
        answers.find(me, large, 0)
    assert (answers.count, answers.bytes) == (0, 0)
