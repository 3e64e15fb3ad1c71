"""What every store promises of conversations and of the owners of provider-side ids."""

from dataclasses import replace

import pytest

from circadia.ids import ConversationId
from circadia.stores.base import Store
from tests.contract.rows import agent, at, conversation

ADA, EVE = agent("ada"), agent("eve")


@pytest.mark.spec("GATE-67")
async def test_a_conversation_comes_back_as_it_was_stored_last(store: Store) -> None:
    first = conversation("v1", of=ADA, head="h1")
    second = replace(first, end_user="u1", turns=3, version=5, head="h2", at=at(9))
    async with store.begin_write() as tx:
        await tx.conversations.put([first])
        await tx.conversations.put([second])
        await tx.conversations.put([conversation("v1", of=EVE)])
        assert await tx.conversations.get(ADA.id, first.id) == second
        assert await tx.conversations.get(EVE.id, first.id) == conversation("v1", of=EVE)
        assert await tx.conversations.get(ADA.id, ConversationId("none")) is None


@pytest.mark.spec("GATE-67")
async def test_the_latest_conversations_of_all_agents_come_last_seen_first(store: Store) -> None:
    async with store.begin_write() as tx:
        await tx.conversations.put([conversation("v1", of=ADA, head="h1", seconds=1)])
        await tx.conversations.put([conversation("v2", of=ADA, head="h2", seconds=3)])
        await tx.conversations.put([conversation("v3", of=ADA, head="h1", seconds=2)])
        await tx.conversations.put([conversation("v4", of=EVE, head="h1", seconds=4)])
    async with store.begin_read() as tx:
        assert [row.id for row in await tx.conversations.find_latest(3)] == ["v4", "v2", "v3"]


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
