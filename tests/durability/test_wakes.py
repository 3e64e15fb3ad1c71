"""A server that is killed with pulses that are pending, running and deferred: nothing is lost, nothing runs twice."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.durability.waking import NAMES, alive, config, noted, until_noted, until_noted_again, until_settled
from tests.fixtures.server_process import CircadiaProcess


@pytest.mark.spec("WAKE-02", "WAKE-14", "WAKE-23", "WAKE-50", "WAKE-53")
async def test_a_server_that_is_killed_twice_loses_no_wake_runs_none_twice_and_charges_each_once(
    tmp_path: Path,
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    async with CircadiaProcess(tmp_path, config(notes)) as server:

        async def ask(name: str, text: str) -> dict[str, Any]:
            return await server.call("POST", "/wakes", {"to": name, "reason": "blocker", "message": text})

        asked = [await ask("ann", "1"), await ask("bob", "2")]
        await until_noted(notes, "start", 2)
        asked += [await ask("ann", "3"), await ask("bob", "4"), await ask("cid", "5")]
        assert [each["decision"] for each in asked] == ["admitted", "admitted", "deferred", "deferred", "admitted"]
        await server.kill9()  # two run, two are deferred, one was admitted a moment ago
        orphans = [line[3] for line in noted(notes) if line[0] == "start"]
        await server.start()
        async with asyncio.timeout(60):
            while any(alive(pid) for pid in orphans):
                await asyncio.sleep(0.02)
        asked.append(await ask("ann", "6"))
        await until_noted_again(notes)
        await server.restart(kill=True)  # in the second attempt of at least one
        (notes / "go").touch()
        pulses = await until_settled(server)
        assert {each["status"] for each in pulses} == {"succeeded"}
        lines = noted(notes)
        assert not [line for line in lines if line[0] == "overlap"]
        finished = Counter(line[2] for line in lines if line[0] == "done")
        assert set(finished) == {each["id"] for each in pulses}
        assert not [line for line in lines if alive(line[3])]
        wakes = {each["id"]: each for each in (await server.call("GET", "/wakes"))["wakes"]}
        expected = {each["wake"] for each in asked}
        assert set(wakes) == expected, [wake for key, wake in wakes.items() if key not in expected]
        for wake in wakes.values():
            assert wake["decision"] in ("admitted", "coalesced"), wake
            assert wake["charge"] == ("charged" if wake["decision"] == "admitted" else "none")
        assert len(pulses) == sum(wake["decision"] == "admitted" for wake in wakes.values())
        texts: list[str] = []
        for name in NAMES:
            counts = (await server.call("GET", f"/agents/{name}/inbox"))["counts"]
            assert counts["unread"] == counts["leased"] == counts["dead"] == 0
            page = await server.call("GET", f"/agents/{name}/inbox?state=handled")
            texts += [each["content"] for each in page["messages"]]
            stats = await server.call("GET", f"/agents/{name}/wake-stats")
            admitted = sum(w["agent"] == name and w["decision"] == "admitted" for w in wakes.values())
            assert stats["wakes_today"] == admitted
        assert sorted(texts) == ["1", "2", "3", "4", "5", "6"]


@pytest.mark.setting("server.drain_seconds")
@pytest.mark.spec("WAKE-55")
async def test_a_server_that_is_stopped_puts_its_pulses_back_leaves_no_program_and_goes_on(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    async with CircadiaProcess(tmp_path, {**config(notes), "server": {"drain_seconds": 0.2}}) as server:
        await server.call("POST", "/wakes", {"to": "ann", "reason": "blocker", "message": "1"})
        await until_noted(notes, "start", 1)
        assert await server.terminate() == 0
        assert not [line for line in noted(notes) if alive(line[3])]
        (notes / "go").touch()
        await server.start()
        (pulse,) = await until_settled(server)
        assert (pulse["status"], pulse["attempt"], pulse["epoch"]) == ("succeeded", 1, 3)
        assert (await server.call("GET", "/agents/ann/inbox"))["counts"]["handled"] == 1


@pytest.mark.spec("WAKE-55", "WAKE-56")
async def test_what_is_asked_of_a_stopping_server_is_kept_opens_no_gate_and_goes_on_after_the_start(
    tmp_path: Path,
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    stated = config(notes)
    stated["agents"]["res"] = {"sleep_events": ["agent_started"]}
    stated["agents"]["men"] = {"sleep_events": ["agent_started"], "wake_events": ["mentioned"]}
    async with CircadiaProcess(tmp_path, stated) as server:
        await server.call("POST", "/sessions/default/threads", {"name": "t", "participants": ["men"]})
        await server.call("POST", "/wakes", {"to": "ann", "reason": "blocker", "message": "1"})
        await until_noted(notes, "start", 1)
        server.begin_to_stop()
        ask = {"reason": "blocker", "message": "2"}
        async with asyncio.timeout(60):
            while (await server.call("POST", "/wakes", {"to": "bob", **ask, "dry_run": True}))["rule"] != "draining":
                await asyncio.sleep(0.02)
        program, resident = [await server.call("POST", "/wakes", {"to": name, **ask}) for name in ("bob", "res")]
        assert {program["decision"], resident["decision"]} == {"deferred"}
        assert "the server is stopping" in resident["summary"]
        await server.call("POST", "/sessions/default/threads/t/messages", {"content": "you", "mentions": ["men"]})
        with pytest.raises(AssertionError, match=r"503 .*the server is stopping"):
            await server.put_sleeping("default", "men", False)
        for name in ("res", "men"):
            assert (await server.call("GET", f"/sessions/default/agents/{name}/sleeping"))["sleeping"]
        (notes / "go").touch()
        assert await server.gone() == 0
        assert not [line for line in noted(notes) if line[1] == "bob"]
        await server.start()
        await until_settled(server)
        for name in ("res", "men"):
            assert not (await server.call("GET", f"/sessions/default/agents/{name}/sleeping"))["sleeping"]
        for wake in (program, resident):
            assert (await server.call("GET", f"/wakes/{wake['wake']}"))["decision"] == "admitted"
        (awake,) = (await server.call("GET", "/agents/men/pulses"))["pulses"]
        assert (awake["kind"], awake["status"]) == ("gate", "running")
        (mention,) = (await server.call("GET", "/wakes?agent=men"))["wakes"]
        assert (mention["source"], mention["decision"], mention["charge"]) == ("thread", "admitted", "none")
        assert (await server.call("GET", "/agents/men/wake-stats"))["wakes_today"] == 0
