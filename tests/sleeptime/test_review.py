"""A pass under review proposes each change once, however often it looks at what has not changed yet."""

from collections import Counter
from typing import Any

import pytest
from pydantic import BaseModel

from circadia.llm.chat_model import Prompt
from circadia.records.change import Change, ChangeKind
from circadia.records.sleep_pass import PassStatus
from circadia.settings.sleeptime import SleepPolicySettings
from circadia.sleeptime.operations.consolidate import ConsolidationAnswer, NoteDraft
from circadia.sleeptime.operations.contradictions import ComparisonAnswer
from circadia.sleeptime.operations.registry import choose_operations
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.stand import Stand
from tests.sleeptime.tier_stand import Tier

OPERATIONS = ("consolidate", "contradictions", "dedupe", "collect")


def answering(prompt: Prompt, output: type[BaseModel]) -> BaseModel:
    """Find no contradiction, and write the same note of whatever was said."""
    if output is ComparisonAnswer:
        return ComparisonAnswer(found=[])
    return ConsolidationAnswer(notes=[NoteDraft(text="Ann has a cat.", ids=["e1", "e2"])])


async def proposed(stand: Stand, **more: Any) -> list[Change]:
    """Run a pass over a bank with two equal notes on new episodes, and return its changes."""
    said = await stand.said("I live in Porto these days.", "Porto is where I live these days.")
    run = await stand.begun("p0")
    await stand.publish(run, stand.note("not_1", said), stand.note("not_2", said))
    await stand.ended(run)
    await stand.said("I have a cat at home.", "My cat at home is black.")
    operations = choose_operations(SleepPolicySettings.model_validate({}), True, OPERATIONS)
    tier = Tier(stand, ScriptedChatModel(answering), does=operations, when="manual")
    await tier.asked(**more)
    await tier.worker().step()
    passes = await tier.ended(2)
    assert passes[-1].status in (PassStatus.NO_CHANGE, PassStatus.SUCCEEDED), passes[-1].detail
    async with stand.store.begin_read() as tx:
        return list(await tx.passes.find_changes(passes[-1].id))


@pytest.mark.spec("SLEEP-20", "SLEEP-32")
@pytest.mark.parametrize("more", [{"review": True}, {"dry_run": True}, {}])
async def test_a_full_pass_proposes_to_retire_one_of_two_equal_notes_once(stand: Stand, more: dict[str, bool]) -> None:
    changes = await proposed(stand, full=True, **more)
    kinds = Counter(change.kind for change in changes)
    assert kinds[ChangeKind.RETIRE_NOTE] == 1, [(change.kind, change.target, change.why) for change in changes]
    assert max(Counter((change.kind, change.target) for change in changes).values()) == 1
