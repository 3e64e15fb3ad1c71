"""The overview's band of needs, its figures and its timeline; the page Timeline; the day of an agent."""

import asyncio
import itertools
import re

import pytest
from playwright.async_api import Page, ViewportSize, expect

from tests.dashboard.conftest import Site, check_accessibility
from tests.dashboard.staged_pass import propose_changes

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("UI-16")]

PHONE: ViewportSize = {"width": 390, "height": 800}
WIDTHS = (390, 480, 700, 769, 900, 1200, 1600, 2560)
_IS_LAID_OUT = """() => [...document.querySelectorAll(".scale")]
  .every((each) => each.clientWidth > 0 && Math.abs(each.clientWidth - each.parentElement.clientWidth) <= 1)"""
"""Whether each scale has the width of its place, which it learns after the window has changed."""
_LABELS = """() => [...document.querySelectorAll(".scale text")].map((each) => each.getBoundingClientRect())
  .map(({ left, right }) => [left, right])"""


async def check_width(page: Page) -> None:
    """Check that nothing is wider than the window."""
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_the_overview_opens_with_what_needs_a_person_and_leads_to_the_act(site: Site) -> None:
    token = await site.add_agent("spender", policy={"max_calls_per_day": 1})
    async with site.open() as page:
        band = page.get_by_role("status", name="Needs you")
        await expect(page.get_by_role("status").filter(has_text="All well")).to_be_visible()
        async with site.ask_model(token) as call:
            assert await call == 200
        await expect(band).to_contain_text("Agent 'spender' is refused calls: max_calls_per_day is used up")
        await expect(band).to_contain_text("1 of 1 calls · for")
        first = page.get_by_role("main").locator("section").first
        await expect(first).to_contain_text("Not all is well")
        await check_accessibility(page)
        await band.get_by_role("link", name="Raise it: spender").click()
        await expect(page.get_by_role("heading", name="spender")).to_be_visible()
    await site.call("PATCH", "/sessions/default/agents/spender", {"policy": {"max_calls_per_day": None}})


async def test_figures_stand_beside_the_mean_of_13_days_and_savings_name_their_rule(site: Site) -> None:
    await site.add_agent("counted")
    await site.set_sleeping("counted", True)
    async with site.open() as page:
        now = page.get_by_role("region", name="Agents now")
        await expect(now.get_by_role("group", name="Asleep", exact=True)).to_contain_text("of the agent hours of today")
        await expect(now.get_by_role("group", name="Spent today")).to_contain_text("13-day mean $0")
        saved = now.get_by_role("group", name="Saved today, estimate")
        await expect(saved).to_contain_text("sleeping $0, memory $0, dreaming $0; 13-day mean $0")
        rule = page.get_by_role("group", name="Waiting while asleep")
        await expect(rule).to_contain_text("an agent that asks every 5 minutes would have paid $0")
        await expect(page.get_by_role("region", name="Money")).to_contain_text("Money, 14 days")
        await expect(page.get_by_role("region", name="Who spends")).to_be_visible()
        await expect(page.get_by_role("heading", name="Wakes in circles")).to_be_visible()


async def test_the_timeline_follows_an_agent_and_is_ordered_by_what_is_asked(site: Site) -> None:
    await site.add_agent("rhythm")
    await site.call("POST", "/sessions", {"name": "lab", "agents": [{"name": "owl"}]})
    await site.set_sleeping("owl", True, session="lab")
    async with site.open() as page:
        timeline = page.get_by_role("region", name="Timeline")
        lane = timeline.get_by_role("listitem").filter(has=page.get_by_role("link", name="rhythm", exact=True))
        await expect(lane).to_contain_text("awake")
        await site.set_sleeping("rhythm", True)
        await expect(lane).to_contain_text("asleep")
        await site.set_sleeping("rhythm", False)
        await expect(lane.get_by_role("img", name="rhythm: asleep for")).to_have_accessible_name(
            re.compile(r"^rhythm: asleep for \d+ s, 0 held calls, 0 pulses, 1 wake, 0 refusals$")
        )
        await expect(timeline).to_contain_text("1 of 1 asleep")  # of the session `lab`
        await expect(timeline.get_by_role("listitem").last).to_contain_text("owl")
        await timeline.get_by_text("longest asleep").click()
        await expect(timeline.get_by_role("listitem").last).not_to_contain_text("owl")
        await timeline.get_by_text("7 days").click()
        await expect(timeline.get_by_role("heading", name="Sleep in the last 7 days")).to_be_visible()
        await timeline.get_by_role("link", name="All agents").click()
        await expect(page.get_by_role("heading", name="Timeline", exact=True)).to_be_visible()
        await expect(page.get_by_role("link", name="lab:owl")).to_be_visible()


async def test_a_place_in_a_lane_says_what_it_was(site: Site) -> None:
    token = await site.add_agent("pointed")
    await site.set_sleeping("pointed", True)
    async with site.open("/agents/pointed") as page, site.ask_model(token) as call:
        await expect(page.get_by_text("1 held call, 0 pulses")).to_be_visible()
        await page.get_by_text("6 h", exact=True).click()
        picture = page.get_by_role("img", name="The last 6 hours")
        box = await picture.bounding_box()
        assert box is not None
        await picture.hover(position={"x": box["width"] - 1, "y": 8})
        await expect(page.locator("[title^='POST /v1/chat/completions: held for']")).to_be_visible()
        await site.set_sleeping("pointed", False)
        assert await call == 200


async def test_the_last_change_of_memory_is_accepted_on_the_overview(site: Site) -> None:
    run = await propose_changes(site, "thought")
    async with site.open() as page:
        band = page.get_by_role("status", name="Needs you")
        await expect(band).to_contain_text("Proposals of a pass over bank 'thought' wait for you")
        watch = page.get_by_role("region", name="Watch")
        await expect(watch).to_contain_text("pass over thought")
        await watch.get_by_role("button", name="Accept").click()
        await expect(page.get_by_text("is published")).to_be_visible()
        await check_accessibility(page)
    await site.call("POST", f"/passes/{run['id']}/refuse")


async def test_overview_and_timeline_fit_on_a_phone_in_both_schemes(site: Site) -> None:
    await site.add_agent("x" * 63)
    for scheme in ("light", "dark"):
        for path in ("/", "/timeline", f"/agents/{'x' * 63}"):
            async with site.open(path, viewport=PHONE, scheme=scheme) as page:
                await expect(page.get_by_role("region", name="Timeline")).to_be_visible()
                await check_width(page)
                await check_accessibility(page)


async def test_the_hours_of_a_scale_do_not_touch_each_other_at_any_width(site: Site) -> None:
    await site.add_agent("scaled")
    async with site.open("/timeline") as page:
        for path in ("/timeline", "/agents/scaled"):
            for time, labels in (("day", "24:00"), ("6 h", ":00"), ("7 days", "-")):
                await page.goto(f"/ui{path}?time={time}")
                await expect(page.locator(".scale text").last).to_contain_text(labels)
                for width in WIDTHS:
                    await page.set_viewport_size({"width": width, "height": 800})
                    async with asyncio.timeout(30):
                        while not await page.evaluate(_IS_LAID_OUT):
                            await asyncio.sleep(0.01)
                    places: list[list[float]] = await page.evaluate(_LABELS)
                    assert len(places) >= 3, (path, time, width, places)
                    gaps = [right[0] - left[1] for left, right in itertools.pairwise(places)]
                    assert min(gaps) >= 4, (path, time, width, gaps)
                    await check_width(page)
