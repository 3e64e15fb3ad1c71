"""Faults of the network, of clocks and of the server while a page is open: nothing is missed, and times are right."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page, expect
from yarl import URL

from circadia.clock import SystemClock
from tests.dashboard.conftest import Dashboard, Site, serve_site

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("UI-12")]

CUT = re.compile(r"Failed to load|ERR_|status of 5")


class Line:
    """The network between a page and a server."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._carries = asyncio.Event()
        self._carries.set()
        self._is_cut = False
        self._writers: set[asyncio.StreamWriter] = set()

    def fall_silent(self) -> None:
        """Carry nothing any more; neither end is told."""
        self._carries.clear()

    def cut(self) -> None:
        """End all connections, and take no new ones."""
        self._is_cut = True
        self._carries.set()
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        self._is_cut = False
        self._carries.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection."""
        if self._is_cut:
            writer.transport.abort()
            return
        upstream, downstream = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers |= {writer, downstream}
        await asyncio.gather(self._carry(reader, downstream), self._carry(upstream, writer))
        self._writers -= {writer, downstream}

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(2**16):
                await self._carries.wait()
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def lay_line(site: Site) -> AsyncGenerator[tuple[Line, Dashboard]]:
    """Yield a line to the server, and the dashboard at its other end."""
    line = Line(URL(site.url).port or 0)
    async with await asyncio.start_server(line.serve, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        yield line, Dashboard(url=f"http://127.0.0.1:{port}", browser=site.browser)
        line.cut()


def live_status(page: Page) -> Locator:
    return page.get_by_role("banner").get_by_role("status")


@pytest.mark.parametrize("fault", ["silent", "cut"])
async def test_what_happens_while_the_stream_is_lost_for_a_minute_is_on_the_page_when_it_is_back(
    site: Site, fault: str
) -> None:
    name = f"lost-{fault}"
    await site.add_agent(name)
    address = "/events?type=sleep_start&type=sleep_stop"
    now = SystemClock().now()
    async with (
        lay_line(site) as (line, dashboard),
        dashboard.open(address, ignore_errors=CUT, clock=now) as record,
        dashboard.open(f"/agents/{name}", ignore_errors=CUT, clock=now) as agent,
    ):
        for page in (record, agent):
            await expect(live_status(page)).to_have_text("Live")
        rows = record.get_by_role("row").filter(has_text=name)
        state = agent.get_by_role("group", name="State")
        await expect(record.get_by_text("events shown")).to_be_visible()
        await expect(state).to_contain_text("awake")
        if fault == "silent":
            line.fall_silent()
        else:
            line.cut()
        for number in range(5):
            await site.set_sleeping(name, number % 2 == 0)
        for page in (record, agent):
            await page.clock.fast_forward("01:00")
            await expect(live_status(page)).to_have_text("Reconnecting")
        await expect(rows).to_have_count(0)
        await expect(state).to_contain_text("awake")
        line.mend()
        for page in (record, agent):
            await expect(live_status(page)).to_have_text("Live")
        await expect(rows).to_have_text([re.compile(word) for word in ("fell asleep", "woke") * 2 + ("fell asleep",)])
        await expect(state).to_contain_text("asleep")


@pytest.mark.parametrize("hours", [-2, 2])
async def test_a_browser_whose_clock_is_wrong_by_hours_shows_the_right_ages_and_times(site: Site, hours: int) -> None:
    name = f"clock-{hours + 2}"
    token = await site.add_agent(name, sleep_events=["agent_started"])
    now = SystemClock().now()
    routine = {"name": "soon", "at": [(now + timedelta(minutes=5)).isoformat()], "instructions": "look"}
    await site.call("PUT", f"/agents/{name}/schedule", {"routines": [routine]})
    async with site.open("/agents", clock=now + timedelta(hours=hours)) as page, site.ask_model(token):
        clock = await page.evaluate("Date.now()")
        assert abs(clock / 1000 - now.timestamp() - hours * 3600) < 60, "the page's clock is wrong"
        row = page.get_by_role("row").filter(has_text=name)
        await expect(row.get_by_role("time")).to_have_text(re.compile(r"^\d\d? s$"))
        await row.get_by_role("link").click()
        await page.get_by_role("tab", name="Schedule").click()
        due = page.get_by_role("row").filter(has_text="soon").get_by_text(re.compile(r"^in "))
        await expect(due).to_have_text(re.compile(r"^in (5 min|4 min( \d+ s)?)$"))
        await page.get_by_role("link", name="Holds").click()
        held = page.get_by_role("row").filter(has_text=name)
        await expect(held.locator("time")).to_have_text(re.compile(r"^\d\d? s$"))


async def test_a_page_outlives_a_restart_of_the_server_with_what_was_typed_and_acts_again(
    browser: Browser, tmp_path: Path
) -> None:
    async with serve_site(tmp_path, browser) as site:
        await site.add_agent("steady")
        async with site.open("/agents", ignore_errors=CUT) as page:
            row = page.get_by_role("row").filter(has_text="steady")
            await page.get_by_label("Filter by name").fill("stea")
            await page.get_by_label("Select steady").check()
            assert await site.server.terminate() == 0
            await expect(live_status(page)).to_have_text("Reconnecting")
            await page.get_by_role("button", name="Sleep steady").click()
            await expect(page.get_by_text("Sleep failed")).to_be_visible()
            await site.server.start()
            await expect(live_status(page)).to_have_text("Live")
            await expect(page.get_by_label("Filter by name")).to_have_value("stea")
            await expect(row).to_contain_text("awake")
            await page.get_by_role("button", name="Sleep steady").click()
            await expect(row).to_contain_text("asleep")
        assert (await site.call("GET", "/sessions/default/agents/steady"))["sleeping"]


@pytest.mark.spec("UI-02")
async def test_a_token_revoked_while_the_stream_is_lost_leads_to_the_sign_in_at_the_next_request(site: Site) -> None:
    token = (await site.call("POST", "/tokens", {"name": "deb", "role": "operator"}))["token"]
    async with site.open("/holds", token=token, ignore_errors=CUT) as page:
        await expect(live_status(page)).to_have_text("Live")
        await expect(page.get_by_text("0 held calls")).to_be_visible()
        await page.route("**/api/v1/me", lambda route: route.abort())
        await page.route("**/events/stream*", lambda route: route.abort())
        await site.call("DELETE", "/tokens/deb")
        await page.get_by_role("link", name="Overview").click()
        await expect(page.get_by_role("alert")).to_contain_text("You are signed out")
        await expect(page.get_by_label("Token")).to_be_focused()
        assert page.url == f"{site.url}/ui/"
