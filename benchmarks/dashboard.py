"""The first view of the dashboard: how many bytes it takes, and how soon it says how the fleet is.

Each load is in a browser profile without a cache, already signed in, of a fleet with many agents.
"""

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from playwright.async_api import Browser, Page, Response, async_playwright

from benchmarks.holds import quantile
from benchmarks.report import Goal, Report, number
from benchmarks.server import ADMIN_TOKEN, Circadia, circadia

CHROMIUM: Final = "/usr/bin/chromium"
FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
GZIP_LEVEL: Final = 5
"""As the server compresses."""
MOST_SECONDS: Final = 1.5
MOST_SCRIPT_KB: Final = 350
_GROUP: Final = 500
_PAGES: Final = {"/ui/": "All well", "/ui/agents": "agent-0"}
"""Pages, and a text that is there once the page shows what it knows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    agents: int = 10_000
    loads: int = 9


QUICK = Size(agents=20, loads=1)


@dataclass(kw_only=True, slots=True)
class PageLoads:
    seconds: list[float]
    """From the navigation to the text."""
    script_kb: float = 0.0
    style_kb: float = 0.0
    rest_kb: float = 0.0
    """Compressed bodies of one load; `rest` is answers of the API, the page and its icon."""
    requests: int = 0


async def run(folder: Path, size: Size) -> Report:
    async with circadia(folder, {}) as server, async_playwright() as playwright:
        for group in range(0, size.agents, _GROUP):
            names = [f"agent-{number}" for number in range(group, min(size.agents, group + _GROUP))]
            await server.agents(f"group-{group}", names)
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        loads = {path: await _load_page(browser, server, path, text, size.loads) for path, text in _PAGES.items()}
        await browser.close()
    return _report(size, loads)


async def _load_page(browser: Browser, server: Circadia, path: str, text: str, times: int) -> PageLoads:
    loads = PageLoads(seconds=[])
    for _ in range(times):
        context = await browser.new_context(base_url=f"http://127.0.0.1:{server.port}")
        await context.request.post("/ui/session", data={"token": ADMIN_TOKEN})
        page = await context.new_page()
        answers: list[Response] = []
        page.on("response", lambda answer, to=answers: to.append(answer))
        await page.goto(path, wait_until="commit")
        await page.get_by_text(text).first.wait_for()
        loads.seconds.append(await _read_clock(page) / 1000)
        if not loads.requests:
            await _add_sizes(loads, answers)
        await context.close()
    return loads


async def _read_clock(page: Page) -> float:
    """Return the milliseconds since the navigation."""
    return float(await page.evaluate("performance.now()"))


async def _add_sizes(loads: PageLoads, answers: list[Response]) -> None:
    for answer in answers:
        if "/events/stream" in answer.url:  # it never ends
            continue
        size = len(gzip.compress(await answer.body(), GZIP_LEVEL)) / 1000
        loads.requests += 1
        if answer.url.endswith(".js"):
            loads.script_kb += size
        elif answer.url.endswith(".css"):
            loads.style_kb += size
        else:
            loads.rest_kb += size


def _report(size: Size, loads: dict[str, PageLoads]) -> Report:
    rows = [
        (
            path, number(quantile(of_page.seconds, 0.5)), number(max(of_page.seconds)), number(of_page.script_kb),
            number(of_page.style_kb), number(of_page.rest_kb), f"{of_page.requests}",
        )
        for path, of_page in loads.items()
    ]  # fmt: skip
    first = loads["/ui/"]
    return Report(
        name="dashboard",
        title=f"The dashboard of a fleet of {size.agents:,} agents, loaded without a cache",
        columns=("page", "seconds p50", "slowest", "script KB", "style KB", "other KB", "requests"),
        rows=rows,
        goals=[
            Goal(what="first view, p50", limit=MOST_SECONDS, unit="s", found=quantile(first.seconds, 0.5)),
            Goal(what="compressed script of the first view", limit=MOST_SCRIPT_KB, unit="KB", found=first.script_kb),
        ],
        notes=[
            f"{size.loads} loads of each page in Chromium on the server's machine. A load ends when the overview says "
            "that all is well, or the table shows an agent.",
            "Sizes are those of the bodies, compressed as the server does it; the API's answers are sent as they are.",
        ],
        figures={path: {"seconds": of_page.seconds, "script_kb": of_page.script_kb} for path, of_page in loads.items()},
    )
