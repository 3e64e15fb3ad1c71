"""What every store promises of conversations and of the owners of provider-side ids."""

from dataclasses import replace
from functools import reduce

import pytest

from circadia.ids import ConversationId
from circadia.records.conversation import merge_end_users
from circadia.stores.base import Store
from tests.contract.rows import agent, at, conversation

ADA, EVE = agent("ada"), agent("eve")


@pytest.mark.spec("GATE-67", "CLU-16", "MEM-37")
async def test_what_is_added_to_a_conversation_is_summed_and_the_latest_call_decides_how_it_goes_on(
    store: Store,
) -> None:
    first = replace(conversation("v1", of=ADA, head="h1", seconds=1), turns=1, version=1, additions="a")
    latest = replace(first, turns=2, version=3, head="", handle="resp_2", additions="b", at=at(9))
    late = replace(first, turns=0, version=1, head="h3", handle="resp_1", at=at(5))
    async with store.begin_write() as tx:
        await tx.conversations.add([first])
        await tx.conversations.add([latest, late])
        await tx.conversations.add([conversation("v1", of=EVE)])
        assert await tx.conversations.get(ADA.id, first.id) == replace(latest, turns=3, version=5)
        await tx.conversations.add([replace(latest, turns=0, version=0, additions="")])
        assert await tx.conversations.get(ADA.id, first.id) == replace(latest, turns=3, version=5), "unknown"
        assert await tx.conversations.get(EVE.id, first.id) == conversation("v1", of=EVE)
        assert await tx.conversations.get(ADA.id, ConversationId("none")) is None


@pytest.mark.spec("GATE-67", "CLU-16")
@pytest.mark.parametrize(
    "end_users", [[None, None], ["u1", None], [None, "u1"], ["u1", "u1"], ["u1", "u2"], ["u1", "u2", "u1"], ["", "u1"]]
)
async def test_an_end_user_stays_until_another_is_named(store: Store, end_users: list[str | None]) -> None:
    async with store.begin_write() as tx:
        for end_user in end_users:
            await tx.conversations.add([replace(conversation("v1", of=ADA), end_user=end_user)])
        row = await tx.conversations.get(ADA.id, ConversationId("v1"))
    assert row is not None
    assert row.end_user == reduce(merge_end_users, end_users)


@pytest.mark.spec("GATE-67", "CLU-16")
async def test_an_agents_conversations_are_found_by_head_handle_and_id(store: Store) -> None:
    async with store.begin_write() as tx:
        await tx.conversations.add([conversation("v0", of=ADA, head="h1")])
        await tx.conversations.add(
            [conversation("v1", of=ADA, head="h1", seconds=1), conversation("v2", of=ADA, head="h2")]
        )
        await tx.conversations.add([replace(conversation("v3", of=ADA), handle="resp_3")])
        await tx.conversations.add([conversation("v4", of=EVE, head="h1")])
    async with store.begin_read() as tx:
        for heads, name, ids in (
            (["h2", "h1", "h9"], None, {"v1", "v2"}), (["h1"], "resp_3", {"v1", "v3"}), (["h9"], None, set[str]()),
            ([], "resp_3", {"v3"}), ([], "v2", {"v2"}), ([], None, set[str]()), (["", "h2"], "", {"v2"}),
        ):  # fmt: skip
            assert {row.id for row in await tx.conversations.find(ADA.id, heads, name=name)} == ids


@pytest.mark.spec("GATE-60")
async def test_the_first_owner_of_a_providers_id_stays(store: Store) -> None:
    async with store.begin_write() as tx:
        await tx.provider_ids.add("openai", "resp_1", ADA.id, at(0))
        await tx.provider_ids.add("openai", "resp_1", EVE.id, at(1))
        await tx.provider_ids.add("azure", "resp_1", EVE.id, at(1))
    async with store.begin_read() as tx:
        assert await tx.provider_ids.owner("openai", "resp_1") == ADA.id
        assert await tx.provider_ids.owner("azure", "resp_1") == EVE.id
        assert await tx.provider_ids.owner("openai", "resp_2") is None
