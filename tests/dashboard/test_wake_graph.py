"""Who wakes whom as a graph: its numbers by keyboard and by pointer, and its limit."""

import pytest
from playwright.async_api import expect

from tests.dashboard.conftest import NARROW, WIDE, Site, press_tab_until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("UI-05")]


async def test_the_numbers_of_the_graph_are_shown_by_keyboard_and_by_pointer(site: Site) -> None:
    for name in ("ann", "bob", "cyd"):
        await site.add_agent(name, sleep_events=["agent_started"])
    await site.call("PATCH", "/agents/bob/coordination", {"wake_guardrails": {"max_wakes_per_day": 0}})
    for target in ("ann", "bob", "bob"):
        await site.call("POST", "/wakes", {"to": target, "reason": "user_request"})
    decisions = {
        pair["to"]: ", ".join(f"{count} {decision}" for decision, count in pair["decisions"].items())
        for pair in (await site.call("GET", "/wakes/matrix"))["pairs"]
    }
    assert decisions["bob"] == "2 refused"
    async with site.open("/wakes") as page:
        await page.get_by_role("tab", name="Who wakes whom").click()
        graph = page.get_by_role("radiogroup", name="Agents that ask and are asked for wakes")
        numbers = page.get_by_role("group", name="Numbers")
        await expect(graph.get_by_role("radio")).to_have_count(3)  # cyd neither asks nor is asked
        await expect(numbers).to_contain_text("Choose an agent")
        await press_tab_until(page, "ann: 0 requests made, 1 received")
        wording = f"operator asks ann: 1 request, {decisions['ann']}"
        await expect(numbers.get_by_role("listitem")).to_have_text([wording])
        await page.keyboard.press("ArrowRight")
        await expect(graph.get_by_role("radio", checked=True)).to_have_attribute(
            "aria-label", "bob: 0 requests made, 2 received"
        )
        await expect(numbers.get_by_role("listitem")).to_have_text(["operator asks bob: 2 requests, 2 refused"])
        await page.keyboard.press("ArrowRight")
        await expect(numbers.get_by_role("listitem")).to_have_count(2)
        await page.keyboard.press("ArrowRight")
        await expect(numbers).to_contain_text("operator asks ann")
        await page.keyboard.press("Escape")
        await expect(numbers).to_contain_text("Choose an agent")
        await graph.get_by_role("radio", name="bob").hover()
        await expect(numbers).to_contain_text("2 refused")
        await page.get_by_role("heading", name="Wakes").hover()
        await expect(numbers).to_contain_text("Choose an agent")
        await expect(page.get_by_role("table", name="Who wakes whom")).to_contain_text("2, 2 refused")


async def test_the_graph_draws_the_busiest_forty_and_says_how_many_there_are(site: Site) -> None:
    agents = [{"name": f"target-{number:02}"} for number in range(45)]
    await site.call("POST", "/sessions", {"name": "wide", "agents": agents})
    for agent in agents:
        await site.call("POST", "/wakes", {"to": f"wide:{agent['name']}", "reason": "user_request"})
    pairs = (await site.call("GET", "/wakes/matrix"))["pairs"]
    count = len({pair[side] for pair in pairs for side in ("from", "to")})
    for viewport, most in ((WIDE, 40), (NARROW, 16)):
        async with site.open("/wakes", viewport=viewport) as page:
            await page.get_by_role("tab", name="Who wakes whom").click()
            graph = page.get_by_role("radiogroup")
            await expect(graph.get_by_role("radio")).to_have_count(most)
            await expect(page.get_by_text(f"The {most} busiest of {count} are drawn.")).to_be_visible()
            await expect(graph.get_by_role("radio", name="operator")).to_have_count(1)
            box = await graph.bounding_box()
            assert box is not None
            assert box["height"] > 200
