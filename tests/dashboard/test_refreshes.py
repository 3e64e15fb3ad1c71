"""What a page shows stays true: answers that fail, come late or come while nobody looks are read again."""

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page, Route, expect

from tests.dashboard.conftest import Site, serve_site

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("UI-12")]

LIST = re.compile(r"/api/v1/agents$")
SOME = re.compile(r"/api/v1/agents\?agent=")
FAILED_REQUESTS = re.compile(r"Failed to load|ERR_|status of 5")


TRIES = 3
"""So often the page's client sends a request before the query fails."""


class Outage:
    """Answers a page's requests with 503 until it ends."""

    def __init__(self) -> None:
        self.is_over = False
        self._count = 0
        self._is_repeated = asyncio.Event()

    async def answer(self, route: Route) -> None:
        if self.is_over:
            await route.fallback()
            return
        await route.fulfill(status=503, json={"code": "unavailable", "detail": "The database does not answer."})
        self._count += 1
        if self._count > TRIES:
            self._is_repeated.set()

    async def end_when_repeated(self) -> None:
        """End it when a query has failed, and is asked once more."""
        async with asyncio.timeout(15):
            await self._is_repeated.wait()
        self.is_over = True


async def test_a_refresh_that_fails_says_so_and_is_repeated(site: Site) -> None:
    token = await site.add_agent("unlucky", sleep_events=["agent_started"])
    outage = Outage()
    async with site.open("/holds", ignore_errors=FAILED_REQUESTS) as page:
        await expect(page.get_by_text("0 held calls")).to_be_visible()
        await page.route(re.compile("/api/v1/holds"), outage.answer)
        async with site.ask_model(token):
            await expect(page.get_by_text("Not refreshed: The database does not answer.")).to_be_visible()
            outage.is_over = True
            await expect(page.get_by_role("row").filter(has_text="unlucky")).to_be_visible()
            await expect(page.get_by_text("Not refreshed")).to_have_count(0)


async def test_an_agent_whose_refresh_failed_is_read_again(site: Site) -> None:
    await site.add_agent("missed")
    outage = Outage()
    async with site.open("/agents", ignore_errors=FAILED_REQUESTS) as page:
        row = row_of(page, "missed")
        await expect(row).to_contain_text("awake")
        await page.route(SOME, outage.answer)
        await site.set_sleeping("missed", True)
        await outage.end_when_repeated()
        await expect(row).to_contain_text("asleep")


async def test_a_server_that_dies_while_a_page_asks_for_a_change_shows_it_when_it_is_back(
    browser: Browser, tmp_path: Path
) -> None:
    async with serve_site(tmp_path, browser) as site:
        await site.add_agent("survivor")
        async with site.open("/agents", ignore_errors=FAILED_REQUESTS) as page:
            row = row_of(page, "survivor")
            await expect(row).to_contain_text("awake")
            killed = asyncio.Event()

            async def kill(route: Route) -> None:
                if not killed.is_set():
                    killed.set()
                    await site.server.kill9()
                await route.abort()

            await page.route(SOME, kill)
            await site.set_sleeping("survivor", True)
            async with asyncio.timeout(15):
                await killed.wait()
            status = page.get_by_role("banner").get_by_role("status")
            await expect(status).to_have_text("Reconnecting")
            await site.server.start()
            await expect(status).to_have_text("Live")
            await expect(row).to_contain_text("asleep")


async def test_an_event_that_comes_while_the_list_is_on_its_way_is_not_lost(site: Site) -> None:
    await site.add_agent("hasty")
    is_read, go_on = asyncio.Event(), asyncio.Event()

    async def delay(route: Route) -> None:
        answer = await route.fetch()
        is_read.set()
        await go_on.wait()
        await route.fulfill(response=answer)

    async with site.open("/") as page, site.open("/agents/hasty") as other:
        await expect(page.get_by_role("status").filter(has_text="All well")).to_be_visible()
        await page.route(LIST, delay, times=1)
        await page.get_by_role("link", name="Agents", exact=True).click()
        async with asyncio.timeout(15):
            await is_read.wait()
        await site.set_sleeping("hasty", True)
        await expect(other.get_by_role("group", name="State")).to_contain_text("asleep")
        go_on.set()
        await expect(row_of(page, "hasty")).to_contain_text("asleep")


async def test_what_happens_while_another_page_is_open_is_in_the_list_of_agents_on_the_way_back(site: Site) -> None:
    await site.add_agent("unseen")
    overview = await site.call("GET", "/overview")
    asleep, agents = overview["asleep"], overview["asleep"] + overview["awake"]
    async with site.open("/agents") as page:
        await expect(row_of(page, "unseen")).to_contain_text("awake")
        await page.get_by_role("link", name="Overview").click()
        await expect(page.get_by_role("group", name="Asleep", exact=True)).to_contain_text(f"{asleep} of {agents}")
        await site.set_sleeping("unseen", True)
        await expect(page.get_by_role("group", name="Asleep", exact=True)).to_contain_text(f"{asleep + 1} of {agents}")
        await page.get_by_role("link", name="Agents", exact=True).click()
        await expect(row_of(page, "unseen")).to_contain_text("asleep")


async def test_what_happens_while_another_tab_is_open_is_in_the_day_on_the_way_back(site: Site) -> None:
    await site.add_agent("busy")
    async with site.open("/agents/busy") as page:
        table = page.get_by_role("table", name="Events of busy")
        await expect(table.get_by_role("row").filter(has_text="agent created")).to_have_count(1)
        await page.get_by_role("tab", name="Inbox").click()
        await site.set_sleeping("busy", True)
        await expect(page.get_by_role("group", name="State")).to_contain_text("asleep")
        await page.get_by_role("tab", name="Day").click()
        await expect(table.get_by_role("row").filter(has_text="fell asleep")).to_have_count(1)


async def test_a_filtered_record_keeps_its_rows_when_three_thousand_other_events_come(
    browser: Browser, tmp_path: Path
) -> None:
    async with serve_site(tmp_path, browser) as site:
        await site.add_agent("early")
        async with site.open("/events?type=thread_created") as page:
            rows = page.get_by_role("row").filter(has_text="thread created")
            await expect(page.get_by_text("0 events shown")).to_be_visible()
            await site.call("POST", "/sessions/default/threads", {"name": "first"})
            await expect(rows).to_have_count(1)
            agents = [{"name": f"agent-{number:03}"} for number in range(1000)]
            await site.call("POST", "/sessions", {"name": "fleet", "agents": agents})
            for sleeping in (True, False):
                await site.call("PUT", "/sessions/fleet/sleeping", {"sleeping": sleeping})
            await site.call("POST", "/sessions/default/threads", {"name": "last"})
            await expect(rows).to_have_count(2)
            await page.goto("/ui/events")
            await expect(page.get_by_text("1,000 events shown")).to_be_visible()
            await page.get_by_role("textbox", name="Agent").fill("early")
            await expect(page.get_by_role("row").filter(has_text="agent created")).to_have_count(1)


@pytest.mark.spec("UI-03")
async def test_an_overview_that_fails_after_its_first_answer_is_not_well(site: Site) -> None:
    outage = Outage()
    async with site.open("/", ignore_errors=FAILED_REQUESTS) as page:
        await expect(page.get_by_role("status").filter(has_text="All well")).to_be_visible()
        await page.route(re.compile("/api/v1/overview"), outage.answer)
        await site.add_agent("noticed")
        await expect(page.get_by_role("status").filter(has_text="Not all is well")).to_contain_text(
            "The server does not say how it is."
        )
        outage.is_over = True
        await expect(page.get_by_role("status").filter(has_text="All well")).to_be_visible()


async def test_the_page_of_an_agent_that_somebody_deletes_says_that_it_is_gone(site: Site) -> None:
    await site.add_agent("doomed")
    async with site.open("/agents/doomed", ignore_errors=re.compile("status of 404")) as page:
        await expect(page.get_by_role("group", name="State")).to_contain_text("awake")
        await site.call("DELETE", "/sessions/default/agents/doomed")
        await expect(page.get_by_role("alert")).to_contain_text("This cannot be shown")
        await expect(page.get_by_role("group", name="State")).to_have_count(0)


async def test_a_page_stays_when_the_server_cannot_say_who_is_signed_in(site: Site) -> None:
    await site.call("POST", "/tokens", {"name": "other", "role": "viewer"})
    outage = Outage()
    async with site.open("/agents", ignore_errors=FAILED_REQUESTS) as page:
        await expect(page.get_by_role("heading", name="Agents")).to_be_visible()
        await page.get_by_label("Filter by name").fill("kept")
        await page.route(re.compile("/api/v1/me$"), outage.answer)
        await site.call("DELETE", "/tokens/other")
        await outage.end_when_repeated()
        await expect(page.get_by_label("Filter by name")).to_have_value("kept")


def row_of(page: Page, agent: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=agent))


async def test_an_act_that_fails_after_its_question_is_closed_says_so(site: Site) -> None:
    await site.add_agent("kept")
    go_on = asyncio.Event()

    async def fail(route: Route) -> None:
        if route.request.method != "DELETE":
            await route.continue_()
            return
        await go_on.wait()
        await route.fulfill(status=500, body="the disk is full")

    async with site.open("/agents/kept", ignore_errors=FAILED_REQUESTS) as page:
        await page.route("**/api/v1/sessions/default/agents/kept", fail)
        await page.get_by_role("button", name="Delete").click()
        question = page.get_by_role("dialog")
        await question.get_by_role("button", name="Delete").click()
        await question.get_by_role("button", name="Cancel").click()
        await expect(question).to_have_count(0)
        go_on.set()
        await expect(page.get_by_role("alert").filter(has_text="Delete failed")).to_be_visible()
