"""Pictures of the dashboard for README and docs, of the story day of a team: `make pictures`."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from playwright.async_api import Browser, Page, async_playwright, expect

from circadia.testing.upstream import MockUpstream
from tests.cli.test_dream import SAID, answer
from tests.dashboard.conftest import CHROMIUM, FLAGS, ColourScheme, Dashboard
from tests.dashboard.story_day import DAY, StoryTeam, play_story_day
from tests.fixtures.server_process import CircadiaProcess
from tests.house.tree import DOCS
from tests.interaction.event_scenes import ok
from tests.interaction.live import ADMIN
from tests.sleeptime.markdown.dream_stand import DreamStand

FOLDER: Final = DOCS / "pictures"
WIDE, NARROW = 1200, 400
PICTURES: Final[tuple[tuple[str, str, ColourScheme, int, int], ...]] = (
    ("overview", "/", "light", WIDE, 1000), ("overview-dark", "/", "dark", WIDE, 1000),
    ("overview-narrow", "/", "light", NARROW, 900), ("agents", "/agents", "light", WIDE, 460),
    ("for-you", "/for-you?tab=proposals", "light", WIDE, 560), ("wakes", "/wakes", "light", WIDE, 800),
    ("calls", "/calls?order=cost", "light", WIDE, 800), ("usage", "/usage?by=agent&days=29", "light", WIDE, 800),
)  # fmt: skip
README_WIDTH: Final = 1120
"""With the navigation; the timeline alone is about as wide as the text of a README."""


async def take_pictures(folder: Path = FOLDER) -> None:
    folder.mkdir(exist_ok=True)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        with TemporaryDirectory() as place:
            async with play_story_day(Path(place)) as team:
                print(await summarize_day(team))
                await shoot_story(browser, team, folder)
        await shoot_dream(browser, folder)
        await browser.close()


async def summarize_day(team: StoryTeam) -> str:
    """Return what the README says of the day, from the server's answers."""
    (today,) = (savings := await ok(team.at, "GET", "/usage/savings?days=0"))["days"]
    spent = (await ok(team.at, "GET", f"/usage?since={DAY:%Y-%m-%d}"))["total"]["cost_usd"]
    sums = (await ok(team.at, "GET", "/timeline/sums?group_by=fleet"))["sums"]
    asleep, awake = (sum(each[f"{state}_seconds"] for each in sums) for state in ("asleep", "awake"))
    return (
        f"asleep {asleep / (asleep + awake):.0%} of the time; spent ${spent:.2f}; agents that poll would have paid "
        f"${today['sleeping_usd']:.2f} more; dreaming cost ${today['dreaming_usd']:.4f}; "
        f"30 such days save ${savings['month_usd']:.0f}"
    )


async def shoot_story(browser: Browser, team: StoryTeam, folder: Path) -> None:
    async with Dashboard(url=team.at.url, browser=browser) as site:
        for name, path, scheme, width, height in PICTURES:
            options: dict[str, Any] = {
                "viewport": {"width": width, "height": height},
                "clock": team.clock.now(),
                "is_frozen": True,
            }
            async with site.open(path, token=ADMIN, scheme=scheme, **options) as page:
                await _settle(page)
                await page.screenshot(path=folder / f"dashboard-{name}.png")
        for scheme in ("light", "dark"):
            options = {"viewport": {"width": README_WIDTH, "height": 800}, "device_scale_factor": 2, "is_frozen": True}
            async with site.open("/timeline", token=ADMIN, scheme=scheme, clock=team.clock.now(), **options) as page:
                await _settle(page)
                timeline = page.get_by_role("region", name="Timeline")
                await timeline.screenshot(path=folder / f"sleep-timeline-{scheme}.png")


async def shoot_dream(browser: Browser, folder: Path) -> None:
    """Take a picture of what a dream proposes, of a scripted model."""
    with TemporaryDirectory() as place:
        stand = DreamStand(Path(place))
        stand.session("s1", SAID)
        dreams = {"heron": {"folder": str(stand.root), "transcripts": str(stand.transcripts), "watch": False}}
        async with MockUpstream(reply=answer) as upstream:
            config = {
                "upstreams": {"openai": {"base_url": upstream.base_url}},
                "sleeptime": {"model": {"upstream": "openai", "name": "gpt-5-nano"}},
                "dreams": dreams,
            }
            async with CircadiaProcess(Path(place) / "data", config) as server:
                site = Dashboard(url=server.url, browser=browser)
                asked = await site.call("POST", "/dreams", {"inputs": [{"type": "folder", "name": "heron"}]})
                async with site.open(f"/dreams/{asked['id']}", viewport={"width": WIDE, "height": 640}) as page:
                    await page.get_by_role("button", name="Accept").wait_for()
                    await _settle(page)
                    await page.screenshot(path=folder / "dashboard-dream.png")


async def _settle(page: Page) -> None:
    await page.get_by_role("heading", level=1).wait_for()
    await expect(page.locator("[aria-busy=true]")).to_have_count(0)
    await expect(page.get_by_text("Live", exact=True)).to_be_visible()


if __name__ == "__main__":
    asyncio.run(take_pictures())
