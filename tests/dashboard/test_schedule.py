"""The schedule tab: a draft is seen before it is set, and overwrites nothing."""

import re

import pytest
from playwright.async_api import Page, expect

from tests.dashboard.conftest import NARROW, Site

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("UI-07")]

REFUSED = re.compile("status of 422")
NIGHTLY = {"name": "nightly", "cron": "0 3 * * *"}


async def open_schedule(page: Page) -> None:
    await page.get_by_role("tab", name="Schedule").click()
    await expect(page.get_by_role("heading", name="Routines")).to_be_visible()


async def test_a_routine_is_added_turned_off_and_removed(site: Site) -> None:
    await site.add_agent("planned")
    async with site.open("/agents/planned") as page:
        await open_schedule(page)
        await page.get_by_role("button", name="Add a routine").click()
        await expect(page.get_by_role("textbox", name="Name")).to_be_focused()
        await page.get_by_role("textbox", name="Name").fill("weekly")
        row = page.get_by_role("row").filter(has_text="weekly")
        await expect(row).to_contain_text("0 9 * * mon")
        await expect(row).to_contain_text("new")
        await expect(page.get_by_role("region", name="Next runs").get_by_role("listitem")).to_have_count(10)
        assert not (await site.call("GET", "/agents/planned/schedule"))["routines"], "nothing is set before it is saved"
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("The schedule of planned is changed.")).to_be_visible()
        await row.get_by_role("button", name="Turn off weekly").click()
        await expect(page.get_by_text("No run is due.")).to_be_visible()
        await page.get_by_role("button", name="Save").click()
        await expect(row).not_to_contain_text("changed")
        assert not (await site.call("GET", "/agents/planned/schedule"))["routines"][0]["enabled"]
        await row.get_by_role("button", name="Remove weekly").click()
        await expect(row).to_have_count(0)
        await page.get_by_role("button", name="Discard").click()
        await row.get_by_role("button", name="Remove weekly").click()
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("button", name="Discard")).to_have_count(0)
    assert not (await site.call("GET", "/agents/planned/schedule"))["routines"]


async def test_the_next_ten_runs_and_the_week_follow_what_one_types_in_the_agents_zone(site: Site) -> None:
    await site.add_agent("typed")
    await site.call("PATCH", "/agents/typed/coordination", {"zone": "Asia/Tokyo"})
    await site.call("PUT", "/agents/typed/schedule", {"routines": [NIGHTLY]})
    async with site.open("/agents/typed", locale="en-GB", ignore_errors=REFUSED) as page:
        await open_schedule(page)
        runs = page.get_by_role("region", name="Next runs")
        items = runs.get_by_role("listitem")
        await expect(runs).to_contain_text("Next runs in Asia/Tokyo")
        await expect(items.first).to_contain_text("03:00 nightly")
        chart = page.get_by_role("img", name="Next week in UTC")
        await expect(chart.locator("circle")).to_have_count(7)
        await page.get_by_role("button", name="Edit nightly").click()
        rule = page.get_by_label("Rule")
        await rule.fill("30 4,16 * * *")
        await expect(items.nth(1)).to_contain_text(re.compile("(04|16):30 nightly"))
        await expect(items).to_have_count(10)
        draft = page.get_by_role("img", name="The draft of the next week")
        await expect(draft.locator("circle")).to_have_count(14)
        await rule.fill("61 4 * * *")
        field = page.get_by_role("region", name="Routine nightly")
        await expect(field.get_by_text("Bad minute")).to_be_visible()
        await expect(rule).to_have_attribute("aria-invalid", "true")
        await expect(page.get_by_role("row").filter(has_text="nightly")).to_contain_text("has an error")
        await expect(runs.get_by_role("status")).to_contain_text("has an error")
        await page.get_by_role("combobox", name="Kind").click()
        await page.get_by_role("option", name="interval").click()
        interval = page.get_by_label("Interval in seconds")
        await interval.fill("5")
        await expect(field.get_by_text("greater than or equal to 60")).to_be_visible()
        await expect(interval).to_have_attribute("aria-invalid", "true")
        await interval.fill("7200")
        await expect(draft.locator("circle")).to_have_count(84)
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("The schedule of typed is changed.")).to_be_visible()
    routine = (await site.call("GET", "/agents/typed/schedule"))["routines"][0]
    assert (routine["name"], routine["every_seconds"], routine["cron"]) == ("nightly", 7200, None)


async def test_a_blackout_is_added_changed_and_removed_and_the_routines_stay(site: Site) -> None:
    await site.add_agent("quiet")
    await site.call("PUT", "/agents/quiet/schedule", {"routines": [NIGHTLY]})
    async with site.open("/agents/quiet", ignore_errors=REFUSED) as page:
        await open_schedule(page)
        await page.get_by_role("button", name="Add a blackout").click()
        form = page.get_by_role("region", name="Blackout")
        await form.get_by_label("Label").fill("nights")
        await form.get_by_label("From").fill("25:00")
        await expect(form.get_by_text("'25:00' is not a time of day")).to_be_visible()
        await form.get_by_label("From").fill("01:00")
        await form.get_by_label("sun").uncheck()
        chart = page.get_by_role("img", name="The draft of the next week")
        await expect(chart.locator("rect")).not_to_have_count(0)
        await page.get_by_role("button", name="Save").click()
        row = page.get_by_role("row").filter(has_text="nights")
        await expect(row).not_to_contain_text("new")
        await expect(row).to_contain_text("01:00 to 06:00, mon, tue, wed, thu, fri, sat")
        await row.get_by_role("button", name="Edit the blackout nights").click()
        await form.get_by_role("combobox", name="Kind").click()
        await page.get_by_role("option", name="once").click()
        await form.get_by_label("From").fill("2031-12-24T18:00")
        await form.get_by_label("To").fill("2031-12-27")
        await page.get_by_role("button", name="Save").click()
        await expect(row).to_contain_text("2031-12-24T18:00:00Z to 2031-12-27T00:00:00Z")
        await row.get_by_role("button", name="Remove the blackout nights").click()
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("No blackout.")).to_be_visible()
        await expect(page.get_by_role("button", name="Discard")).to_have_count(0)
    schedule = await site.call("GET", "/agents/quiet/schedule")
    assert ([each["name"] for each in schedule["routines"]], schedule["blackouts"]) == (["nightly"], [])


async def test_a_draft_outlives_a_look_at_another_tab(site: Site) -> None:
    await site.add_agent("distracted")
    async with site.open("/agents/distracted") as page:
        await open_schedule(page)
        await page.get_by_role("button", name="Add a routine").click()
        await page.get_by_role("textbox", name="Name").fill("unsaved")
        await page.get_by_role("tab", name="Inbox").click()
        await expect(page.get_by_role("heading", name="Routines")).to_have_count(0)
        await open_schedule(page)
        await expect(page.get_by_role("row").filter(has_text="unsaved")).to_be_visible()
        await expect(page.get_by_text("1 changed, not saved")).to_be_visible()


async def test_each_act_of_a_routine_can_be_reached_on_a_narrow_screen(site: Site) -> None:
    await site.add_agent("pocket")
    await site.call("PUT", "/agents/pocket/schedule", {"routines": [NIGHTLY]})
    async with site.open("/agents/pocket", viewport=NARROW) as page:
        await open_schedule(page)
        await page.get_by_role("button", name="Edit nightly").click()
        await page.get_by_role("button", name="Turn off nightly").click()
        await expect(page.get_by_text("1 changed, not saved")).to_be_visible()
        await page.get_by_role("button", name="Remove nightly").click()
        await expect(page.get_by_text("No routine yet.")).to_be_visible()


async def test_a_viewer_reads_a_schedule_and_cannot_edit_it(site: Site) -> None:
    await site.add_agent("watched")
    await site.call("PUT", "/agents/watched/schedule", {"routines": [NIGHTLY]})
    token = (await site.call("POST", "/tokens", {"name": "vera", "role": "viewer"}))["token"]
    async with site.open("/agents/watched", token=token) as page:
        await open_schedule(page)
        await expect(page.get_by_role("region", name="Next runs").get_by_role("listitem")).to_have_count(10)
        for name in ("Add a routine", "Edit nightly", "Turn off nightly", "Remove nightly", "Add a blackout"):
            button = page.get_by_role("button", name=name)
            await expect(button).to_have_attribute("aria-disabled", "true")
            await button.click(force=True)
        await expect(page.get_by_role("button", name="Save")).to_be_disabled()
        await expect(page.get_by_role("row").filter(has_text="nightly")).to_be_visible()
