"""Vectors that come into an index after their rows: from both ends, and looked for only once some were written."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest
from sqlalchemy import Connection

from circadia.memory.search import retrieval
from circadia.stores.sql import banks as sql_banks
from circadia.stores.sql.statement import Statement
from tests.memory.world import EMBEDDER, World, vector


@pytest.mark.spec("MEM-02")
async def test_vectors_come_into_a_loaded_index_from_the_oldest_and_from_the_newest_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "WAITING", 2)
    for at in range(9):
        await world.remember(f"episode {at}")
    world.questions.by_question["old"] = {EMBEDDER: vector("0")}
    world.questions.by_question["new"] = {EMBEDDER: vector("8")}
    assert len(await world.find("episode", limit=20)) == 9
    async with world.store.begin_read() as tx:
        numbers = [each.number for each in await tx.episodes.find_all(world.bank.id)]
    await world.embed({numbers[0]: "0", numbers[8]: "8"})
    assert (await world.texts("old"))[0] == "episode 0"
    assert (await world.texts("new"))[0] == "episode 8"
    await world.embed(dict.fromkeys(numbers[1:8], "0"))
    for _ in range(2):
        await world.find("old")
    assert len(await world.find("old", limit=20)) == 8


@pytest.mark.spec("MEM-02")
async def test_rows_without_vectors_are_looked_at_again_only_once_some_have_been_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    real = sql_banks.fetch_vectors

    def counted(
        connection: Connection, statement: Statement[Any], numbers: Collection[int]
    ) -> Mapping[int, tuple[bytes, str]]:
        looked.append(len(numbers))
        return real(connection, statement, numbers)

    monkeypatch.setattr(sql_banks, "fetch_vectors", counted)
    monkeypatch.setattr(retrieval, "WAITING", 2)
    for at in range(9):
        await world.remember(f"episode {at}")
    world.questions.by_question["new"] = {EMBEDDER: vector("8")}
    for _ in range(3):
        await world.find("episode")
    assert looked == []
    async with world.store.begin_read() as tx:
        numbers = [each.number for each in await tx.episodes.find_all(world.bank.id)]
    await world.embed({numbers[8]: "8"})
    assert (await world.texts("new"))[0] == "episode 8"
    for _ in range(3):
        await world.find("new")
    assert looked == [4, 4]  # the second finds nothing any more
