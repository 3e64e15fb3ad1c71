"""Pictures of the dashboard for the docs, taken of the demo's data: `make pictures`."""

import asyncio
import re
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from playwright.async_api import Browser, async_playwright, expect

from circadia.testing.upstream import MockUpstream
from tests.cli.test_dream import SAID, answer
from tests.dashboard.conftest import CHROMIUM, FLAGS, Dashboard
from tests.fixtures.server_process import CircadiaProcess
from tests.house.tree import DOCS
from tests.sleeptime.markdown.dream_stand import DreamStand

FOLDER: Final = DOCS / "pictures"
DEMO: Final = ("demo", "--seconds", "30", "--stay")
PATIENCE_SECONDS: Final = 600.0
WIDE, NARROW = 1200, 400
PICTURES: Final = (
    ("overview", "/ui/", "light", WIDE), ("overview-dark", "/ui/", "dark", WIDE),
    ("overview-narrow", "/ui/", "light", NARROW), ("agents", "/ui/agents", "light", WIDE),
    ("usage", "/ui/usage", "light", WIDE),
)  # fmt: skip


async def take_pictures() -> None:
    demo = await asyncio.create_subprocess_exec(sys.executable, "-m", "circadia", *DEMO, stdout=asyncio.subprocess.PIPE)
    try:
        url = await asyncio.wait_for(_wait_for_link(demo), PATIENCE_SECONDS)
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            await shoot(browser, url, FOLDER)
            await shoot_dream(browser, FOLDER)
            await browser.close()
    finally:
        demo.send_signal(signal.SIGINT)
        await demo.wait()


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
                    await expect(page.locator("[aria-busy=true]")).to_have_count(0)
                    await page.screenshot(path=folder / "dashboard-dream.png")


async def _wait_for_link(demo: asyncio.subprocess.Process) -> str:
    assert demo.stdout is not None
    async for line in demo.stdout:
        text = line.decode()
        print(text, end="")
        if "stays until Ctrl-C" in text and (link := re.search(r"http://\S+", text)):
            return link[0]
    raise SystemExit("the demo ended before its server was ready")


async def shoot(browser: Browser, link: str, folder: Path) -> None:
    """Take all pictures, signed in by a link of `circadia ui`."""
    folder.mkdir(exist_ok=True)
    origin = link.partition("/ui/")[0]
    signed_in = await browser.new_context()
    page = await signed_in.new_page()
    await page.goto(link)
    cookies = await signed_in.cookies()
    for name, path, scheme, width in PICTURES:
        context = await browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme="dark" if scheme == "dark" else "light"
        )
        await context.add_cookies(cookies)  # pyright: ignore[reportArgumentType] # a cookie that was read can be set
        page = await context.new_page()
        await page.goto(origin + path, wait_until="load")
        await page.get_by_role("heading", level=1).wait_for()
        await expect(page.locator("[aria-busy=true]")).to_have_count(0)
        await expect(page.get_by_text("Live", exact=True)).to_be_visible()
        await page.screenshot(path=folder / f"dashboard-{name}.png")
        await context.close()


if __name__ == "__main__":
    asyncio.run(take_pictures())
