"""Calls one by one, and the ways to them (UI-17)."""

import asyncio

import pytest
from playwright.async_api import expect

from tests.dashboard.conftest import NARROW, Site, check_accessibility

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("UI-17")]


async def make_calls(site: Site, name: str, count: int) -> None:
    token = await site.add_agent(name)
    for _ in range(count):
        async with site.ask_model(token) as call:
            assert await call == 200
    async with asyncio.timeout(20):  # the ledger is written behind the answers
        while len((await site.call("GET", f"/calls?agent={name}"))["calls"]) < count:
            await asyncio.sleep(0.05)


async def test_each_figure_leads_to_the_calls_behind_it_and_each_call_to_its_details(site: Site) -> None:
    await make_calls(site, "caller", 3)
    await make_calls(site, "other", 1)
    async with site.open("/usage") as page:
        await page.get_by_role("row").filter(has_text="caller").get_by_role("link").click()
        rows = page.get_by_role("table", name="Calls").get_by_role("row").filter(has_text="caller")
        await expect(rows).to_have_count(3)
        await expect(page.get_by_role("row").filter(has_text="other")).to_have_count(0)
        await rows.first.get_by_role("button", name="Show the call").click()
        drawer = page.get_by_role("dialog", name="The call")
        await expect(drawer).to_contain_text("Stopped by")
        await expect(drawer.get_by_role("row").filter(has_text="Stopped by")).to_contain_text("stop")
        await expect(drawer).to_contain_text("keeps no texts of calls")
        await check_accessibility(page)
        address = page.url
        assert "call=call_" in address
        await page.go_back()
        await expect(drawer).to_have_count(0)
        await page.go_forward()
        await expect(drawer).to_be_visible()
    async with site.open(address.removeprefix(f"{site.url}/ui"), viewport=NARROW) as page:
        await expect(page.get_by_role("dialog", name="The call")).to_be_visible()
        await check_accessibility(page)


async def test_calls_are_filtered_and_an_empty_filter_is_told_from_an_empty_server(site: Site) -> None:
    await make_calls(site, "filtered", 2)
    async with site.open("/calls?agent=filtered") as page:
        table = page.get_by_role("table", name="Calls")
        await expect(table.get_by_role("row")).to_have_count(3)
        await page.get_by_role("textbox", name="Model").fill("gpt-none")
        await expect(page.get_by_text("No call meets these filters.")).to_be_visible()
        await page.get_by_role("button", name="Clear the filters").click()
        await expect(table.get_by_role("row").filter(has_text="filtered")).to_have_count(2)
        await page.get_by_role("combobox", name="State").click()
        await page.get_by_role("option", name="failed").click()
        await expect(page.get_by_text("No call meets these filters.")).to_be_visible()
        assert page.url.endswith("?status=failed")


async def test_a_held_call_is_shown_as_the_others_are(site: Site) -> None:
    token = await site.add_agent("waits", sleep_events=["agent_started"])
    async with site.open("/holds") as page, site.ask_model(token) as call:
        row = page.get_by_role("row").filter(has_text="waits")
        await row.get_by_role("link", name="POST").click()
        drawer = page.get_by_role("dialog", name="The call")
        await expect(drawer).to_contain_text("mock-1")
        await expect(drawer).to_contain_text("It waits for its agent to wake")
        await page.keyboard.press("Escape")
        await expect(drawer).to_have_count(0)
        await row.get_by_role("checkbox").check()
        await page.get_by_role("button", name="Drop 1 held call").click()
        await page.get_by_role("dialog").get_by_role("button", name="Drop").click()
        await expect(page.get_by_text("1 dropped.")).to_be_visible()
        await call
