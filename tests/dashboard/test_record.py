"""Usage, events and the cluster: what happened, what it cost, and what runs."""

import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.dashboard.conftest import Site

UNKNOWN = re.compile("status of 404")

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.spec("UI-11")
async def test_usage_is_summed_up_and_stacked_by_agent_and_tier_and_saved_as_csv(site: Site, tmp_path: Path) -> None:
    token = await site.add_agent("spender")
    for _ in range(3):
        async with site.ask_model(token) as call:
            assert await call == 200
    async with site.open("/usage") as page:
        row = page.get_by_role("row").filter(has_text="spender")
        await expect(row.get_by_role("cell").nth(1)).to_have_text("3")
        chart = page.get_by_role("img", name=re.compile("tokens a day by (agent|model|tier)"))
        legend = page.get_by_role("figure").filter(has=chart)
        await expect(page.get_by_role("img", name="tokens a day by agent")).to_be_visible()
        await expect(legend).to_contain_text("spender")
        await page.get_by_text("calls", exact=True).click()
        bars = page.get_by_role("img", name="calls a day by agent")
        await expect(bars).to_be_visible()
        box = await bars.bounding_box()
        assert box is not None
        await page.mouse.move(box["x"] + box["width"] - 5, box["y"] + 40)  # today is the last
        await expect(page.locator(".chart-tip")).to_have_text(re.compile(r"\d{4}-\d\d-\d\d: \d+\s*spender 3"))
        await page.get_by_role("combobox", name="By").click()
        await page.get_by_role("option", name="Tier").click()
        await expect(page.get_by_role("img", name="calls a day by tier")).to_be_visible()
        await expect(page.get_by_role("figure")).to_contain_text("hot")
        await page.get_by_role("combobox", name="By").click()
        await page.get_by_role("option", name="Model").click()
        await expect(page.get_by_role("row").filter(has_text="mock-1")).to_be_visible()
        async with page.expect_download() as download:
            await page.get_by_role("button", name="Save as CSV").click()
        await (await download.value).save_as(tmp_path / "usage.csv")
    header, line = (tmp_path / "usage.csv").read_text("utf-8").splitlines()
    assert header.startswith("day,model,calls,failed,")
    assert re.match(r"\d{4}-\d\d-\d\d,mock-1,3,0,", line)


@pytest.mark.spec("UI-11")
async def test_the_record_of_events_grows_is_filtered_and_can_be_stopped(site: Site) -> None:
    await site.add_agent("recorded")
    address = "/events?type=sleep_start&type=sleep_stop"
    async with site.open(address, ignore_errors=UNKNOWN) as page, site.open(address) as running:
        rows = page.get_by_role("row").filter(has_text="recorded")
        await expect(page.get_by_role("table", name="Events").or_(page.get_by_text("No event matches"))).to_be_visible()
        await site.set_sleeping("recorded", True)
        await expect(rows).to_have_count(1, timeout=1_000)
        await expect(rows).to_contain_text("fell asleep")
        await page.get_by_role("button", name="Pause").click()
        await expect(page.get_by_text("stopped")).to_be_visible()
        await site.set_sleeping("recorded", False)
        await expect(running.get_by_role("row").filter(has_text="recorded")).to_have_count(2)
        await expect(rows).to_have_count(1)
        await page.get_by_role("button", name="Continue").click()
        await expect(rows).to_have_count(2)
        await page.get_by_role("textbox", name="Agent").fill("nobody")
        await expect(page.get_by_role("alert")).to_contain_text("no agent 'nobody' in session 'default'")
        await page.get_by_role("textbox", name="Agent").fill("recorded")
        await expect(rows).to_have_count(2)


@pytest.mark.spec("UI-11")
async def test_the_cluster_page_says_that_the_server_is_ready(site: Site) -> None:
    async with site.open("/cluster") as page:
        await expect(page.get_by_role("status").filter(has_text="This server is ready")).to_be_visible()
