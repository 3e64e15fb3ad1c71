"""The Python client's methods on memory against the API that they are for."""

from datetime import timedelta

import pytest

from circadia.client.calls import Client
from circadia.errors import Conflict, InvalidRequest, NotFound
from circadia.ids import EpisodeId
from tests.api.service import Service


@pytest.mark.spec("MEM-02", "MEM-05")
async def test_what_a_program_remembers_it_finds_demotes_and_forgets(client: Client) -> None:
    await client.create_bank("team", policy={"hot_edits": True})
    assert (await client.change_bank("team", description="ours")).description == "ours"
    made = await client.remember("team", "Ann has moved to Porto.", speaker="ann", metadata={"a": 1}, key="k")
    assert (made.new, made.metadata) == (True, {"a": 1})
    assert (await client.show_episode("team", made.id)).text == made.text
    found = await client.search_bank("team", "Porto", speaker="ann", kinds=["turn"], trusts=["person"], recency=0.1)
    assert found.hits[0].id == made.id
    assert (await client.search_bank("team", "Porto", layers=["notes"])).hits == []
    assert (await client.demote_episode("team", made.id, "evidence")).changed
    assert (await client.restore_episode("team", made.id, "evidence")).stale == []
    assert (await client.forget_episodes("team", speaker="ann", dry_run=True)).episodes == 1
    assert (await client.forget_episodes("team", ids=[made.id])).dry_run is False
    assert (await client.list_episodes("team", order="newest")).episodes == []
    await client.delete_bank("team")
    assert (await client.list_banks()).banks == []


async def agent_forgets(service: Service, episode: str) -> None:
    """Have agent `ann` forget an episode of the bank `team`."""
    async with service.parts.store.begin_write() as tx:
        session, bank = await tx.sessions.get_by_name("default"), await tx.banks.get_by_name("team")
        assert session is not None
        assert bank is not None
        agent = await tx.agents.get_by_name(session.id, "ann")
        assert agent is not None
        await service.parts.memory.corrections.forget(tx, bank, agent, EpisodeId(episode))


@pytest.mark.spec("MEM-39")
async def test_a_program_lists_and_restores_what_an_agent_has_forgotten(client: Client, service: Service) -> None:
    await client.create_bank("team")
    await client.create_agent("default", "ann", policy={"bank": "team", "preset": "personal"})
    said = "I live in Porto. " + "It rains. " * 70
    made = await client.remember("team", said, speaker="user", conversation="c", key="k")
    await agent_forgets(service, made.id)
    (row,) = (await client.list_forgotten("team")).episodes
    assert (row.id, row.text, row.by, row.restorable_until - row.forgotten_at) == (
        made.id, said[:200], "ann", timedelta(days=7),
    )  # fmt: skip
    restored = await client.restore_forgotten("team", made.id)
    assert (restored.text, restored.key, restored.conversation) == (said, "k", "c")
    assert (await client.search_bank("team", "Porto")).hits[0].passages == 2
    with pytest.raises(NotFound):
        await client.restore_forgotten("team", made.id)


@pytest.mark.spec("MEM-39")
async def test_what_was_said_again_meanwhile_keeps_its_key_and_the_restored_one_loses_it(
    client: Client, service: Service
) -> None:
    await client.create_bank("team")
    await client.create_agent("default", "ann", policy={"bank": "team", "correct_memory": True})
    first = await client.remember("team", "I live in Porto.", speaker="user", key="k")
    await agent_forgets(service, first.id)
    second = await client.remember("team", "I live in Porto.", speaker="user", key="k")
    assert (second.new, second.id == first.id) == (True, False)
    assert (await client.restore_forgotten("team", first.id)).key is None
    rows = (await client.list_episodes("team")).episodes
    assert {row.id: row.key for row in rows} == {first.id: None, second.id: "k"}


@pytest.mark.spec("MEM-09", "MEM-11")
async def test_a_program_writes_blocks_sees_their_history_and_goes_back(client: Client, service: Service) -> None:
    await client.create_bank("team")
    await client.write_block("team", "human", "one", limit=100, pinned=False, expected_version=0)
    then = service.clock.now().isoformat()
    service.clock.advance(60)
    await client.write_block("team", "human", "two")
    with pytest.raises(Conflict):
        await client.write_block("team", "human", "three", expected_version=1)
    assert [each.value for each in await client.list_versions("team", "human")] == ["one", "two"]
    assert (await client.undo_block("team", "human", expected_version=2)).value == "one"
    assert (await client.undo_block("team", "human", to=2)).value == "two"
    assert [each.value for each in await client.restore_blocks("team", then)] == ["one"]
    assert [each.label for each in await client.list_blocks("team")] == ["human"]
    assert (await client.show_context("team", "one", stable_tokens=100, fitting_tokens=200)).blocks == ["human"]
    assert (await client.delete_block("team", "human", why="done", expected_version=5)).deleted


@pytest.mark.spec("MEM-12")
async def test_an_agents_program_names_its_template_and_the_end_user(client: Client, service: Service) -> None:
    token = await service.agent("helper", bank="for-{user}")
    async with Client(service.url, token) as helper:
        await helper.remember("for-{user}", "A secret.", user="ann & bob")
        found = await helper.search_bank("for-{user}", "secret", user="ann & bob")
        assert [each.speaker for each in found.hits] == ["helper"]
        assert (await helper.show_bank("for-{user}", user="ann & bob")).end_user == "ann & bob"
        assert await helper.list_blocks("for-{user}", user="ann & bob") == []
    assert [each.end_user for each in (await client.list_banks(template="for-{user}")).banks] == ["ann & bob"]


@pytest.mark.spec("MEM-12", "MEM-03")
async def test_the_operator_names_a_persons_bank_by_its_template_and_the_person(
    client: Client, service: Service
) -> None:
    name = "for-{user}"
    token = await service.agent("helper", bank=name)
    async with Client(service.url, token) as helper:
        said = {user: await helper.remember(name, f"{user} was here", user=user) for user in ("Ann", "bob")}
    ann = "Ann"
    assert (await client.search_bank(name, "who was here", user=ann)).hits[0].text == "Ann was here"
    assert (await client.demote_episode(name, said["Ann"].id, "e", user=ann)).changed
    assert (await client.restore_episode(name, said["Ann"].id, "e", user=ann)).changed
    await client.write_block(name, "human", "one", user=ann)
    await client.write_block(name, "human", "two", user=ann)
    assert (await client.undo_block(name, "human", user=ann)).value == "one"
    assert await client.restore_blocks(name, service.clock.now().isoformat(), user=ann) == []
    assert (await client.change_bank(name, description="hers", user=ann)).description == "hers"
    exported = b"".join([chunk async for chunk in client.export_bank(name, user=ann)])
    assert (b"Ann was here" in exported, b"bob was here" in exported) == (True, False)
    gone = await client.forget_episodes(name, ids=[each.id for each in said.values()], user=ann)
    assert gone.episodes == 1
    await client.delete_bank(name, user=ann)
    assert [each.end_user for each in (await client.list_banks()).banks] == ["bob"]
    with pytest.raises(NotFound, match="holds nothing yet"):
        await client.show_bank(name, user=ann)
    with pytest.raises(InvalidRequest, match="takes an end user"):
        await client.delete_bank(name)
    with pytest.raises(InvalidRequest, match="not a template"):  # else it would be the wrong bank, and gone
        await client.delete_bank("for-bob", user=ann)
    assert (await client.show_bank("for-bob")).episodes == 1
