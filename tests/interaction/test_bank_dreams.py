"""Dreams over banks through a whole server: each makes a new bank."""

from pathlib import Path
from typing import Any

import pytest

from circadia.memory.transfer.importer import copy_bank
from circadia.server import dream_runner
from tests.cli.test_dream import SAID
from tests.interaction.live import Live
from tests.interaction.test_dreams import begun, dreaming, ended
from tests.sleeptime.markdown.dream_stand import DreamStand

pytestmark = pytest.mark.spec("DREAM-31")


@pytest.fixture
def stand(tmp_path: Path) -> DreamStand:
    return DreamStand(tmp_path)


async def texts(at: Live, bank: str) -> list[tuple[str, str]]:
    return [(row["text"], row["at"]) for row in (await at.rest("GET", f"/banks/{bank}/episodes"))[1]["episodes"]]


async def test_a_dream_over_a_bank_makes_another_one_and_leaves_it_as_it_is(stand: DreamStand) -> None:
    async with dreaming(stand) as at:
        await at.rest("POST", "/banks", {"name": "team"})
        for text in (SAID, "The mail server of the project Crane is called Otto."):
            assert (await at.rest("POST", "/banks/team/episodes", {"text": text, "speaker": "ann"}))[0] in (200, 201)
        rows = await texts(at, "team")
        status, made = await at.rest("POST", "/dreams", {"inputs": [{"type": "bank", "name": "team"}]})
        assert status == 202, made
        shown = await ended(at, made["id"])
        assert (shown["status"], shown["mode"]) == ("completed", None), shown
        copy = shown["outputs"][0]["name"]
        assert copy.startswith("team-dream-")
        assert await texts(at, "team") == rows
        assert await texts(at, copy) == rows
        assert (await at.rest("GET", f"/passes/{shown['entry']}"))[1]["bank"] == copy
        assert shown["report"]["calls"] >= 1
        told = [event["data"]["status"] for event in await at.events("dream")]
        assert told == ["pending", "running", "completed"]
        status, told = await at.rest("POST", f"/dreams/{made['id']}/accept")
        assert (status, copy in told["detail"]) == (422, True)


async def test_banks_are_copied_one_at_a_time(stand: DreamStand, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy occupies one of the few connections for reading."""
    copying = most = 0

    async def counted(*given: Any, **named: Any) -> None:
        nonlocal copying, most
        copying += 1
        most = max(most, copying)
        await copy_bank(*given, **named)
        copying -= 1

    monkeypatch.setattr(dream_runner, "copy_bank", counted)
    async with dreaming(stand) as at:
        names = [f"team-{number}" for number in range(5)]
        for name in names:
            await at.rest("POST", "/banks", {"name": name})
        asked = [await begun(at, inputs=[{"type": "bank", "name": name}]) for name in names]
        assert {(await ended(at, dream))["status"] for dream in asked} == {"completed"}
        assert most == 1


async def test_a_dream_whose_new_bank_is_deleted_has_failed(stand: DreamStand) -> None:
    async with dreaming(stand) as at:
        await at.rest("POST", "/banks", {"name": "team"})
        for text in (SAID, "The mail server of the project Crane is called Otto."):
            await at.rest("POST", "/banks/team/episodes", {"text": text, "speaker": "ann"})
        at.upstream.gate.clear()
        dream = await begun(at, inputs=[{"type": "bank", "name": "team"}])
        await at.upstream.wait_for_requests(1)
        copy = (await at.rest("GET", f"/dreams/{dream}"))[1]["outputs"][0]["name"]
        assert (await at.rest("DELETE", f"/banks/{copy}"))[0] == 204
        at.upstream.gate.set()
        shown = await ended(at, dream)
        assert (shown["status"], "was deleted" in shown["error"]["message"]) == ("failed", True)
