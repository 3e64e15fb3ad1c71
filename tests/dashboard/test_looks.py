"""Looks: the font, rows, zones, colours of state, small screens, and what is open or still loads."""

import asyncio
import re

import pytest
from playwright.async_api import Page, Route, expect

from tests.dashboard.conftest import Site, check_accessibility
from tests.dashboard.test_quality import settle

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("UI-21")]

SMALL = {"width": 390, "height": 800}
_BROKEN_WORDS = """() => [...document.querySelectorAll("button, label, th, [role=tab], [role=columnheader]")]
  .filter((each) => each.checkVisibility() && each.clientWidth > 0)
  .filter((each) => {
    const words = document.createTreeWalker(each, NodeFilter.SHOW_TEXT);
    for (let node = words.nextNode(); node; node = words.nextNode()) {
      for (const word of node.data.matchAll(/[A-Za-z]{2,}/g)) {
        const range = document.createRange();
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        const tops = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
        if (tops.size > 1) return true;
      }
    }
    return false;
  })
  .map((each) => each.outerHTML.slice(0, 200))"""
"""Labels of our own of which a word is on two lines."""


async def open_menu(page: Page) -> None:
    await page.get_by_role("button", name="operator").click()
    await expect(page.get_by_role("menuitemradio").first).to_be_visible()


async def test_one_font_of_the_page_s_own_is_used_at_13_px(site: Site) -> None:
    async with site.open("/agents") as page:
        await settle(page)
        assert await page.evaluate("document.fonts.ready.then(() => document.fonts.check('13px \"Inter Latin\"'))")
        fonts = await page.evaluate("[...document.fonts].map(({status}) => status)")
        assert fonts == ["loaded"]
        assert await page.evaluate("getComputedStyle(document.body).fontSize") == "13px"
        licence = await page.request.get("/ui/inter-OFL.txt")
        assert "SIL OPEN FONT LICENSE" in (await licence.text()).upper()


async def test_the_menu_and_dialogs_are_accessible_and_the_density_of_rows_is_kept(site: Site) -> None:
    await site.add_agent("dense")
    async with site.open("/agents") as page:
        row = page.get_by_role("row").filter(has_text="dense")
        await expect(row).to_be_visible()
        assert await row.evaluate("(each) => each.offsetHeight") == 32
        await open_menu(page)
        await check_accessibility(page)
        await page.get_by_role("menuitemradio", name="Dense").click()
        await check_accessibility(page)
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("menuitemradio")).to_have_count(0)
        await expect(row).to_have_js_property("offsetHeight", 28)
        await page.reload()
        await expect(row).to_have_js_property("offsetHeight", 28)
        await page.goto("/ui/agents/dense")
        await page.get_by_role("button", name="Delete").click()
        await expect(page.get_by_role("dialog")).to_be_visible()
        await check_accessibility(page)


async def test_times_are_shown_in_utc_locally_and_in_the_agent_s_zone(site: Site) -> None:
    await site.add_agent("zoned")
    await site.call("PATCH", "/agents/zoned/coordination", {"zone": "Asia/Tokyo"})
    async with site.open("/agents/zoned", timezone_id="America/New_York", locale="en-GB") as page:
        time = page.get_by_role("status", name="State and next wake").locator("time").first
        for name, zone in (("In my time zone", "GMT-"), ("In UTC", "UTC"), ("In the agent's zone", "GMT+9")):
            await open_menu(page)
            await page.get_by_role("menuitemradio", name=name).click()
            await expect(time).to_have_attribute("title", re.compile(re.escape(zone)))
            await page.keyboard.press("Escape")
            await expect(page.get_by_role("menuitemradio")).to_have_count(0)


async def test_a_page_that_loads_is_accessible(site: Site) -> None:
    go_on = asyncio.Event()

    async def delay(route: Route) -> None:
        await go_on.wait()
        await route.continue_()

    async with site.open("/overview-is-none") as page:
        for path in ("/", "/agents", "/wakes", "/for-you", "/usage", "/passes"):
            go_on.clear()
            await page.route(re.compile(r"/api/v1/(overview|agents|wakes|proposals|usage|sleeptime|passes)"), delay)
            await page.goto(f"/ui{path}")
            await expect(page.locator("[aria-busy=true]").first).to_be_visible()
            await check_accessibility(page)
            go_on.set()
            await settle(page)
            await page.unroute_all(behavior="wait")


async def test_at_390_px_wakes_name_their_agent_charts_have_readable_letters_and_no_word_is_broken(site: Site) -> None:
    await site.add_agent("small")
    await site.call("POST", "/wakes", {"to": "small", "reason": "user_request", "message": "hello"})
    async with site.open("/wakes", viewport=SMALL) as page:
        link = page.get_by_role("table", name="Wakes").get_by_role("link", name="small")
        await expect(link).to_be_visible()
        box = await link.bounding_box()
        assert box is not None
        assert box["width"] > 30, box
        for path in ("/wakes", "/agents", "/usage", "/for-you", "/agents/small", "/passes", "/messages", "/cluster"):
            await page.goto(f"/ui{path}")
            await settle(page)
            broken: list[str] = await page.evaluate(_BROKEN_WORDS)
            assert not broken, (path, broken)
        await page.goto("/ui/agents/small")
        letters = page.get_by_role("img", name=re.compile("Today in UTC")).locator("text").first
        box = await letters.bounding_box()
        assert box is not None
        assert box["height"] > 9, box


async def test_rows_of_ready_answers_do_not_overlap_and_a_failed_pulse_is_not_green(site: Site) -> None:
    async with site.open("/agents") as page:
        await settle(page)
        colours: list[str] = await page.evaluate(
            """["asleep", "awake", "held", "pulse", "dream", "good", "bad"].map(
              (tone) => getComputedStyle(document.documentElement).getPropertyValue(`--tone-${tone}`).trim())"""
        )
        series: list[str] = await page.evaluate(
            """[1, 2, 3, 4, 5, 6, 7].map(
              (number) => getComputedStyle(document.documentElement).getPropertyValue(`--series-${number}`).trim())"""
        )
    assert len({*colours, *series}) == 14, "a state has a colour that no other state and no series has"
