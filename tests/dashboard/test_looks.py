"""Looks: the font, rows, zones, colours of state, small screens, and what is open or still loads."""

import asyncio
import itertools
import re

import pytest
from playwright.async_api import Page, Route, expect

from tests.dashboard.conftest import Site, check_accessibility, check_cells, settle

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("UI-21")]

SMALL = {"width": 390, "height": 800}
SMALL_PAGES = (
    "/wakes", "/agents", "/usage", "/for-you", "/agents/small", "/passes", "/messages", "/cluster", "/providers",
    "/sessions", "/configuration", "/events", "/banks/small?tab=episodes",
)  # fmt: skip
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
            await page.route(re.compile(r"/api/v1/(overview|agents|wakes|approvals|usage|sleeptime|passes)"), delay)
            await page.goto(f"/ui{path}")
            await expect(page.locator("[aria-busy=true]").first).to_be_visible()
            await check_accessibility(page)
            go_on.set()
            await settle(page)
            await page.unroute_all(behavior="wait")


async def test_at_390_px_wakes_name_their_agent_charts_have_readable_letters_and_no_word_is_broken(site: Site) -> None:
    await site.add_agent("small")
    await site.call("POST", "/wakes", {"to": "small", "reason": "user_request", "message": "hello"})
    await site.call("POST", "/banks", {"name": "small"})
    await site.call("POST", "/banks/small/episodes", {"text": "The shop opens at nine.", "speaker": "coder"})
    async with site.open("/wakes", viewport=SMALL) as page:
        link = page.get_by_role("table", name="Wakes").get_by_role("link", name="small")
        await expect(link).to_be_visible()
        box = await link.bounding_box()
        assert box is not None
        assert box["width"] > 30, box
        for path in SMALL_PAGES:
            await page.goto(f"/ui{path}")
            await settle(page)
            await check_cells(page)
            broken: list[str] = await page.evaluate(_BROKEN_WORDS)
            assert not broken, (path, broken)
        await page.goto("/ui/agents/small")
        letters = page.get_by_role("region", name="Timeline").locator("svg text").first
        box = await letters.bounding_box()
        assert box is not None
        assert box["height"] > 9, box


async def test_at_390_px_the_overview_and_an_agent_s_day_keep_their_hours_within_their_frame(site: Site) -> None:
    await site.add_agent("framed")
    async with site.open("/", viewport=SMALL) as page:
        for path in ("/", "/agents/framed"):
            await page.goto(f"/ui{path}")
            await settle(page)
            frame = await page.get_by_role("region", name="Timeline").bounding_box()
            assert frame is not None
            for label in await page.locator(".scale text").all():
                box = await label.bounding_box()
                assert box is not None
                assert frame["x"] < box["x"], (path, box, frame)
                assert box["x"] + box["width"] < frame["x"] + frame["width"], (path, box, frame)


async def test_at_390_px_an_agent_in_a_pulse_and_the_facts_of_a_call_have_room(site: Site) -> None:
    token = await site.add_agent("pulsing")
    async with site.ask_model(token) as call:
        assert await call == 200

    async def answer(route: Route) -> None:
        response = await route.fetch()
        listed = await response.json()
        for agent in listed["agents"]:
            agent["pulsing"] = True
        await route.fulfill(response=response, json=listed)

    async with site.open("/calls", viewport=SMALL) as page:
        row = page.get_by_role("table", name="Calls").get_by_role("row").filter(has_text="pulsing")
        await row.get_by_role("button", name="Show the call").click()
        facts = page.get_by_role("dialog").get_by_role("table").first
        await expect(facts).to_contain_text("mock-1")
        box = await facts.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= SMALL["width"], box
        await page.route(re.compile(r"/api/v1/agents(\?|$)"), answer)
        await page.goto("/ui/agents")
        await expect(page.get_by_role("row").filter(has_text="pulsing")).to_contain_text("in a pulse")
        await check_cells(page)


async def test_rows_of_ready_answers_do_not_overlap_whatever_they_say(site: Site) -> None:
    await site.call("POST", "/banks", {"name": "rows"})
    why_not = "block 'hours' has version 3, and the answer rests on version 2, which said something else"
    rows = [
        {
            "id": f"ans_{number}", "agent": "ann", "question": "When does it open? " * 9, "text": "At 9.\n" * 9,
            "stands": False, "why_not": why_not, "made_at": "2026-01-01T00:00:00Z", "uses": number, "usd": 0.1,
        }
        for number in range(3)
    ]  # fmt: skip

    async def answer(route: Route) -> None:
        await route.fulfill(json={"bank": "rows", "answers": rows, "after": None})

    async with site.open("/agents") as page:
        await page.route(re.compile(r"/banks/rows/answers(\?|$)"), answer)
        await page.goto("/ui/banks/rows?tab=answers")
        cells = page.get_by_role("table", name="Ready answers").get_by_role("cell")
        await expect(cells.first).to_be_visible()
        spans: list[tuple[float, float]] = await page.evaluate(
            """[...document.querySelectorAll(".table-body .table-row")].map((row) => [
              Math.min(...[...row.children].map((each) => each.getBoundingClientRect().top)),
              Math.max(...[...row.children].map((each) => each.getBoundingClientRect().bottom))])"""
        )
    assert len(spans) == 3
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(sorted(spans))), spans


async def test_seven_states_and_seven_series_have_colours_of_their_own_in_light_and_dark(site: Site) -> None:
    for scheme in ("light", "dark"):
        async with site.open("/agents", scheme=scheme) as page:
            await settle(page)
            colours: list[str] = await page.evaluate(
                """[...["asleep", "awake", "held", "pulse", "dream", "good", "bad"].map((tone) => `--tone-${tone}`),
                  ...[1, 2, 3, 4, 5, 6, 7].map((number) => `--series-${number}`)]
                  .map((name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim())"""
            )
        assert "" not in colours
        assert len(set(colours)) == 14, colours
