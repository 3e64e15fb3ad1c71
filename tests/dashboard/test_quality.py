"""Every page: readable by anyone, on any screen, with any name, and without an error."""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, ViewportSize, expect

from tests.dashboard.conftest import (
    HOSTILE,
    MARKUP,
    NARROW,
    WIDE,
    ColourScheme,
    Site,
    check_accessibility,
    serve_site,
    settle,
)
from tests.dashboard.staged_pass import propose_changes
from tests.house.tree import ROOT

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("UI-13"), pytest.mark.timeout(300)]

REGISTRY = ROOT / "dashboard" / "src" / "pages" / "registry.ts"
PATTERNS = re.findall(r'path: "([^"]+)"', REGISTRY.read_text("utf-8"))
PARAMETERS = {":reference": HOSTILE, ":bank": "bank", ":session": "default"}
OPENED = ("/banks/bank?q=evil", "/banks/reviewed?note=not_1_reviewed", "/banks/bank?tab=blocks&block=human")
"""Pages with something opened in them, besides their tabs."""
Looks = Mapping[ColourScheme, ViewportSize]
"""The size of the window for each colour scheme."""
MOST_SCRIPT_BYTES = 350_000
MOST_TABS = 400
TABS_AT_ONCE = 20
_DRAW = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Wait until what has changed is drawn, transitions too."""
_READ_LOOK = """() => {
  const { dataset, scrollWidth } = document.documentElement;
  return [scrollWidth, innerWidth, dataset.mantineColorScheme, getComputedStyle(document.body).backgroundColor];
}"""
_WATCH_FOCUS = """() => {
  document.activeElement.blur();
  window.reached = new Set();
  window.isRound = false;
  document.addEventListener("focusin", ({ target }) => {
    window.isRound ||= target === window.reached.values().next().value;
    window.reached.add(target);
  });
}"""
"""Keep what has had the focus, and whether the first of these has it again."""
_FIND_MISSED = """() => [...(document.querySelector("[aria-modal=true]") ?? document).querySelectorAll("*")]
  .filter((each) => each.checkVisibility({ visibilityProperty: true }) && getComputedStyle(each).cursor === "pointer")
  .filter((each) => each.getBoundingClientRect().width * each.getBoundingClientRect().height > 0)
  .filter((each) => !each.closest(":disabled, [aria-disabled=true]"))
  .filter((each) => !each.closest("label") && !each.closest("[role=tab][aria-selected=false]"))
  .filter((each) => ![...window.reached].some((one) =>
    one.contains(each) || (one.matches("input") && each.contains(one))))
  .map((each) => each.outerHTML.slice(0, 200))"""
"""What has the cursor of a link and is not in an element that had the focus; arrow keys reach the other tabs."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def furnished(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> AsyncGenerator[Site]:
    """A server with one of everything, under the names that nobody should choose."""
    folder = tmp_path_factory.mktemp("memory")
    for name in ("MEMORY.md", f"{HOSTILE} <b>.md"):
        (folder / name).write_text(f"# {MARKUP}\n\n- {MARKUP * 5}\n", "utf-8")
    dreams = {HOSTILE: {"folder": str(folder), "watch": False}}
    async with serve_site(tmp_path_factory.mktemp("furnished"), browser, dreams=dreams) as site:
        asked = {"inputs": [{"type": "folder", "name": HOSTILE}], "instructions": MARKUP}
        PARAMETERS[":dream"] = (await site.call("POST", "/dreams", asked))["id"]
        token = await site.add_agent(HOSTILE, description=MARKUP * 20, policy={"bank": "bank"})
        await site.call("POST", "/sessions", {"name": "s" * 63, "agents": [{"name": HOSTILE, "description": MARKUP}]})
        wake = {"to": HOSTILE, "message": MARKUP * 10, "reason": "user_request"}
        PARAMETERS[":root"] = (await site.call("POST", "/wakes", wake))["root"]
        for content in (MARKUP * 10, MARKUP):
            letter = await site.call("POST", "/messages", {"to": HOSTILE, "content": content, "priority": "low"})
        await site.set_aside(HOSTILE, letter["message"])
        thread = await site.call("POST", "/sessions/default/threads", {"name": MARKUP, "participants": [HOSTILE]})
        PARAMETERS[":thread"] = thread["id"]
        messages = f"/sessions/default/threads/{thread['id']}/messages"
        await site.call("POST", messages, {"from": "user", "content": MARKUP * 9})
        await site.call("POST", "/banks/bank/episodes", {"text": MARKUP, "speaker": MARKUP})
        await site.call("PUT", "/banks/bank/blocks/human", {"value": MARKUP * 5})
        PARAMETERS[":pass"] = (await propose_changes(site, "reviewed", suffix=MARKUP))["id"]
        routine = {"name": "weekly", "cron": "0 9 * * mon", "instructions": MARKUP}
        await site.call("PUT", f"/agents/{HOSTILE}/schedule", {"routines": [routine]})
        async with site.ask_model(token) as call:
            assert await call == 200
        held = await site.add_agent("h" * 63, sleep_events=["agent_started"])
        async with site.ask_model(held):
            async with asyncio.timeout(20):
                while not (await site.call("GET", "/holds"))["total"]:
                    await asyncio.sleep(0.05)
                while (await site.call("GET", f"/dreams/{PARAMETERS[':dream']}"))["ended_at"] is None:
                    await asyncio.sleep(0.05)
            yield site


def addresses() -> list[str]:
    return [re.sub(r":\w+", lambda name: PARAMETERS[name.group()], pattern) for pattern in (*PATTERNS, *OPENED)]


async def check_looks(page: Page, looks: Looks) -> None:
    """Check what a page shows in each look."""
    for scheme, viewport in looks.items():
        await page.emulate_media(color_scheme=scheme)
        await page.set_viewport_size(viewport)
        await page.evaluate(_DRAW)
        await settle(page)
        await check_accessibility(page)
        width, most, shown, background = await page.evaluate(_READ_LOOK)
        assert width <= most, (page.url, scheme, width)
        assert (shown, background == "rgb(255, 255, 255)") == (scheme, scheme == "light")


@pytest.mark.parametrize(
    "looks",
    [
        pytest.param({"light": WIDE, "dark": NARROW}, id="light-wide-dark-narrow"),
        pytest.param({"light": NARROW, "dark": WIDE}, id="light-narrow-dark-wide", marks=pytest.mark.slow),
    ],
)
async def test_every_page_is_accessible_fits_with_hostile_names_and_works_by_the_tab_key(
    furnished: Site, looks: Looks
) -> None:
    async with furnished.open("/") as page:
        for address in addresses():
            await page.set_viewport_size(looks["light"])
            await page.goto(f"/ui{address}")
            await settle(page)
            if looks["light"] == WIDE:
                await check_tab_key(page, address)
            await check_looks(page, looks)
            for tab in [] if address in OPENED else await page.get_by_role("tab").all():
                await tab.click()
                await check_looks(page, looks)
        assert await page.locator("img").count() == 0


async def check_tab_key(page: Page, address: str) -> None:
    """Check that the Tab key reaches all that a pointer can act on, and leaves it again."""
    await page.evaluate(_WATCH_FOCUS)
    for _ in range(MOST_TABS // TABS_AT_ONCE):
        await asyncio.gather(*(page.keyboard.press("Tab") for _ in range(TABS_AT_ONCE)))
        if await page.evaluate("window.isRound"):
            break
    else:
        raise AssertionError(f"{address} does not let the focus go")
    missed: list[str] = await page.evaluate(_FIND_MISSED)
    assert not missed, (address, missed)
    assert await page.evaluate("window.reached.size") > 1, address


async def test_every_page_of_an_empty_server_says_what_to_do_next(site: Site) -> None:
    async with site.open("/") as page:
        for address in [pattern for pattern in PATTERNS if ":" not in pattern]:
            await page.evaluate("address => history.pushState(null, '', address)", f"/ui{address}")
            await page.evaluate(_DRAW)
            await settle(page)
            await check_accessibility(page)
        await page.goto("/ui/dreams")
        await expect(page.get_by_text("names no memory folder")).to_be_visible()
        await expect(page.get_by_text("There was no dream yet")).to_be_visible()


async def test_the_server_goes_away_and_comes_back_and_no_event_is_missed(browser: Browser, tmp_path: Any) -> None:
    async with serve_site(tmp_path, browser) as site:
        await site.add_agent("patient")
        async with site.open("/agents", ignore_errors=re.compile("Failed to load|ERR_")) as page:
            row = page.get_by_role("row").filter(has_text="patient")
            await expect(row).to_contain_text("awake")
            await site.server.kill9()
            await expect(page.get_by_role("banner").get_by_role("status")).to_have_text("Reconnecting")
            await expect(row).to_contain_text("awake")
            await site.server.start()
            await site.set_sleeping("patient", True)
            await expect(page.get_by_role("banner").get_by_role("status")).to_have_text("Live")
            await expect(row).to_contain_text("asleep")


async def test_ten_thousand_agents_are_listed_filtered_sorted_and_followed(browser: Browser, tmp_path: Any) -> None:
    async with serve_site(tmp_path, browser) as site:
        for part in range(10):
            agents = [{"name": f"agent-{part}-{number:03}"} for number in range(1000)]
            await site.call("POST", "/sessions", {"name": f"part-{part}", "agents": agents})
        async with site.open("/agents") as page:
            await expect(page.get_by_text("10,000 of 10,000 agents")).to_be_visible()
            assert await page.get_by_role("row").count() < 100
            await page.get_by_role("button", name="Agent", exact=True).click()
            await expect(page.get_by_role("row").nth(1)).to_contain_text("part-9:agent-9-999")
            await page.get_by_label("Filter by name").fill("agent-4-12")
            await expect(page.get_by_text("10 of 10,000 agents")).to_be_visible()
            await page.get_by_label("Select all").check()
            await page.get_by_role("button", name="Sleep 10 agents").click()
            await page.get_by_role("dialog").get_by_role("button", name="Sleep").click()
            await expect(page.get_by_role("row").filter(has_text="asleep")).to_have_count(10)
            await site.set_sleeping("agent-4-125", False, session="part-4")
            await expect(page.get_by_role("row").filter(has_text="awake")).to_have_count(1)


async def test_the_first_view_needs_at_most_350_kb_of_compressed_script(site: Site) -> None:
    await site.add_agent("first")
    async with site.open("/") as page:
        await expect(page.get_by_role("region", name="Timeline").get_by_role("link", name="first")).to_be_visible()
        await settle(page)
        sizes: dict[str, int] = await page.evaluate(
            "Object.fromEntries(performance.getEntriesByType('resource')"
            ".filter(({name}) => name.endsWith('.js')).map(({name, encodedBodySize}) => [name, encodedBodySize]))"
        )
    assert len(sizes) > 2
    assert all(sizes.values())
    assert sum(sizes.values()) <= MOST_SCRIPT_BYTES, sizes
