"""Dreams over memory folders: a person asks for one, reads its diff, accepts it and takes it back."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.dashboard.conftest import check_accessibility, serve_site

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("DREAM-31", "DREAM-22", "UI-19")]


async def test_a_dream_is_asked_for_read_as_a_diff_accepted_and_undone(tmp_path: Path, browser: Browser) -> None:
    folder = tmp_path / "memory"
    folder.mkdir()
    (folder / "MEMORY.md").write_text("# Memory\n")
    (folder / "database.md").write_text("# Database\n\n- The staging database is on port 5433.\n")
    dreams = {"notes": {"folder": str(folder), "watch": False}}
    async with serve_site(tmp_path / "site", browser, dreams=dreams) as site, site.open("/dreams") as page:
        await expect(page.get_by_role("region", name="Folder notes")).to_contain_text("0 new sessions, of 5")
        await page.get_by_role("button", name="Dream over notes").click()
        row = page.get_by_role("table", name="History of dreams").get_by_role("row").nth(1)
        await expect(row).to_contain_text("waits for a person")
        await expect(page.get_by_role("region", name="Folder notes")).to_contain_text("until a person has accepted")
        await check_accessibility(page)
        await row.get_by_role("link").click()
        diff = page.get_by_role("group", name="Changes of MEMORY.md")
        await expect(diff.locator("ins").last).to_contain_text("database.md")
        await check_accessibility(page)
        async with site.open("/for-you") as other:
            waiting = other.get_by_role("list", name="Dreams").get_by_role("listitem")
            await expect(waiting).to_contain_text("Dream over notes")
            await expect(other.get_by_role("link", name="Dreams")).to_contain_text("1")
            await page.get_by_role("button", name="Accept").click()
            await expect(waiting).to_have_count(0)
        await expect(page.get_by_role("list", name="Decisions")).to_contain_text("accepted by operator")
        await expect(page.get_by_role("button", name="Undo")).to_be_enabled()
        assert "database.md" in (folder / "MEMORY.md").read_text()
        await page.get_by_role("button", name="Undo").click()
        await page.get_by_role("dialog").get_by_role("button", name="Undo").click()
        await expect(page.get_by_text("is restored")).to_be_visible()
        assert (folder / "MEMORY.md").read_text() == "# Memory\n"
        await expect(page.get_by_role("list", name="Decisions")).to_contain_text("undone by operator")
        await expect(page.get_by_role("group", name="Status")).to_contain_text("undone")
        undo = page.get_by_role("button", name="Undo the dream over notes")
        await expect(undo).to_have_attribute("aria-disabled", "true")
        reviewed = [event["data"] for event in (await site.call("GET", "/events?type=reviewed"))["events"]]
        assert [(each["act"], each["by"], each["name"]) for each in reviewed] == [
            ("accepted", "operator", "notes"), ("undone", "operator", "notes"),
        ]  # fmt: skip
