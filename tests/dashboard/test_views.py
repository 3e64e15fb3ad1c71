"""Views are addresses, and one search leads to them (UI-20)."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.dashboard.conftest import NARROW, Site, check_accessibility
from tests.dashboard.staged_pass import propose_changes

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("UI-20")]

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
MOST_PAGE_WAITS_MS = 250
"""Milliseconds that a page may wait for timers of its own before it shows."""


async def open_palette(page: Page, keys: str = "Control+k") -> None:
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await page.keyboard.press(keys)
    await expect(page.get_by_role("combobox", name="Name, id, page or act")).to_be_focused()


async def test_tab_filter_order_and_drawer_are_in_the_address_and_back_goes_back(site: Site) -> None:
    await site.add_agent("viewed")
    async with site.open("/agents/viewed") as page:
        await page.get_by_role("tab", name="Inbox").click()
        await expect(page).to_have_url(re.compile(r"\?tab=inbox$"))
        await page.get_by_role("tab", name="Budgets").click()
        await page.go_back()
        await expect(page.get_by_role("tab", name="Inbox")).to_have_attribute("aria-selected", "true")
        await page.reload()
        await expect(page.get_by_role("tab", name="Inbox")).to_have_attribute("aria-selected", "true")
    async with site.open("/agents") as page:
        await page.get_by_role("textbox", name="Filter by name").fill("viewed")
        await expect(page).to_have_url(re.compile(r"\?name=viewed$"))
        await page.get_by_role("button", name="Agent", exact=True).click()
        await expect(page).to_have_url(re.compile("order=-agent"))
        await page.reload()
        await expect(page.get_by_role("textbox", name="Filter by name")).to_have_value("viewed")
        header = page.get_by_role("columnheader", name="Agent")
        await expect(header).to_have_attribute("aria-sort", "descending")


async def test_one_search_finds_things_of_the_server_pages_and_acts_by_name(site: Site) -> None:
    await site.add_agent("sought")
    await site.call("POST", "/banks", {"name": "sought-bank"})
    async with site.open("/agents") as page:
        await open_palette(page)
        await page.keyboard.type("sought")
        options = page.get_by_role("listbox", name="Choices").get_by_role("option")
        await expect(options.filter(has_text="sought-bank")).to_be_visible()
        await check_accessibility(page)
        await options.filter(has_text="Sleep sought").click()
        await expect(page.get_by_text("sought put to sleep.")).to_be_visible()
        assert (await site.call("GET", "/sessions/default/agents/sought"))["sleeping"]
        await open_palette(page, "/")
        await page.keyboard.type("configur")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Configuration")).to_be_visible()
        await open_palette(page)
        await page.keyboard.type("bank sought")
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("listbox", name="Choices")).to_have_count(0)
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog", name="Keys")).to_contain_text("Find and act")
    async with site.open("/agents", viewport=NARROW) as page:
        await page.get_by_role("button", name="Find and act").click()
        await expect(page.get_by_role("combobox", name="Name, id, page or act")).to_be_focused()
        await page.keyboard.type("add an")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("dialog", name="Add an agent")).to_be_visible()


async def test_a_view_is_kept_under_a_name_and_forgotten(site: Site) -> None:
    async with site.open("/events?type=alert") as page:
        await open_palette(page)
        await page.keyboard.type("my alerts")
        await page.get_by_role("option", name="Keep this view as").click()
        await expect(page.get_by_text("The view is kept")).to_be_visible()
        await page.goto("/ui/agents")
        await open_palette(page)
        await page.keyboard.type("my alerts")
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(re.compile(r"/events\?type=alert$"))
        await open_palette(page)
        await page.keyboard.type("my alerts")
        await page.get_by_role("option", name="Forget the view").click()
        await open_palette(page)
        await expect(page.get_by_role("option", name="my alerts")).to_have_count(0)


async def test_a_list_is_saved_as_csv_in_its_order(site: Site, tmp_path: Path) -> None:
    for name in ("=first", "second"):
        await site.call("POST", "/banks", {"name": name.strip("="), "description": name})
    async with site.open("/banks?name=") as page:
        async with page.expect_download() as download:
            await page.get_by_role("button", name="CSV of Banks").click()
        await (await download.value).save_as(tmp_path / "banks.csv")
    header, *lines = (tmp_path / "banks.csv").read_text("utf-8").splitlines()
    assert header.split(",")[0] == "Bank"
    names = [line.split(",")[0] for line in lines]
    assert names == sorted(names)
    assert {"first", "second"} <= set(names)


async def test_a_typed_name_mentions(site: Site) -> None:
    await site.add_agent("mentioned")
    thread = await site.call("POST", "/sessions/default/threads", {"name": "long", "participants": ["mentioned"]})
    async with site.open(f"/threads/default/{thread['id']}") as page:
        await page.get_by_role("textbox", name="Message").fill("@mentioned, please look")
        await page.get_by_role("button", name="Send as operator").click()
        await expect(page.get_by_role("log", name="Messages")).to_contain_text("please look")
    (message,) = (await site.call("GET", f"/sessions/default/threads/{thread['id']}/messages"))["messages"]
    assert message["mentions"] == ["mentioned"]


async def test_wakes_are_filtered_and_deferred_ones_are_cancelled_together(site: Site) -> None:
    await site.add_agent("busy-one", sleep_events=["agent_started"])
    await site.call("PATCH", "/agents/busy-one/coordination", {"wake_guardrails": {"cooldown_seconds": 3_600}})
    for _ in range(3):
        await site.call("POST", "/wakes", {"to": "busy-one", "reason": "blocker", "message": "look"})
    deferred = (await site.call("GET", "/wakes?agent=busy-one&decision=deferred"))["wakes"]
    async with site.open("/wakes?agent=busy-one&decision=deferred") as page:
        rows = page.get_by_role("table", name="Wakes").get_by_role("row").filter(has_text="deferred")
        await expect(rows).to_have_count(len(deferred))
        await page.get_by_role("checkbox", name="Select all").check()
        await page.get_by_role("button", name="that are selected").click()
        await page.get_by_role("dialog").get_by_role("button", name="Cancel").last.click()
        await expect(page.get_by_text(f"{len(deferred)} cancelled.")).to_be_visible()
        await expect(rows).to_have_count(0)


async def test_selected_proposals_are_refused_together_and_the_others_wait_on(site: Site) -> None:
    run = await propose_changes(site, "bulk")
    async with site.open(f"/passes/{run['id']}") as page:
        for number in (1, 2):
            await page.get_by_role("checkbox", name=f"Select change {number}", exact=True).check()
        await page.get_by_role("button", name="Refuse selected").click()
        question = page.get_by_role("dialog")
        await expect(question).to_contain_text("Refuses 2 changes")
        await question.get_by_role("button", name="Refuse selected").click()
        await expect(page.get_by_text("The changes are refused.")).to_be_visible()
        await expect(page.get_by_role("checkbox", name="Select change 1", exact=True)).to_have_count(0)
    changes = (await site.call("GET", f"/passes/{run['id']}/changes"))["changes"]
    assert [change["state"] for change in changes][:3] == ["refused", "refused", "staged"]


async def test_a_page_shows_as_soon_as_its_file_has_come(site: Site) -> None:
    waited = 0
    async with site.open("/holds", clock=NOON) as page:
        await page.clock.pause_at(NOON + timedelta(hours=1))
        await page.evaluate("address => history.pushState(null, '', address)", "/ui/providers")
        while not await page.get_by_role("heading", level=1, name="Providers").is_visible():
            assert waited < MOST_PAGE_WAITS_MS, "the page waits for a timer"
            await page.clock.run_for(1)
            waited += 1


async def test_a_page_whose_file_did_not_come_is_loaded_at_the_next_try(site: Site) -> None:
    async with site.open("/holds", ignore_errors=re.compile("ERR_FAILED|Failed to fetch")) as page:
        await page.route("**/assets/providers-*", lambda route: route.abort())
        await page.evaluate("address => history.pushState(null, '', address)", "/ui/providers")
        await expect(page.get_by_role("alert")).to_contain_text("Failed to fetch")
        await page.unroute("**/assets/providers-*")
        await page.get_by_role("button", name="Try again").click()
        await expect(page.get_by_role("heading", level=1, name="Providers")).to_be_visible()


async def test_an_address_with_an_unknown_tab_opens_a_known_one(site: Site) -> None:
    await site.add_agent("tabbed", policy={"bank": "tabbed"})
    await site.call("POST", "/banks", {"name": "tabbed"})
    async with site.open("/") as page:
        for address in ("/agents/tabbed", "/banks/tabbed", "/wakes", "/for-you"):
            await page.goto(f"/ui{address}?tab=dya")
            await expect(page.get_by_role("tab", selected=True)).to_have_count(1)
            await expect(page.get_by_role("tabpanel")).to_be_visible()
