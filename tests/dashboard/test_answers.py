"""Ready answers: whether they pay, how a question would be answered, and dropping one."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.dashboard.conftest import Dashboard, Site
from tests.gateway.readied import ASKED, OTHER, SAID, question, readied

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("UI-10")]


async def test_ready_answers_are_counted_tested_and_dropped(browser: Browser, tmp_path: Path) -> None:
    async with readied(tmp_path) as ann:
        await ann.put(await ann.frame(question(OTHER)))
        assert (await ann.ask(question())).outcome == "hit"
        await ann.counts()  # the server has written what it counts
        async with (
            Dashboard(url=ann.at.url, browser=browser) as dashboard,
            dashboard.open("/banks/memory?tab=answers") as page,
        ):
            await expect(page.get_by_role("group", name="Ready", exact=True)).to_contain_text("1")
            await expect(page.get_by_role("group", name="Served")).to_contain_text("50 %")
            await expect(page.get_by_role("group", name="Saved tokens")).to_contain_text("120")
            await expect(page.get_by_role("img", name="Lookups by day")).to_be_visible()
            form = page.get_by_role("region", name="Test a question")
            await form.get_by_role("textbox", name="Question").fill(ASKED)
            await form.get_by_role("button", name="Test").click()
            await expect(form.get_by_role("status")).to_contain_text("A hit")
            await expect(form.get_by_role("status")).to_contain_text(SAID)
            await page.get_by_role("button", name=f"Drop {ASKED}").click()
            await page.get_by_role("dialog").get_by_role("button", name="Drop").click()
            await expect(page.get_by_text("No ready answer.")).to_be_visible()
            await form.get_by_role("button", name="Test").click()
            await expect(form.get_by_role("status")).to_contain_text("A miss")
        assert (await ann.ask(question())).outcome == "miss"


async def test_a_viewer_sees_the_statistics_and_cannot_test_or_drop(site: Site) -> None:
    await site.call("POST", "/banks", {"name": "viewed"})
    token = (await site.call("POST", "/tokens", {"name": "vee", "role": "viewer"}))["token"]
    async with site.open("/banks/viewed?tab=answers", token=token) as page:
        await expect(page.get_by_role("group", name="Wasted tokens")).to_contain_text("0")
        form = page.get_by_role("region", name="Test a question")
        await expect(form.get_by_role("button", name="Test")).to_be_disabled()
        await expect(form).to_contain_text("Only an operator can do this.")
