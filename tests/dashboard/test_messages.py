"""Messages of all agents that nobody has handled: dead letters first, read, and requeued."""

import re

import pytest
from playwright.async_api import Locator, Page, expect

from tests.dashboard.conftest import Site, check_accessibility, press_tab_until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("UI-06")]


async def send(site: Site, to: str, content: str, priority: str = "low") -> str:
    answer = await site.call("POST", "/messages", {"to": to, "content": content, "priority": priority})
    message: str = answer["message"]
    return message


async def state_of(site: Site, agent: str, message: str) -> str:
    """Return the state of a message in an agent's inbox."""
    query = "&".join(f"state={state}" for state in ("unread", "leased", "handled", "dead"))
    items = (await site.call("GET", f"/agents/{agent}/inbox?{query}"))["messages"]
    states: list[str] = [item["state"] for item in items if item["id"] == message]
    return states[0]


def row_of(page: Page, text: str) -> Locator:
    return page.get_by_role("table", name="Messages").get_by_role("row").filter(has_text=text)


async def test_the_overview_leads_to_the_dead_letters_of_which_one_is_read_and_requeued(site: Site) -> None:
    for name in ("ann", "bob"):
        await site.add_agent(name)
    letter = await send(site, "ann", "the build is red\nsince ten")
    await send(site, "bob", "the build is green")
    await site.set_aside("ann", letter)
    async with site.open() as page:
        await page.get_by_role("link", name="Read and requeue").click()
        await expect(page.get_by_role("heading", name="Messages")).to_be_visible()
        await expect(page.get_by_text("1 dead letter", exact=True)).to_be_visible()
        await expect(row_of(page, "green")).to_have_count(0)
        await page.get_by_text("all", exact=True).click()
        await expect(page.get_by_text("1 dead letter, 1 unread message")).to_be_visible()
        rows = page.get_by_role("table", name="Messages").get_by_role("row")
        await expect(rows.nth(1)).to_contain_text("red")
        await expect(rows.nth(2)).to_contain_text("green")
        await page.get_by_role("button", name="Read the message from operator to ann").click()
        details = page.get_by_role("dialog")
        await expect(details.get_by_text("the build is red\nsince ten")).to_be_visible()
        await check_accessibility(page)
        await details.get_by_role("button", name="Requeue").click()
        await expect(page.get_by_text("1 message unread again.")).to_be_visible()
        await expect(details).to_have_count(0)
        await expect(page.get_by_text("0 dead letters, 2 unread messages")).to_be_visible()
        await page.get_by_role("link", name="Overview").click()
        await expect(page.get_by_role("status").filter(has_text="All well")).to_be_visible()
    assert await state_of(site, "ann", letter) == "unread"


async def test_a_message_leads_to_its_agent_and_its_thread_and_new_ones_appear_by_themselves(site: Site) -> None:
    await site.call("POST", "/sessions", {"name": "team", "agents": [{"name": "cyd"}, {"name": "dan"}]})
    thread = await site.call("POST", "/sessions/team/threads", {"name": "plans", "participants": ["cyd", "dan"]})
    async with site.open("/messages?state=unread") as page:
        await expect(page.get_by_role("heading", name="Messages")).to_be_visible()
        path = f"/sessions/team/threads/{thread['id']}/messages"
        await site.call("POST", path, {"from": "dan", "content": "what about May?", "mentions": ["cyd"]})
        await send(site, "team:cyd", "directly")
        await expect(row_of(page, "what about May?")).to_have_count(1, timeout=2_000)
        await row_of(page, "directly").get_by_role("button", name="Read").click()
        await expect(page.get_by_role("dialog")).to_contain_text("none, a direct message")
        await page.keyboard.press("Escape")
        await row_of(page, "what about May?").get_by_role("button", name="Read").click()
        await page.get_by_role("dialog").get_by_role("link", name="plans").click()
        await expect(page.get_by_role("log")).to_contain_text("what about May?")
        await page.go_back()
        await expect(page.get_by_role("dialog", name="The message")).to_be_visible()
        await page.keyboard.press("Escape")
        await row_of(page, "what about May?").get_by_role("link", name="team:cyd").click()
        await expect(page.get_by_role("heading", name="team:cyd")).to_be_visible()


async def test_selected_dead_letters_are_requeued_but_those_that_somebody_has_handled_meanwhile(site: Site) -> None:
    await site.add_agent("eve")
    await site.add_agent("fay")
    letters = [await send(site, "eve", f"letter {number}", "high") for number in range(3)]
    await send(site, "fay", "letter 3")
    await site.set_aside("eve", *letters)
    await site.set_sleeping("eve", True)
    async with site.open("/messages", ignore_errors=re.compile("status of 409")) as page:
        await page.get_by_label("Filter by agent, author or text").fill("LETTER")
        await expect(page.get_by_text("3 dead letters, 1 unread message")).to_be_visible()
        await page.get_by_label("Filter by agent, author or text").fill("eve")
        await expect(row_of(page, "letter 3")).to_have_count(0)
        await page.get_by_label("Select all").check()
        await row_of(page, "letter 0").get_by_role("checkbox").uncheck()
        await expect(page.get_by_text("2 selected")).to_be_visible()
        await page.get_by_role("button", name="Requeue 2 messages").click()
        await expect(page.get_by_role("dialog")).to_contain_text("Those of high priority ask for a wake")
        await page.route(
            "**/requeue", lambda route: route.fulfill(status=409, json={"code": "conflict", "detail": "it is handled"})
        )
        await page.get_by_role("dialog").get_by_role("button", name="Requeue").click()
        await expect(page.get_by_text("2 of 2 were not requeued: it is handled")).to_be_visible()
        await page.unroute_all()
        await page.get_by_role("dialog").get_by_role("button", name="Requeue").click()
        await expect(page.get_by_text(re.compile("2 messages unread again; 2 wakes requested."))).to_be_visible()
    assert [await state_of(site, "eve", letter) for letter in letters] == ["dead", "unread", "unread"]


async def test_a_dead_letter_is_requeued_and_then_marked_as_handled_by_keyboard(site: Site) -> None:
    await site.add_agent("guy")
    letter = await send(site, "guy", "by key")
    await site.set_aside("guy", letter)
    async with site.open("/messages") as page:
        row = row_of(page, "by key")
        await expect(row).to_contain_text("dead")
        await press_tab_until(page, "Requeue the message from operator to guy")
        await page.keyboard.press("Enter")
        await expect(row).to_contain_text("unread")
        await press_tab_until(page, "Read the message from operator to guy")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("dialog")).to_contain_text("by key")
        await press_tab_until(page, "Mark as handled the message from operator")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="Cancel")).to_be_focused()
        await press_tab_until(page, "Mark as handled")
        await page.keyboard.press("Enter")
        await expect(row).to_have_count(0)
    assert await state_of(site, "guy", letter) == "handled"


async def test_a_dead_letter_is_requeued_from_the_inbox_of_its_agent(site: Site) -> None:
    await site.add_agent("ivy")
    letter = await send(site, "ivy", "from the inbox")
    await site.set_aside("ivy", letter)
    async with site.open("/agents/ivy") as page:
        await page.get_by_role("tab", name="Inbox").click()
        await page.get_by_text("dead 1").click()
        await page.get_by_role("button", name="Requeue the message from operator to ivy").click()
        await page.get_by_text("unread 1").click()
        await expect(page.get_by_role("row").filter(has_text="from the inbox")).to_be_visible()
    assert await state_of(site, "ivy", letter) == "unread"


async def test_a_viewer_reads_the_messages_and_cannot_requeue_any(site: Site) -> None:
    await site.add_agent("hal")
    letter = await send(site, "hal", "seen by all")
    await site.set_aside("hal", letter)
    token = (await site.call("POST", "/tokens", {"name": "vic", "role": "viewer"}))["token"]
    async with site.open("/messages", token=token) as page:
        requeue = row_of(page, "seen by all").get_by_role("button", name="Requeue")
        await expect(requeue).to_have_attribute("aria-disabled", "true")
        await requeue.click(force=True)
        await row_of(page, "seen by all").get_by_role("button", name="Read").click()
        await expect(page.get_by_role("dialog").get_by_role("table")).to_contain_text("dead")
    assert await state_of(site, "hal", letter) == "dead"
