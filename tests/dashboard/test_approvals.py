"""Calls that wait for a person, who approves one and refuses another; and the pages of alarms and of hooks."""

import asyncio
import re
from pathlib import Path

import aiohttp
import pytest
from playwright.async_api import Browser, Page, ViewportSize, expect

from tests.dashboard.conftest import WIDE, Site, check_accessibility, check_cells, serve_site, settle

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("UI-19")]


PHONE: ViewportSize = {"width": 390, "height": 800}


async def ask(site: Site, token: str, content: str) -> tuple[int, str]:
    """Send a model call, and return its status and its answer, once it has one."""
    body = {"model": "mock-1", "messages": [{"role": "user", "content": content}]}
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as http,
        http.post(f"{site.url}/llm/openai/v1/chat/completions", json=body) as answer,
    ):
        return answer.status, await answer.text()


async def open_approval(page: Page, content: str) -> None:
    """Wait until the page shows the only call that waits, by itself."""
    item = page.get_by_role("list", name="Approvals").get_by_role("listitem")
    await expect(item).to_have_count(1)
    await expect(item).to_contain_text(content)
    await expect(item).to_contain_text("The model mock-1 needs a person's yes")
    await check_accessibility(page)


async def test_a_call_that_waits_is_approved_and_the_next_one_refused_with_a_reason(
    browser: Browser, tmp_path: Path
) -> None:
    async with (
        serve_site(tmp_path, browser, defaults={"hold_grace_seconds": 60, "hold_silent_seconds": 60}) as site,
        site.open("/for-you?tab=approvals") as page,
        asyncio.timeout(60),
    ):
        token = await site.add_agent("careful", policy={"approve_models": ["mock-1"]})
        await expect(page.get_by_text("No call waits for a person.")).to_be_visible()
        first = asyncio.create_task(ask(site, token, "buy one pump"))
        await open_approval(page, "buy one pump")
        await expect(page.get_by_role("link", name="For you")).to_contain_text(re.compile("[12]"))  # with its alert
        assert not site.upstream.requests
        await page.get_by_role("button", name="Approve POST /v1/chat/completions of careful").click()
        assert (await first)[0] == 200
        second = asyncio.create_task(ask(site, token, "buy ten pumps"))
        await open_approval(page, "buy ten pumps")
        await page.get_by_role("button", name="Refuse POST /v1/chat/completions of careful").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Reason").fill("one pump is enough")
        await check_accessibility(page)
        await dialog.get_by_role("button", name="Refuse").click()
        status, answer = await second
        assert status == 403
        assert "one pump is enough" in answer
        await expect(page.get_by_text("No call waits for a person.")).to_be_visible()
        assert len(site.upstream.requests) == 1


async def test_the_pages_of_alarms_and_of_hooks_are_accessible_without_a_row_and_with_one(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_HOOK_SECRET", "signs-what-github-sends-32-letters")
    pages = {"alarms": "tidy", "hooks": "github"}
    async with serve_site(tmp_path, browser) as site, site.open("/alarms") as page:
        for name in pages:
            await page.goto(f"/ui/{name}")
            await settle(page)
            await check_accessibility(page)
        await site.add_agent("owner", policy={"own_routines": 1})
        routine = {"every_seconds": 3600, "instructions": "Tidy the notes."}
        await site.call("PUT", "/agents/owner/alarms/tidy", routine)
        hook = {"agent": "owner", "signature": "github", "secret_env": "GITHUB_HOOK_SECRET"}
        await site.call("PUT", "/hooks/github", hook)
        for name, row in pages.items():
            await page.set_viewport_size(PHONE)
            await page.goto(f"/ui/{name}")
            await settle(page)
            await check_cells(page)
            await page.set_viewport_size(WIDE)
            table = page.get_by_role("table", name=name.capitalize())
            await expect(table.get_by_role("row").filter(has_text=row)).to_be_visible()
            await check_accessibility(page)
        await page.get_by_role("button", name="Deliveries of github").click()
        await expect(page.get_by_role("dialog")).to_contain_text("No delivery was accepted yet.")
        await check_accessibility(page)
