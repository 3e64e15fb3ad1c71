"""The end of a conversation or a pulse makes a pass due over what was said before it."""

from collections.abc import Mapping

import pytest

from circadia.ids import AgentId
from circadia.records.pulse import PulseStatus
from circadia.records.sleep_pass import Trigger
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.stand import Stand
from tests.sleeptime.tier_stand import Tier, reading

LATE_SECONDS = 10.0

PULSE: tuple[str, str, Mapping[str, object]] = ("pulse", "pls_1", {"agent": "agt_1", "status": PulseStatus.SUCCEEDED})
TALK: tuple[str, str, Mapping[str, object]] = ("conversation", "agt_1", {})
ENDS = pytest.mark.parametrize("end", [TALK, PULSE], ids=["conversation", "pulse"])


@pytest.mark.spec("SLEEP-02")
@ENDS
async def test_what_was_said_before_the_end_is_worked_through_at_once_and_what_comes_later_is_not(
    stand: Stand, end: tuple[str, str, Mapping[str, object]]
) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), idle_seconds=86_400)
    await tier.agent(asleep=False)
    worker = tier.worker()
    tier.signals.publish(*end)  # nothing waits, so it makes nothing due, and nothing that is said long after it
    await worker.step()
    stand.clock.advance(LATE_SECONDS)
    await stand.said("a", "b")
    await worker.step()
    assert await tier.passes() == []
    tier.signals.publish(*end)
    await worker.step()
    assert [run.trigger for run in await tier.ended()] == [Trigger.ENDED]
    await stand.said("c", "d")
    stand.clock.advance(11)
    await worker.step()
    assert len(await tier.passes()) == 1, "one pass for one end"


@pytest.mark.spec("SLEEP-02")
@ENDS
async def test_a_server_that_has_never_looked_at_the_bank_hears_the_end_too_and_one_pass_begins(
    stand: Stand, end: tuple[str, str, Mapping[str, object]]
) -> None:
    here, there = (Tier(stand, ScriptedChatModel(reading), idle_seconds=86_400) for _ in range(2))
    await here.agent(asleep=False)
    await stand.said("a", "b")
    workers = there.worker("exe2"), here.worker("exe1")
    here.signals.publish(*end)  # to those who listen in its own process
    for worker in workers:
        await worker.step()
    assert [run.trigger for run in await here.ended()] == [Trigger.ENDED]


@pytest.mark.spec("SLEEP-02")
async def test_an_end_in_the_middle_of_a_reply_counts_once_the_reply_is_there(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), idle_seconds=86_400)
    await tier.agent(asleep=False)
    worker = tier.worker()
    await stand.said("a", "b")
    await worker.step()
    tier.signals.publish("turn", "ann", {"user": None})
    tier.signals.publish(*TALK)
    await worker.step()
    assert await tier.passes() == []
    tier.signals.publish("turn", "ann", {"user": None, "ended": True})
    stand.clock.advance(11)
    await worker.step()
    assert [run.trigger for run in await tier.ended()] == [Trigger.ENDED]


@pytest.mark.spec("SLEEP-02")
@ENDS
async def test_it_can_be_switched_off_and_the_end_of_anothers_talk_is_nothing_to_a_bank(
    stand: Stand, end: tuple[str, str, Mapping[str, object]]
) -> None:
    off = Tier(stand, ScriptedChatModel(reading), idle_seconds=86_400, at_end=False)
    on = Tier(stand, ScriptedChatModel(reading), idle_seconds=86_400)
    await off.agent(asleep=False)
    await stand.said("a", "b")
    workers = off.worker(), on.worker("exe2")
    off.signals.publish(*end)
    on.signals.publish("conversation", AgentId("agt_2"), {})
    for worker in workers:
        await worker.step()
        assert await off.gate() == "not_yet"
    assert await off.passes() == []
