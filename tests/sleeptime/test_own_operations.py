"""An operation of the user's own code is loaded from the file, takes part in passes, and is held to the same rules."""

import pytest
from pydantic import ValidationError

from circadia.errors import ConfigError, InvalidRequest
from circadia.records.change import ChangeState
from circadia.records.sleep_pass import PassStatus
from circadia.settings.sleeptime import SleeptimeSettings
from circadia.sleeptime.operations.registry import choose_operations, load_own_operations
from tests.sleeptime.night import Night
from tests.sleeptime.stand import Stand
from tests.sleeptime.tier_stand import Tier

OWN = {"own_open_tasks": "examples.sleeptime.open_tasks:OpenTasks"}


async def test_the_example_keeps_a_block_of_tasks_with_their_sources(stand: Stand) -> None:
    night = Night(stand, operations=load_own_operations(OWN))
    asked, _, _ = await night.said("todo: call the landlord", "It rains.", "todo: buy soap")
    assert (await night.run()).status is PassStatus.SUCCEEDED
    assert (await stand.block("tasks")).value == "[ ] call the landlord\n[ ] buy soap"
    await night.said("done: call the landlord")
    await night.run()
    block = await stand.block("tasks")
    assert block.value == "[x] call the landlord\n[ ] buy soap"
    assert [*block.spans[0].episodes] == [asked.id]
    assert [each.state for each in await night.changes()] == [ChangeState.PUBLISHED] * 2


@pytest.mark.spec("SLEEP-11")
async def test_what_only_some_operations_have_read_stays_for_all_of_them(stand: Stand) -> None:
    night = Night(stand, operations=load_own_operations(OWN))
    (asked,) = await night.said("todo: call the landlord")
    assert (await night.run(operations=("own_open_tasks",))).status is PassStatus.SUCCEEDED
    cursors: list[int] = []
    for status in (PassStatus.NO_CHANGE, PassStatus.NO_CHANGE):
        async with stand.store.begin_read() as tx:
            cursors.append((await tx.sleep_states.get(stand.bank.id)).cursor)
        assert (await night.run()).status is status
    assert cursors == [0, asked.number]
    assert (await stand.block("tasks")).value == "[ ] call the landlord"


def test_it_stands_before_the_blocks_are_rewritten_and_can_be_switched_off() -> None:
    settings = SleeptimeSettings.model_validate({"own_operations": OWN})
    own = load_own_operations(settings.own_operations)
    names = [each.name for each in choose_operations(settings, True, (), own)]
    assert names.index("own_open_tasks") == names.index("rethink") - 1
    assert [each.name for each in choose_operations(settings, False, ("own_open_tasks",), own)] == ["own_open_tasks"]
    off = settings.policy_of({"operations": {"own_open_tasks": {"enabled": False}}})
    assert "own_open_tasks" not in [each.name for each in choose_operations(off, True, (), own)]


@pytest.mark.spec("SLEEP-61")
@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (
            ["own_open_tusks"],
            "operation 'own_open_tusks' is unknown; choose from consolidate, .*, own_open_tasks; did you mean 'own_o",
        ),
        (["collect", "zzz"], "operation 'zzz' is unknown; choose from consolidate, .*, precompute, own_open_tasks$"),
        (["own_open_tasks", "reflect"], "operation 'reflect' is switched off for bank 'ann'"),
    ],
)
async def test_who_asks_for_an_operation_that_is_none_is_told_those_that_there_are(
    stand: Stand, wanted: list[str], told: str
) -> None:
    off = {"reflect": {"enabled": False}}
    tier = Tier(stand, None, own_operations=OWN, operations=off).tier
    with pytest.raises(InvalidRequest, match=told):
        tier.require_operations(stand.bank, wanted)
    tier.require_operations(stand.bank, ["own_open_tasks", "collect"])


@pytest.mark.parametrize(
    ("name", "place", "told"),
    [
        ("own_a", "examples.nowhere:A", "cannot be loaded (ModuleNotFoundError"),
        ("own_a", "examples.sleeptime.open_tasks:Nothing", "cannot be loaded (AttributeError"),
        ("own_a", "examples.sleeptime.open_tasks:OpenTasks", "calls itself 'own_open_tasks'"),
        ("own_a", "fractions:Fraction", "has no 'name'"),
    ],
)
def test_what_is_no_operation_is_told_with_its_key(name: str, place: str, told: str) -> None:
    with pytest.raises(ConfigError, match=rf"sleeptime\.own_operations\.{name}") as error:
        load_own_operations({name: place})
    assert told in str(error.value)


@pytest.mark.parametrize("stated", ['{"own_operations": {"mine": "a:B"}}', '{"operations": {"consolidat": {}}}'])
def test_a_name_that_could_be_one_of_circadias_is_refused(stated: str) -> None:
    with pytest.raises(ValidationError):
        SleeptimeSettings.model_validate_json(stated)
