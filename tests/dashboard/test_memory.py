"""Holds, wakes and threads: read along, release, write."""

import asyncio
import re

import pytest
from playwright.async_api import expect

from tests.dashboard.conftest import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.spec("UI-05")
async def test_a_held_call_is_seen_and_released_and_a_refused_wake_is_explained(site: Site) -> None:
    token = await site.add_agent("holder", sleep_events=["agent_started"])
    await site.call("PATCH", "/agents/holder/coordination", {"wake_guardrails": {"max_wakes_per_day": 0}})
    await site.call("POST", "/wakes", {"to": "holder", "message": "please", "reason": "user_request"})
    async with site.open("/holds") as page, site.ask_model(token) as call:
        row = page.get_by_role("row").filter(has_text="holder")
        await expect(row).to_contain_text("POST /v1/chat/completions")
        await row.get_by_role("button", name="Wake agent holder").click()
        assert await call == 200
        await expect(row).to_have_count(0)
        await page.get_by_role("link", name="Wakes").click()
        refused = page.get_by_role("row").filter(has_text="refused")
        await refused.get_by_role("button", name="Why this decision on holder").click()
        await expect(page.get_by_role("table", name="Guardrails")).to_contain_text("stopped")
        await page.get_by_role("button", name="Show the chain").click()
        total = page.get_by_role("status").filter(has_text="1 message, 1 wake, 0 pulses; 1 deep")
        await expect(total).to_contain_text("0 calls, 0 tokens, $0")
        chain = page.get_by_role("main")
        await expect(chain.get_by_role("link", name="holder")).to_have_count(1)
        await expect(chain.get_by_role("link", name="operator")).to_have_count(0)  # the author is no agent
        await page.go_back()
        await expect(page.get_by_role("dialog", name="Why this decision")).to_be_visible()
        await page.keyboard.press("Escape")
        await page.get_by_role("tab", name="Who wakes whom").click()
        await expect(page.get_by_role("table", name="Who wakes whom")).to_contain_text("2, 1 refused")


@pytest.mark.spec("UI-05")
async def test_a_matrix_that_leaves_out_agents_says_how_many_there_are(site: Site) -> None:
    agents = [{"name": f"target-{number:02}"} for number in range(31)]
    await site.call("POST", "/sessions", {"name": "wide", "agents": agents})
    for agent in agents:
        await site.call("POST", "/wakes", {"to": f"wide:{agent['name']}", "reason": "user_request"})
    count = len({pair["to"] for pair in (await site.call("GET", "/wakes/matrix"))["pairs"]})
    assert count >= len(agents)
    async with site.open("/wakes") as page:
        await page.get_by_role("tab", name="Who wakes whom").click()
        table = page.get_by_role("table", name="Who wakes whom")
        await expect(table.get_by_role("columnheader")).to_have_count(1 + 30)
        await expect(table.get_by_role("caption")).to_contain_text(f"The 30 busiest of {count} columns.")
        await expect(table.get_by_role("caption")).not_to_contain_text("rows.")


@pytest.mark.spec("UI-06", "UI-20")
async def test_a_thread_shows_its_newest_thousand_messages_and_those_before_when_asked(site: Site) -> None:
    thread = await site.call("POST", "/sessions/default/threads", {"name": "long"})
    messages = f"/sessions/default/threads/{thread['id']}/messages"
    for start in range(0, 1000, 20):
        texts = [f"message {number:04}" for number in range(start, start + 20)]
        await asyncio.gather(*(site.call("POST", messages, {"from": "user", "content": text}) for text in texts))
    await site.call("POST", messages, {"from": "user", "content": "message 1001"})
    async with site.open(f"/threads/default/{thread['id']}") as page:
        await expect(page.get_by_text("message 1001")).to_be_visible()
        await site.call("POST", messages, {"from": "user", "content": "message 1002"})
        await expect(page.get_by_text("message 1002")).to_be_visible()
        await expect(page.get_by_text(re.compile("message [0-9]{4}"))).to_have_count(1001)
        await page.get_by_role("button", name="Show older ones").click()
        await expect(page.get_by_text("message 0000")).to_be_visible()
        await expect(page.get_by_text(re.compile("message [0-9]{4}"))).to_have_count(1002)
        await expect(page.get_by_role("button", name="Show older ones")).to_have_count(0)


@pytest.mark.spec("UI-06")
async def test_a_thread_is_read_along_live_and_a_person_writes_in_it(site: Site) -> None:
    await site.add_agent("talker")
    thread = await site.call("POST", "/sessions/default/threads", {"name": "notes", "participants": ["talker"]})
    messages = f"/sessions/default/threads/{thread['id']}/messages"
    async with site.open("/threads") as page:
        await page.get_by_role("link", name="notes").click()
        log = page.get_by_role("log")
        await expect(log).to_be_visible()
        await site.call("POST", messages, {"from": "talker", "content": "hello there"})
        await expect(log).to_contain_text("hello there", timeout=1_500)
        await page.get_by_role("textbox", name="Message").fill("good evening")
        await page.get_by_role("button", name="Send as operator").click()
        await expect(log).to_contain_text("good evening")
        await page.get_by_role("button", name="Close").click()
        await page.get_by_role("dialog").get_by_role("button", name="Close", exact=True).last.click()
        await expect(page.get_by_text("closed; talker takes part")).to_be_visible()
    listed = (await site.call("GET", messages))["messages"]
    assert [(message["from"], message["content"]) for message in listed] == [
        ("talker", "hello there"), ("operator", "good evening")
    ]  # fmt: skip
