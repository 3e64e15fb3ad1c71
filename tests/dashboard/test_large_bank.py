"""The page of a large bank reads it page by page: no task keeps a person waiting, and memory is bounded."""

import json
from typing import Any, Final

import aiohttp
import pytest
from playwright.async_api import Browser, Page, expect

from tests.dashboard.conftest import Site, serve_site
from tests.fixtures.server_process import ADMIN_TOKEN

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("UI-08")]

PAGE: Final = 500
MOST_ROWS: Final = 10 * PAGE
LONGEST_TASK_MILLISECONDS: Final = 200
MOST_GROWTH_BYTES: Final = 10_000_000
"""Between the heap with as many rows as the page holds, and the heap after all rows."""
AT_ONCE: Final = 1000


@pytest.mark.parametrize("episodes", [6_000, pytest.param(100_000, marks=pytest.mark.slow)])
async def test_a_large_bank_is_read_to_its_end_without_a_long_task_and_in_bounded_memory(
    browser: Browser, tmp_path: Any, episodes: int
) -> None:
    async with serve_site(tmp_path, browser) as site:
        await fill(site, episodes)
        async with site.open("/banks/large?tab=episodes") as page:
            status = page.get_by_role("tabpanel").get_by_role("status")
            await expect(status).to_contain_text(f"{PAGE} episodes, there are more")
            await browser.start_tracing(page=page, categories=["toplevel", "__metadata"])
            for count in range(2 * PAGE, MOST_ROWS + 1, PAGE):
                await page.get_by_role("button", name="Show older ones").click()
                await expect(status).to_contain_text(f"{count:,} episodes, there are more")
            full = await heap_bytes(page)
            assert await read_to_the_end(page) >= (episodes - MOST_ROWS) // PAGE
            await expect(status).to_contain_text("newer ones are not held any more")
            assert await page.get_by_role("row").count() < 100
            growth = await heap_bytes(page) - full
            await page.get_by_role("rowgroup", name="Rows of Episodes").press("End")
            await expect(page.get_by_role("row").last).to_contain_text("Remark 0 ")
            await expect(page.get_by_role("button", name="Speaker", exact=True)).to_have_count(0)
            await page.get_by_role("button", name="Back to the newest").click()
            await expect(status).to_contain_text(f"{PAGE} episodes, there are more")
            await expect(page.get_by_role("columnheader", name="When")).to_be_visible()
            await expect(page.get_by_role("button", name="When", exact=True)).to_have_count(0)
            await page.get_by_role("tab", name="Notes").click()
            await expect(status).to_contain_text(f"{min(PAGE, episodes // 10)} notes")
            await page.get_by_role("tab", name="Search").click()
            await page.get_by_label("Question or words").fill("remark about the release")
            await page.get_by_role("button", name="Search").click()
            await expect(page.get_by_role("list", name="Hits").get_by_role("listitem")).to_have_count(50)
            longest = longest_tasks(await browser.stop_tracing())
    print(f"{episodes} episodes: heap {full / 1e6:.1f} MB, then {growth / 1e6:+.1f} MB; longest tasks {longest} ms")
    assert max(longest) < LONGEST_TASK_MILLISECONDS, longest
    assert growth < MOST_GROWTH_BYTES


async def read_to_the_end(page: Page) -> int:
    """Press “Show older ones” until there are none, and return how many pages that were."""
    older = page.get_by_role("button", name="Show older ones")
    pages = 0
    while await older.count():
        async with page.expect_response(lambda response: "after=" in response.url):
            await older.click()
        pages += 1
        await expect(page.locator("[data-loading]")).to_have_count(0)
    return pages


async def fill(site: Site, episodes: int) -> None:
    """Import episodes, and a tenth as many notes that rest on them."""
    await site.call("POST", "/banks", {"name": "large", "policy": {"sleeptime": {"when": "manual"}}})
    lines = [
        {
            "type": "episode", "id": f"epi_{number:08}", "speaker": "ann" if number % 2 else "bob", "key": f"{number}",
            "text": f"Remark {number} about the release of part {number % 97}.", "conversation": f"call-{number // 20}",
        }
        for number in range(episodes)
    ] + [
        {
            "type": "note", "id": f"not_{number:08}", "kind": "consolidation", "at": "2026-01-01T00:00:00Z",
            "trust": "person", "text": f"Note {number} about part {number % 97}.",
            "evidence": [f"epi_{number * 10:08}"], "created_at": "2026-01-01T00:00:00Z",
        }
        for number in range(episodes // 10)
    ]  # fmt: skip
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    async with aiohttp.ClientSession(headers=headers) as http:
        for start in range(0, len(lines), AT_ONCE):
            body = "\n".join(json.dumps(line) for line in lines[start : start + AT_ONCE])
            async with http.post(f"{site.server.url}/api/v1/banks/large/import", data=body) as answer:
                assert answer.status == 200, await answer.text()


async def heap_bytes(page: Page) -> int:
    """Return the size of the page's live objects."""
    tools: Any = await page.context.new_cdp_session(page)
    await tools.send("HeapProfiler.collectGarbage")
    used: int = (await tools.send("Runtime.getHeapUsage"))["usedSize"]
    await tools.detach()
    return used


def longest_tasks(trace: bytes) -> list[float]:
    """Return the processor time of the longest tasks of the page's main thread, in milliseconds.

    Time on the clock would measure what else the machine does.
    """
    events: list[dict[str, Any]] = json.loads(trace)["traceEvents"]
    main = {(each["pid"], each["tid"]) for each in events if each.get("args", {}).get("name") == "CrRendererMain"}
    tasks = [each["tdur"] / 1000 for each in events if "tdur" in each and (each["pid"], each["tid"]) in main]
    assert tasks, "no task was traced"
    return sorted(tasks)[-5:]
