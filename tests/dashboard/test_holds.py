"""Held calls: dropped by a person, and those that other servers of the cluster hold."""

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.cluster.scene import two_servers
from tests.dashboard.conftest import Dashboard, Site, check_accessibility, press_tab_until, serve_site
from tests.interaction.live import Live

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("UI-05")]


async def test_a_drop_asks_first_says_what_the_caller_gets_and_leaves_the_agent_asleep(
    browser: Browser, tmp_path: Path
) -> None:
    async with serve_site(tmp_path, browser, defaults={"hold_silent_seconds": 300}) as site:
        token = await site.add_agent("dropped", sleep_events=["agent_started"])
        async with site.open("/holds") as page, site.ask_model(token) as call:
            rows = page.get_by_role("row").filter(has_text="dropped")
            await expect(rows).to_have_count(1)
            async with site.ask_model(token) as other:
                await expect(rows).to_have_count(2)
                await press_tab_until(page, "Drop the call of dropped")
                await page.keyboard.press("Enter")
                question = page.get_by_role("dialog", name="Drop the call of dropped?")
                await expect(question).to_contain_text('the caller gets status 410 with the error "dropped"')
                await expect(question.get_by_role("button", name="Cancel")).to_be_focused()
                await check_accessibility(page)
                await press_tab_until(page, "Drop")
                await page.keyboard.press("Enter")
                await expect(page.get_by_text("The call is dropped; dropped sleeps on.")).to_be_visible()
                await expect(rows).to_have_count(1)
                assert await call == 410
                assert not other.done()
                async with asyncio.timeout(20):  # the gate records its events by the way
                    while not (events := (await site.call("GET", "/events?type=dropped"))["events"]):
                        await asyncio.sleep(0.02)
                assert [event["data"]["by"] for event in events] == ["operator"]
            assert (await site.call("GET", "/sessions/default/agents/dropped"))["sleeping"]


async def test_a_call_that_gets_keep_alives_is_dropped_with_an_error_in_its_answer(site: Site) -> None:
    token = await site.add_agent("opened", sleep_events=["agent_started"])
    async with site.open("/holds") as page, site.ask_model(token) as call:
        row = page.get_by_role("row").filter(has_text="opened")
        await expect(row).to_contain_text("gets keep-alives")
        await row.get_by_role("button", name="Drop").click()
        await expect(page.get_by_role("dialog")).to_contain_text('the open answer ends with the error "dropped"')
        await page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        await expect(row).to_be_visible()
        await row.get_by_role("button", name="Drop").click()
        await page.get_by_role("dialog").get_by_role("button", name="Drop").click()
        await expect(page.get_by_text("No call is held.")).to_be_visible()
        assert await call == 200, "its status was sent before"


async def hold_calls(server: Live, *tokens: str) -> list[asyncio.Task[int]]:
    """Make a call with each token, and wait until the server holds them all."""

    async def ask(token: str) -> int:
        async with server.call(token) as answer:
            await answer.read()
            return answer.status

    calls = [asyncio.create_task(ask(token)) for token in tokens]
    await server.held(len(tokens))
    return calls


async def test_the_pages_of_a_server_count_the_calls_that_another_server_holds_and_release_them(
    browser: Browser, tmp_path: Path, postgres_url: str
) -> None:
    async with two_servers(tmp_path, postgres_url) as (here, there):
        ann, bob = [await here.agent(name) for name in ("ann", "bob")]
        for name in ("ann", "bob"):
            await here.sleeping(True, name)
        async with (
            Dashboard(url=there.url, browser=browser) as dashboard,
            dashboard.open("/holds") as page,
            dashboard.open("/agents") as agents,
        ):
            calls = await hold_calls(here, ann, ann, bob)
            await expect(page.get_by_text("3 held calls, 3 of them at other servers")).to_be_visible()
            await expect(page.get_by_text("This server holds no call.")).to_be_visible()
            table = page.get_by_role("table", name="Calls held by other servers")
            row = table.get_by_role("row").filter(has_text="ann")
            await expect(row).to_contain_text(here.url)
            await expect(row.get_by_role("cell").nth(2)).to_have_text("2")
            listed = agents.get_by_role("row").filter(has_text="ann")
            await expect(listed.get_by_role("cell").last).to_have_text("2")
            await agents.get_by_text("held", exact=True).click()
            await expect(agents.get_by_text("2 of 2 agents")).to_be_visible()
            await listed.get_by_role("link").click()
            await expect(agents.get_by_role("group", name="Held calls")).to_have_text("Held calls2")
            await row.get_by_role("button", name="Wake agent ann").click()
            assert await asyncio.gather(*calls[:2]) == [200, 200]
            await expect(page.get_by_text("1 held call, 1 of them at other servers")).to_be_visible()
            await expect(agents.get_by_role("group", name="Held calls")).to_have_text("Held calls0")
            await there.sleeping(False, "bob")
            await expect(page.get_by_text("No call is held.")).to_be_visible()
            assert await calls[2] == 200
