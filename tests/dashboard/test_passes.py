"""Passes: the queue, what one has changed or proposes, and a person's verdict on it."""

import re
from typing import Any

import pytest
from playwright.async_api import expect

from circadia.records.change import ChangeKind, ChangeState
from tests.dashboard.conftest import Site
from tests.dashboard.staged_pass import propose_changes, repeat_statements

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("UI-09")]


async def states(site: Site, run: Any) -> list[str]:
    return [each["state"] for each in (await site.call("GET", f"/passes/{run['id']}/changes"))["changes"]]


async def test_staged_changes_are_read_as_a_diff_accepted_refused_and_undone(site: Site) -> None:
    run = await propose_changes(site, "reviewed")
    async with site.open("/banks/reviewed?tab=passes") as page:
        row = page.get_by_role("table", name="Passes over reviewed").get_by_role("row").nth(1)
        await expect(row).to_contain_text("waiting for a person")
        await row.get_by_role("link").click()
        changes = page.get_by_role("list", name="Changes").get_by_role("listitem")
        await expect(changes.first).to_contain_text("Retire the note")
        await expect(changes.first.locator("del")).to_have_text("− Ann lives in Porto since May.")
        await page.get_by_role("button", name="Accept change 1").click()
        await expect(changes.first).to_contain_text("published")
        assert (await states(site, run))[:2] == ["published", "staged"]
        await page.get_by_role("button", name="Refuse all").click()
        await page.get_by_role("dialog").get_by_role("button", name="Refuse all").click()
        await expect(changes).to_have_count(1)
        await page.get_by_role("button", name=re.compile("^Show .* refused")).click()
        refused = page.get_by_role("list", name="Refused changes").get_by_role("listitem")
        await expect(refused.first).to_contain_text("refused by operator")
        await page.get_by_role("button", name="Undo all").click()
        await page.get_by_role("dialog").get_by_role("button", name="Undo all").click()
        await expect(changes.first).to_contain_text("undone")
    after = await states(site, run)
    assert (after[0], set(after[1:])) == ("undone", {"refused"})


@pytest.mark.spec("SLEEP-22", "SLEEP-30")
async def test_an_open_contradiction_and_an_edit_of_a_person_s_line_are_read_and_the_edit_is_made_by_one_click(
    site: Site,
) -> None:
    await site.call("POST", "/banks", {"name": "own-words", "policy": {"sleeptime": {"when": "manual"}}})
    block = await site.call("PUT", "/banks/own-words/blocks/human", {"value": "Ann is a nurse.\nAnn: 555-0100."})
    said = await site.call("POST", "/banks/own-words/episodes", {"text": "I have 555-0199 now.", "speaker": "ann"})
    edit = {"old": "555-0100", "new": "555-0199", "ids": [said["id"]], "also": [], "moved": False}
    before = {"value": block["value"], "version": block["version"]}
    after = {"value": "Ann is a nurse.\nAnn: 555-0199.", "edit": edit, "waits": True}
    flag = {"text": "Ann has 555-0199; but also: Ann has 555-0100.", "evidence": [said["id"]]}
    run = await site.add_pass(
        "own-words",
        (ChangeKind.FLAG, ChangeState.PUBLISHED, said["id"], None, flag),
        (ChangeKind.WRITE_BLOCK, ChangeState.STAGED, "human", before, after),
    )
    async with site.open(f"/passes/{run}") as page:
        changes = page.get_by_role("list", name="Changes").get_by_role("listitem")
        await expect(changes.first).to_contain_text("Report the contradiction")
        await expect(changes.first).to_contain_text(flag["text"])
        await expect(changes.nth(1).locator("del")).to_have_text("− Ann: 555-0100.")
        await expect(changes.nth(1).locator("ins")).to_have_text("+ Ann: 555-0199.")
        await page.get_by_role("button", name="Accept change 2").click()
        await expect(changes.nth(1)).to_contain_text("published")
    assert (await site.call("GET", "/banks/own-words/blocks/human"))["value"] == after["value"]


async def test_a_pass_that_a_person_asks_for_appears_with_its_effect_without_a_reload(site: Site) -> None:
    await repeat_statements(site, "asked")
    async with site.open("/banks/asked?tab=passes") as page:
        await expect(page.get_by_text("There was no pass over this bank yet.")).to_be_visible()
        await page.get_by_role("button", name="Run a pass over asked").click()
        row = page.get_by_role("table", name="Passes over asked").get_by_role("row").nth(1)
        await expect(row).to_contain_text("episodes demoted")
        await expect(row).to_contain_text("succeeded")
        await page.get_by_role("button", name="Pause passes over asked").click()
        await expect(page.get_by_text("Paused by operator")).to_be_visible()
    assert (await site.call("GET", "/banks/asked/sleeptime"))["paused_by"] == "operator"


async def test_the_history_of_all_banks_shows_effect_and_cost_by_status_and_leads_to_the_pass(site: Site) -> None:
    await repeat_statements(site, "past-one")
    run = await site.call("POST", "/banks/past-one/passes", {"full": True, "wait_seconds": 60})
    await site.call("POST", "/banks", {"name": "past-two"})
    idle = await site.call("POST", "/banks/past-two/passes", {"wait_seconds": 60})
    assert (run["status"], idle["status"]) == ("succeeded", "no_change")
    async with site.open("/passes") as page:
        rows = page.get_by_role("table", name="History of passes").get_by_role("row")
        one, two = rows.filter(has_text="past-one"), rows.filter(has_text="past-two")
        await expect(one).to_contain_text("1 note retired")
        await expect(one).to_contain_text("$0")
        await expect(two).to_contain_text("no change")
        await page.get_by_role("combobox", name="Status").click()
        await page.get_by_role("option", name="succeeded").click()
        await expect(two).to_have_count(0)
        await expect(one).to_be_visible()
        await page.keyboard.press("Escape")
        await one.get_by_role("link").first.click()
        await expect(page.get_by_role("heading", name="Pass over past-one")).to_be_visible()
        await page.go_back()
        await expect(one).to_be_visible()
        await expect(two).to_have_count(0)


async def test_one_change_of_a_pass_is_undone_and_the_others_stay(site: Site) -> None:
    run = await propose_changes(site, "regretted")
    await site.call("POST", f"/passes/{run['id']}/accept")
    assert set(await states(site, run)) == {"published"}
    async with site.open(f"/passes/{run['id']}") as page:
        changes = page.get_by_role("list", name="Changes").get_by_role("listitem")
        await page.get_by_role("button", name="Undo change 2").click()
        await page.get_by_role("dialog").get_by_role("button", name="Undo").click()
        await expect(changes.nth(1)).to_contain_text("undone")
        await expect(page.get_by_role("button", name="Undo change 2")).to_have_count(0)
        await expect(page.get_by_role("button", name="Undo change 1")).to_be_visible()
    after = await states(site, run)
    assert (after[1], set(after[:1] + after[2:])) == ("undone", {"published"})


async def test_a_viewer_reads_what_waits_and_cannot_decide_it(site: Site) -> None:
    run = await propose_changes(site, "seen")
    token = (await site.call("POST", "/tokens", {"name": "pat", "role": "viewer"}))["token"]
    async with site.open(f"/passes/{run['id']}", token=token) as page:
        for name in ("Accept all", "Refuse all", "Accept change 1", "Undo all"):
            await expect(page.get_by_role("button", name=name)).to_have_attribute("aria-disabled", "true")
    assert set(await states(site, run)) == {"staged"}
