"""Banks that a running server has loaded to search them: bounded in bytes, and kept up when something is forgotten."""

from pathlib import Path
from typing import Any

import pytest

from circadia.stores.sql import banks as sql_banks
from circadia.stores.sql import searchable
from tests.interaction.live import ADMIN, Live, live


async def filled(running: Live, name: str, count: int = 20) -> list[str]:
    """Make a bank with so many episodes and return their ids."""
    assert (await running.rest("POST", "/banks", {"name": name}))[0] == 201
    turns = [{"text": f"We met Bob at the harbour of town {at}."} for at in range(count)]
    made = [await running.rest("POST", f"/banks/{name}/episodes", turn) for turn in turns]
    assert {status for status, _ in made} == {201}
    return [each["id"] for _, each in made]


async def searched(running: Live, name: str, question: str = "harbour") -> list[str]:
    """Return the texts that a search finds."""
    status, found = await running.rest("GET", f"/banks/{name}/search?q={question}&limit=100")
    assert status == 200, found
    return [each["text"] for each in found["hits"]]


async def loaded(running: Live) -> tuple[int, int]:
    """Return how many banks are loaded, and how many bytes they take, as the metrics tell it."""
    async with running.http.get(f"{running.url}/metrics", headers={"authorization": f"Bearer {ADMIN}"}) as response:
        told = dict(line.rsplit(" ", 1) for line in (await response.text()).splitlines() if not line.startswith("#"))
    return int(float(told["circadia_index_banks"])), int(float(told["circadia_index_bytes"]))


@pytest.mark.setting("memory.max_index_bytes")
@pytest.mark.spec("MEM-20")
async def test_banks_are_loaded_up_to_the_bytes_of_the_setting_and_no_further(tmp_path: Path) -> None:
    names = [f"b{at}" for at in range(5)]
    async with live(tmp_path) as running:
        for name in names:
            await filled(running, name)
            assert len(await searched(running, name)) == 20
        banks, taken = await loaded(running)
        assert banks == 5
        assert taken <= 5 * 30 * 1024
    async with live(tmp_path, memory={"max_index_bytes": taken // 2}) as running:
        for name in (*names, *names):
            assert len(await searched(running, name)) == 20
        banks, taken_now = await loaded(running)
        assert 1 <= banks <= 3
        assert taken_now <= taken // 2


@pytest.mark.spec("MEM-21")
async def test_the_search_after_one_episode_was_forgotten_reads_none_of_the_others_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def counted(row: Any) -> Any:
        read.append(row.number)
        return made(row)

    made = searchable.build_index_entry
    for module in (sql_banks, searchable):
        monkeypatch.setattr(module, "build_index_entry", counted)
    async with live(tmp_path) as running:
        ids = await filled(running, "team", 30)
        assert len(await searched(running, "team")) == 30
        assert len(read) == 30
        status, gone = await running.rest("POST", "/banks/team/forget", {"ids": [ids[3]]})
        assert (status, gone["episodes"]) == (200, 1)
        left = await searched(running, "team")
        assert len(left) == 29
        assert "We met Bob at the harbour of town 3." not in left
        assert len(read) == 30
