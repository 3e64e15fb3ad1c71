"""What each store promises of the frames of ready answers."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from circadia.ids import BankId
from circadia.records.answer import AnswerFrame
from circadia.records.retention import RetentionKind
from circadia.stores.base import Store, Tx
from tests.contract.rows import at, expire
from tests.contract.sleep_rows import banks_of
from tests.contract.test_store_answers import ADA, BOB, frame

FRAMES = 8


async def frames(tx: Tx, bank: BankId) -> Sequence[AnswerFrame | None]:
    """Return the bank's frames, the one with the last call first."""
    return [
        await tx.answer_frames.get_frame(bank, each.scope) for each in await tx.answer_frames.find_recent_scopes(bank)
    ]


@pytest.mark.spec("ANS-06")
async def test_a_frame_is_kept_as_its_last_call_came_and_its_questions_add_up(store: Store) -> None:
    team, other = await banks_of(store, "team", "other")
    later = frame(team, seconds=9, asked=2, body="{}", headers=(), why_not="it is too long")
    async with store.begin_write() as tx:
        await tx.answer_frames.save_frames([])
        await tx.answer_frames.save_frames(
            [frame(team), frame(team, BOB, seconds=5), frame(team, replace(ADA, end_user="eve"))]
        )
        await tx.answer_frames.save_frames([frame(other)])
        await tx.answer_frames.save_frames([later, frame(team, model="\0"), frame(team, headers=(("a", "\udfff"),))])
    async with store.begin_read() as tx:
        assert await frames(tx, other) == [frame(other)]
        assert await frames(tx, team) == [
            replace(later, asked=3), frame(team, BOB, seconds=5), frame(team, replace(ADA, end_user="eve")),
        ]  # fmt: skip
    async with store.begin_write() as tx:
        await expire(tx, at(5), RetentionKind.ANSWER_FRAMES)
    async with store.begin_read() as tx:
        found = await tx.answer_frames.find_recent_scopes(team)
        assert [(each.at, each.asked, each.why_not, each.is_open) for each in found] == [
            (at(9), 3, "it is too long", False), (at(5), 1, "", True),
        ]  # fmt: skip


@pytest.mark.spec("ANS-06")
async def test_of_an_agent_and_end_user_the_frames_of_the_last_calls_are_kept(store: Store) -> None:
    team, other = await banks_of(store, "team", "other")
    made = [frame(team, replace(ADA, frame=f"f{number}"), seconds=number) for number in range(FRAMES + 3)]
    eve = replace(ADA, end_user="eve")
    async with store.begin_write() as tx:
        await tx.answer_frames.save_frames([frame(team, eve), frame(team, BOB), frame(other)])
        await tx.answer_frames.save_frames(made[::-1])
        assert (await frames(tx, team))[:FRAMES] == made[:2:-1]
        assert {each.scope for each in (await tx.answer_frames.find_recent_scopes(team))[FRAMES:]} == {eve, BOB}
    again = replace(made[0], at=at(100))
    same = [frame(team, replace(ADA, frame=f"g{number}"), seconds=50) for number in range(FRAMES)]
    async with store.begin_write() as tx:
        await tx.answer_frames.save_frames([again])
    async with store.begin_read() as tx:
        recent = await tx.answer_frames.find_recent_scopes(team, limit=2)
        assert [(each.scope, each.at) for each in recent] == [(again.scope, at(100)), (made[-1].scope, made[-1].at)]
        found = await tx.answer_frames.find_scopes(team, ADA.agent_id, ADA.end_user)
        assert {each.scope.frame for each in found} == {"f0", *(f"f{number}" for number in range(4, FRAMES + 3))}
        assert [each.scope for each in await tx.answer_frames.find_scopes(team, ADA.agent_id, "eve")] == [eve]
        assert await tx.answer_frames.find_scopes(team, ADA.agent_id, "nobody") == []
        assert [each.scope for each in await tx.answer_frames.find_scopes(other, ADA.agent_id, ADA.end_user)] == [ADA]
        assert await tx.answer_frames.get_frame(team, made[1].scope) is None
        assert await tx.answer_frames.get_frame(other, BOB) is None
    async with store.begin_write() as tx:
        await tx.answer_frames.save_frames(same)
        assert len(await tx.answer_frames.find_scopes(team, ADA.agent_id, ADA.end_user)) == FRAMES
        assert await tx.answer_frames.get_frame(team, again.scope) == again
