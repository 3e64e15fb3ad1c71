"""What expires, in a whole server: gone from searches and contexts at its moment, and then deleted."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from circadia.testing.upstream import MockUpstream
from tests.fixtures.leap_clock import LeapClock
from tests.interaction.live import KEY, live

QUIET: dict[str, Any] = {"when": "manual", "model": "none"}


@pytest.mark.spec("MEM-40")
async def test_an_episode_is_gone_a_second_after_its_moment_and_is_deleted_with_what_rests_on_it(
    tmp_path: Path,
) -> None:
    clock = LeapClock()
    async with (
        MockUpstream(key=KEY) as provider,
        live(tmp_path, clock=clock, provider=provider, sleeptime=QUIET, banks={"team": {}}) as at,
    ):
        soon = (clock.now() + timedelta(hours=2)).isoformat()
        for text, expires_at in (("The door code is 4711.", soon), ("The door is green.", None)):
            body = {"text": text, "speaker": "ann", "expires_at": expires_at}
            status, stored = await at.rest("POST", "/banks/team/episodes", body)
            assert (status, bool(stored["expires_at"])) == (201, expires_at is not None), stored

        async def found() -> list[str]:
            hits = (await at.rest("GET", "/banks/team/search?q=door"))[1]["hits"]
            fitting = (await at.rest("GET", "/banks/team/context?q=door"))[1]["fitting"]
            assert all((hit["text"] in fitting) for hit in hits)
            assert ("4711" in fitting) == any("4711" in hit["text"] for hit in hits)
            return sorted(hit["text"] for hit in hits)

        assert await found() == ["The door code is 4711.", "The door is green."]
        clock.leap(7_201)
        assert await found() == ["The door is green."]
        async with asyncio.timeout(60):
            while len((await at.rest("GET", "/banks/team/episodes"))[1]["episodes"]) > 1:
                clock.leap(1)
                await asyncio.sleep(0)
        events = (await at.rest("GET", "/events?type=forgotten"))[1]["events"]
        told = {"bank": "team", "by": "circadia", "keep_days": None, "episodes": 1, "notes": 0, "versions": 0}
        assert [event["data"] for event in events] == [told]
        status, problem = await at.rest("POST", "/banks/team/episodes", {"text": "Late.", "expires_at": soon})
        assert (status, "has passed" in problem["detail"]) == (422, True)
