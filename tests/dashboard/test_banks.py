"""Banks: what they find and why, blocks and their versions, and forgetting."""

import asyncio
import re

import pytest
from playwright.async_api import expect

from tests.dashboard.conftest import Site

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("UI-08")]


async def say(site: Site, bank: str, *texts: str) -> list[str]:
    """Store what ann says in a new bank, and return the ids of the episodes."""
    await site.call("POST", "/banks", {"name": bank})
    body = [{"text": text, "speaker": "ann", "conversation": "call-7"} for text in texts]
    return [(await site.call("POST", f"/banks/{bank}/episodes", each))["id"] for each in body]


async def test_a_search_shows_the_parts_of_each_score_and_the_evidence_of_a_note(site: Site) -> None:
    evidence = await say(site, "found", "I live in Porto.", "I have moved to Porto.")
    note = {
        "type": "note", "id": "not_1", "kind": "consolidation", "at": "2026-01-01T00:00:00Z", "trust": "person",
        "text": "Ann lives in Porto.", "evidence": evidence, "created_at": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    await site.call("POST", "/banks/found/import", note)
    async with site.open("/banks") as page:
        await page.get_by_role("link", name="found").click()
        await page.get_by_label("Question or words").fill("who lives in Porto")
        await page.get_by_role("button", name="Search").click()
        hits = page.get_by_role("list", name="Hits").get_by_role("listitem")
        await expect(hits).to_have_count(3)
        await expect(hits.first.get_by_role("group", name="Score")).to_contain_text("words")
        await page.get_by_text("notes", exact=True).click()
        await expect(hits).to_have_count(1)
        await page.get_by_role("link", name="Evidence of 2 episodes").click()
        await expect(page.get_by_role("list", name="Evidence").get_by_role("listitem")).to_have_count(2)
        await expect(page.get_by_role("dialog")).to_contain_text("I have moved to Porto.")
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await expect(hits).to_have_count(1)


async def test_the_notes_of_a_bank_are_listed_by_state_with_their_evidence_and_open(site: Site) -> None:
    evidence = await say(site, "noted", "I live in Porto.", "I have moved to Porto.", "I live in Lisbon.")
    note = {
        "type": "note", "id": "not_10", "kind": "consolidation", "at": "2026-01-01T00:00:00Z", "trust": "person",
        "text": "Ann lives in Porto.", "evidence": evidence[:2], "created_at": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    await site.call("POST", "/banks/noted/import", note)
    old = {**note, "id": "not_11", "text": "Ann lives in Lisbon.", "evidence": evidence[2:]}
    await site.call("POST", "/banks/noted/import", {**old, "retired_at": "2026-02-01T00:00:00Z"})
    async with site.open("/banks/noted") as page:
        await expect(page.get_by_text("Passes over this bank ask no model.")).to_be_visible()  # SLEEP-88
        await page.get_by_role("tab", name="Notes").click()
        rows = page.get_by_role("table", name="Notes").get_by_role("row")
        await expect(rows).to_have_count(3)
        await page.get_by_text("retired", exact=True).click()
        await expect(rows).to_have_count(2)
        await expect(rows.nth(1)).to_contain_text("Ann lives in Lisbon.")
        await page.get_by_text("in use", exact=True).first.click()
        await expect(rows.nth(1)).to_contain_text("Ann lives in Porto.")
        await expect(rows.nth(1).get_by_role("cell").last).to_have_text("2")
        await rows.get_by_role("link", name="Ann lives in Porto.").click()
        await expect(page.get_by_role("list", name="Evidence").get_by_role("listitem")).to_have_count(2)
        await page.get_by_role("button", name="Close").click()
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await expect(rows).to_have_count(2)


async def test_a_block_is_edited_compared_and_its_edit_undone(site: Site) -> None:
    await site.call("POST", "/banks", {"name": "edited"})
    await site.call("PUT", "/banks/edited/blocks/human", {"value": "Ann likes tea.\nShe lives in Lisbon."})
    async with site.open("/banks/edited?tab=blocks") as page:
        await page.get_by_role("button", name="Show the block human").click()
        block = page.get_by_role("region", name="Block human")
        await block.get_by_role("button", name="Edit").click()
        await page.get_by_label("Text", exact=True).fill("Ann likes tea.\nShe lives in Porto.")
        await page.get_by_role("button", name="Save").click()
        diff = block.get_by_role("group", name="What version 2 changed")
        await expect(diff.locator("del")).to_have_text("− She lives in Lisbon.")
        await expect(diff.locator("ins")).to_have_text("+ She lives in Porto.")
        await block.get_by_role("button", name="Undo").click()
        await expect(block.get_by_role("group", name="What version 3 changed")).to_contain_text(
            "+ She lives in Lisbon."
        )
    shown = await site.call("GET", "/banks/edited/blocks/human")
    assert (shown["version"], shown["value"]) == (3, "Ann likes tea.\nShe lives in Lisbon.")


async def test_an_edit_of_a_block_that_somebody_else_has_written_meanwhile_is_refused_and_kept(site: Site) -> None:
    await site.call("POST", "/banks", {"name": "shared"})
    await site.call("PUT", "/banks/shared/blocks/human", {"value": "one"})
    conflict = re.compile("status of 409")
    async with site.open("/banks/shared?tab=blocks&block=human", ignore_errors=conflict) as page:
        await page.get_by_role("button", name="Edit").click()
        await page.get_by_label("Text", exact=True).fill("mine")
        await site.call("PUT", "/banks/shared/blocks/human", {"value": "theirs"})
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("alert")).to_be_visible()
        await expect(page.get_by_label("Text", exact=True)).to_have_value("mine")
    assert (await site.call("GET", "/banks/shared/blocks/human"))["value"] == "theirs"


async def test_forgetting_counts_first_asks_and_then_deletes(site: Site) -> None:
    await say(site, "emptied", "I live in Porto.", "I like tea.")
    await site.call("POST", "/banks/emptied/episodes", {"text": "Ann is on leave.", "speaker": "bob"})
    async with site.open("/banks/emptied?tab=forget") as page:
        panel = page.get_by_role("group", name="Forget")
        await expect(panel.get_by_role("button", name="Preview")).to_have_attribute("aria-disabled", "true")
        await page.get_by_label("Speaker").fill("ann")
        await panel.get_by_role("button", name="Preview").click()
        await expect(panel.get_by_role("status")).to_contain_text("2 episodes, 0 notes")
        assert (await site.call("GET", "/banks/emptied"))["episodes"] == 3
        await panel.get_by_role("button", name="Forget").click()
        await page.get_by_role("dialog").get_by_role("button", name="Forget").click()
        await expect(page.get_by_text("1 episode", exact=True)).to_be_visible()
        await page.get_by_role("tab", name="Episodes").click()
        await expect(page.get_by_role("table", name="Episodes")).to_contain_text("Ann is on leave.")
        await page.get_by_role("button", name="Show the episode of bob").click()
        await expect(page.get_by_role("table", name="About the episode")).to_contain_text("person")
    left = (await site.call("GET", "/banks/emptied/episodes"))["episodes"]
    assert [each["speaker"] for each in left] == ["bob"]


async def test_episodes_that_a_filter_hides_are_not_chosen_for_forgetting(site: Site) -> None:
    await say(site, "picked", "I live in Porto.")
    async with site.open("/banks/picked?tab=episodes") as page:
        await page.get_by_label("Select all").check()
        await expect(page.get_by_role("group", name="Forget")).to_be_visible()
        await page.get_by_label("Conversation").fill("call-8")
        await expect(page.get_by_text("This conversation has no episode here.")).to_be_visible()
        await expect(page.get_by_role("group", name="Forget")).to_have_count(0)
        await page.get_by_label("Conversation").fill("")
        await expect(page.get_by_label("Select all")).not_to_be_checked()


async def test_a_new_episode_appears_above_older_pages_that_are_not_read_again(site: Site) -> None:
    policy = {"duplicate_seconds": 0, "sleeptime": {"enabled": False}}  # a pass changes what is old
    await site.call("POST", "/banks", {"name": "paged", "policy": policy})
    for start in range(0, 501, 167):
        body = [{"text": f"Remark {number}.", "speaker": "ann"} for number in range(start, start + 167)]
        await asyncio.gather(*(site.call("POST", "/banks/paged/episodes", each) for each in body))
    async with site.open("/banks/paged?tab=episodes") as page:
        await page.get_by_role("button", name="Show older ones").click()
        await expect(page.get_by_role("button", name="Show older ones")).to_be_hidden()
        await expect(page.get_by_role("tabpanel").get_by_text("501 episodes")).to_be_visible()
        older: list[str] = []
        page.on("request", lambda request: older.append(request.url) if "after=" in request.url else None)
        await site.call("POST", "/banks/paged/episodes", {"text": "The newest.", "speaker": "bob"})
        await expect(page.get_by_role("tabpanel").get_by_text("502 episodes")).to_be_visible()
        await expect(page.get_by_role("row").nth(1)).to_contain_text("The newest.")
        assert not [url for url in older if "/episodes" in url]


async def test_a_viewer_reads_a_bank_and_cannot_change_it(site: Site) -> None:
    await site.call("POST", "/banks", {"name": "watched"})
    await site.call("PUT", "/banks/watched/blocks/human", {"value": "one"})
    token = (await site.call("POST", "/tokens", {"name": "val", "role": "viewer"}))["token"]
    async with site.open("/banks/watched?tab=blocks&block=human", token=token) as page:
        for name in ("Undo", "Delete"):
            button = page.get_by_role("button", name=name)
            await expect(button).to_have_attribute(
                "aria-description", "You are signed in as a viewer. Only an operator can do this."
            )
        await page.get_by_role("button", name="Edit").click()
        await expect(page.get_by_role("button", name="Save")).to_be_disabled()


@pytest.mark.spec("MEM-36")
async def test_a_banks_mission_is_shown_and_edited_and_so_is_what_was_not_kept(site: Site) -> None:
    await site.call("POST", "/banks", {"name": "missioned", "policy": {"mission": "A law firm. Remember deadlines."}})
    async with site.open("/banks/missioned") as page:
        mission = page.get_by_role("group", name="The mission")
        await expect(mission).to_contain_text("A law firm. Remember deadlines.")
        await mission.get_by_role("button", name="Change the mission").click()
        await page.get_by_label("Mission", exact=True).fill("A law firm. Never remember health.")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await expect(mission).to_contain_text("Never remember health.")
    bank = await site.call("GET", "/banks/missioned")
    assert bank["policy"]["mission"] == "A law firm. Never remember health."
