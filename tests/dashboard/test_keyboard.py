"""What an operator does most, without a pointer."""

import pytest
from playwright.async_api import expect

from tests.dashboard.conftest import Site, check_accessibility, press_tab_until
from tests.dashboard.staged_pass import propose_changes
from tests.fixtures.server_process import ADMIN_TOKEN

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("UI-13")]


async def test_the_sign_in_is_accessible_and_works_by_keyboard_as_does_putting_an_agent_to_sleep(site: Site) -> None:
    await site.add_agent("keyed")
    async with site.open("/agents", token=None) as page:
        await expect(page.get_by_label("Token")).to_be_focused()
        await check_accessibility(page)
        await page.keyboard.type(ADMIN_TOKEN)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("row").filter(has_text="keyed")).to_be_visible()
        await press_tab_until(page, "Skip to the content")
        await page.keyboard.press("Enter")
        await press_tab_until(page, "Select keyed")
        outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none"
        await page.keyboard.press("Space")
        await press_tab_until(page, "Sleep keyed", back=True)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("row").filter(has_text="keyed")).to_contain_text("asleep")


async def test_a_held_call_is_released_and_a_message_written_by_keyboard(site: Site) -> None:
    token = await site.add_agent("released", sleep_events=["agent_started"])
    thread = await site.call("POST", "/sessions/default/threads", {"name": "typed", "participants": ["released"]})
    async with site.open("/holds") as page:
        async with site.ask_model(token) as call:
            await expect(page.get_by_role("row").filter(has_text="released")).to_be_visible()
            await press_tab_until(page, "released")
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("heading", name="released")).to_be_visible()
            await press_tab_until(page, "Wake")
            await page.keyboard.press("Enter")
            assert await call == 200
        await page.goto(f"/ui/threads/default/{thread['id']}")
        await expect(page.get_by_role("textbox", name="Message")).to_be_visible()
        await press_tab_until(page, "Message")
        await page.keyboard.type("good evening")
        await press_tab_until(page, "Send as operator")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("log")).to_contain_text("good evening")


async def test_a_pass_is_begun_and_a_block_edited_by_keyboard(site: Site) -> None:
    await site.call("POST", "/banks", {"name": "keyed"})
    await site.call("PUT", "/banks/keyed/blocks/human", {"value": "Ann likes tea."})
    async with site.open("/banks/keyed?tab=passes") as page:
        await expect(page.get_by_text("There was no pass over this bank yet.")).to_be_visible()
        await press_tab_until(page, "Run a pass over keyed")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("table", name="Passes over keyed").get_by_role("row")).to_have_count(2)
        await page.goto("/ui/banks/keyed?tab=blocks&block=human")
        await expect(page.get_by_role("region", name="Block human")).to_be_visible()
        await press_tab_until(page, "Edit")
        await page.keyboard.press("Enter")
        await expect(page.get_by_label("Text", exact=True)).to_be_focused()
        await page.keyboard.press("Control+A")
        await page.keyboard.type("Ann likes coffee.")
        await press_tab_until(page, "Save")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("dialog")).to_have_count(0)
    assert (await site.call("GET", "/banks/keyed/blocks/human"))["value"] == "Ann likes coffee."


async def test_a_routine_is_planned_and_saved_by_keyboard(site: Site) -> None:
    await site.add_agent("scheduled")
    async with site.open("/agents/scheduled") as page:
        await expect(page.get_by_role("tab", name="Day")).to_be_visible()
        await press_tab_until(page, "Day")
        for _ in range(3):
            await page.keyboard.press("ArrowRight")
        await expect(page.get_by_role("heading", name="Routines")).to_be_visible()
        await press_tab_until(page, "Add a routine")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("textbox", name="Name")).to_be_focused()
        await page.keyboard.type("weekly")
        await press_tab_until(page, "Rule")
        await page.keyboard.press("Control+A")
        await page.keyboard.type("0 7 * * fri")
        await press_tab_until(page, "Close the form")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="Add a routine")).to_be_focused()
        await press_tab_until(page, "Save")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("The schedule of scheduled is changed.")).to_be_visible()
        await press_tab_until(page, "Turn off weekly", back=True)
        await page.keyboard.press("Space")
        await press_tab_until(page, "Save")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="Discard")).to_have_count(0)
    routine = (await site.call("GET", "/agents/scheduled/schedule"))["routines"][0]
    assert (routine["cron"], routine["enabled"]) == ("0 7 * * fri", False)


async def test_two_versions_of_a_policy_are_joined_by_keyboard(site: Site) -> None:
    await site.add_agent("joined")
    async with site.open("/agents/joined") as page:
        await page.get_by_role("tab", name="Settings").click()
        await expect(page.get_by_label("Calls a day")).to_be_visible()
        await press_tab_until(page, "Calls a day")
        await page.keyboard.type("7")
        path = "/sessions/default/agents/joined"
        await site.call("PATCH", path, {"policy": {"max_tokens_per_day": 9000}})
        await expect(page.get_by_role("alert")).to_be_visible()
        await check_accessibility(page)
        await press_tab_until(page, "Keep my changes")
        await page.keyboard.press("Enter")
        await press_tab_until(page, "Save")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("The policy of joined is changed.")).to_be_visible()
    policy = (await site.call("GET", path))["policy"]
    assert (policy["max_calls_per_day"], policy["max_tokens_per_day"]) == (7, 9000)


async def test_a_note_is_opened_and_a_change_of_a_pass_undone_by_keyboard(site: Site) -> None:
    run = await propose_changes(site, "handled")
    await site.call("POST", f"/passes/{run['id']}/accept", {"numbers": [1, 2]})
    async with site.open("/banks/handled?tab=notes") as page:
        await expect(page.get_by_role("table", name="Notes")).to_be_visible()
        await press_tab_until(page, "Rows of Notes")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("dialog")).to_contain_text("Evidence")
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await page.goto("/ui/passes")
        await expect(page.get_by_role("table", name="History of passes")).to_be_visible()
        await press_tab_until(page, "Rows of History of passes")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Pass over handled")).to_be_visible()
        await expect(page.get_by_role("button", name="Undo change 2")).to_be_visible()
        await press_tab_until(page, "Undo change 2")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("dialog")).to_be_visible()
        await press_tab_until(page, "Undo")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("list", name="Changes").get_by_role("listitem").nth(1)).to_contain_text("undone")
