"""`Yesterday` is that of whoever says it, east and west of UTC: through a whole server, from the turn to the note."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from circadia.testing.upstream import MockUpstream
from tests.interaction.live import KEY, live
from tests.interaction.test_lines_of_people import TIER, Sleeper

TEXT = "I moved to Lisbon yesterday."
DAYS: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "east": ("2025-11-30T08:00:00+09:00", {}, {}, "2025-11-29"),
    "west": ("2025-11-29T20:00:00-08:00", {}, {}, "2025-11-28"),
    "utc": ("2025-11-29T23:00:00Z", {}, {}, "2025-11-28"),
    "stated": ("2025-11-29T23:00:00+00:00", {"metadata": {"utc_offset": "+09:00"}}, {}, "2025-11-29"),
    "both": ("2025-11-30T08:00:00+09:00", {"metadata": {"timezone": "UTC"}}, {}, "2025-11-28"),
    "bank": ("2025-11-29T23:00:00Z", {}, {"zone": "Asia/Tokyo"}, "2025-11-29"),
    "guest": ("2025-11-29T20:00:00-08:00", {}, {"zone": "Asia/Tokyo"}, "2025-11-28"),
}
"""By bank: when it is said, with what else, in what bank, and which day was yesterday there."""


@pytest.mark.spec("SLEEP-24")
async def test_yesterday_is_the_day_before_by_the_clock_of_the_time_then_of_the_bank(tmp_path: Path) -> None:
    model = Sleeper()
    banks = {name: {"sleeptime": policy} for name, (_, _, policy, _) in DAYS.items()}
    async with (
        MockUpstream(key=KEY, reply=model) as provider,
        live(tmp_path, banks=banks, sleeptime=TIER, provider=provider) as at,
    ):
        for name, (when, more, _, day) in DAYS.items():
            body = {"text": TEXT, "speaker": "ann", "at": when, **more}
            status, stored = await at.rest("POST", f"/banks/{name}/episodes", body)
            assert status == 201, stored
            assert datetime.fromisoformat(stored["at"]) == datetime.fromisoformat(when), "the instant is the same"
            model.asked.clear()
            ended = (await at.rest("POST", f"/banks/{name}/passes", {"wait_seconds": 60}))[1]
            assert ended["status"] == "succeeded", ended
            (note,) = (await at.rest("GET", f"/banks/{name}/notes"))[1]["notes"]
            assert note["text"] == f"Ann says: I moved to Lisbon yesterday ({day}).", name
            assert f"]\ne1 ann: I moved to Lisbon yesterday ({day})." in model.asked[0], name


@pytest.mark.spec("SLEEP-24")
async def test_a_turn_counts_from_the_day_of_the_agent_whose_bank_it_is(tmp_path: Path) -> None:
    model = Sleeper()
    async with MockUpstream(key=KEY, reply=model) as provider, live(tmp_path, sleeptime=TIER, provider=provider) as at:
        token = await at.agent("bob", bank="team")
        assert (await at.rest("PATCH", "/agents/bob/coordination", {"zone": "Asia/Tokyo"}))[0] == 200
        body = {"text": TEXT, "speaker": "ann", "at": "2025-11-29T23:00:00Z"}
        assert (await at.rest("POST", "/banks/team/episodes", body, token=token))[0] == 201
        await at.rest("POST", "/banks/team/passes", {"wait_seconds": 60})
        assert "[2025-11-30]\ne1 ann: I moved to Lisbon yesterday (2025-11-29)." in model.asked[0]


@pytest.mark.spec("MEM-16", "SLEEP-24")
async def test_an_export_keeps_the_offset_and_an_import_takes_it(tmp_path: Path) -> None:
    model = Sleeper()
    async with (
        MockUpstream(key=KEY, reply=model) as provider,
        live(tmp_path, banks={"ann": {}, "copy": {}}, sleeptime=TIER, provider=provider) as at,
    ):
        line = {"type": "episode", "text": TEXT, "speaker": "ann", "at": "2025-11-30T08:00:00+09:00", "trust": "person"}
        assert (await at.rest("POST", "/banks/ann/import", line))[0] == 200
        (row,) = (await at.rest("GET", "/banks/ann/episodes"))[1]["episodes"]
        assert (row["at"], row["metadata"]) == ("2025-11-29T23:00:00Z", {"utc_offset": "+09:00"})
