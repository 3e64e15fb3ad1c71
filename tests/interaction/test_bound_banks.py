"""The bank that an agent is bound to is there from then on."""

from pathlib import Path

import pytest

from tests.interaction.live import live

pytestmark = pytest.mark.spec("MEM-12")


async def test_it_is_made_when_the_agent_is_bound(tmp_path: Path) -> None:
    async with live(tmp_path, agents={"filed": {"bank": "of-the-file"}}) as at:
        for name in ("ann", "bob"):
            await at.agent(name, bank="team")
        await at.agent("cid")
        changed = await at.rest("PATCH", "/sessions/default/agents/cid", {"policy": {"bank": "later"}})
        assert changed[0] == 200, changed
        await at.agent("dan", bank="of-{user}")
        banks = (await at.rest("GET", "/banks"))[1]["banks"]
        assert [each["name"] for each in banks] == ["later", "of-the-file", "team"]
        assert (await at.rest("GET", "/banks/team/search?q=anything"))[0] == 200


async def test_it_can_still_be_created_as_somebody_wants_it_but_once(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        await at.agent(bank="team")
        wanted = {"name": "team", "description": "What the team knows.", "policy": {"capture_mode": "explicit"}}
        status, made = await at.rest("POST", "/banks", wanted)
        assert (status, made["description"], made["policy"]["capture_mode"]) == (
            201,
            "What the team knows.",
            "explicit",
        )
        assert (await at.rest("POST", "/banks", wanted))[0] == 409
        await at.agent("bob", bank="team")
        assert (await at.rest("GET", "/banks/team"))[1]["policy"]["capture_mode"] == "explicit"
