"""For you: what waits for a person, and that other windows follow what one decides."""

import asyncio

import pytest
from playwright.async_api import expect

from circadia.clock import SystemClock
from circadia.ids import AlertId
from circadia.records.alert import AlertRecord
from circadia.stores.sqlite import open_sqlite
from tests.dashboard.conftest import Site, check_accessibility
from tests.dashboard.staged_pass import NOTED, propose_changes

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("UI-19")]

WITHIN_A_SECOND = 1_000 + 500
"""Milliseconds: a second, and the time in which the browser looks again."""


async def raise_alert(site: Site, key: str, cause: str, agent: str) -> None:
    """Put an alert into the history as a server does."""
    store = await open_sqlite(site.server.data / "circadia.db")
    async with store.begin_write() as tx:
        alert = AlertRecord(
            id=AlertId(key), cause=cause, session="default", agent=agent, at=SystemClock().now(),
            detail={"failures": 5, "last": "cannot reach the build farm"},
        )  # fmt: skip
        await tx.alert_history.add(alert)
    await store.close()


async def test_a_proposal_shows_what_it_changes_beside_its_sources_and_other_windows_follow_a_decision(
    site: Site,
) -> None:
    run = await propose_changes(site, "proposed")
    waiting = run["counts"]["staged"]
    async with site.open("/for-you") as page, site.open("/for-you?tab=proposals") as other:
        changes = page.get_by_role("list", name="Changes of proposed").get_by_role("listitem")
        first = changes.first
        await expect(first).to_contain_text("Retire the note")
        await expect(page.get_by_role("group", name="Texts of change 1", exact=True)).to_contain_text(NOTED)
        await expect(page.get_by_role("link", name="For you")).to_contain_text(str(waiting))
        others = other.get_by_role("list", name="Changes of proposed").get_by_role("listitem")
        texts_of_other = other.get_by_role("group", name="Texts of change 1", exact=True)
        await expect(texts_of_other).to_be_visible()
        await check_accessibility(page)
        await page.get_by_role("button", name="Accept change 1").click()
        await expect(texts_of_other).to_have_count(0, timeout=WITHIN_A_SECOND)
        await page.get_by_role("button", name="Refuse all of proposed").click()
        await check_accessibility(page)
        await page.get_by_role("dialog").get_by_role("button", name="Refuse").click()
        await expect(others).to_have_count(0)
        await expect(page.get_by_role("link", name="For you")).not_to_contain_text(str(waiting))
    states = {each["state"] for each in (await site.call("GET", f"/passes/{run['id']}/changes"))["changes"]}
    assert states == {"published", "refused"}


async def test_an_alert_is_acknowledged_by_name_and_stays_in_the_history(site: Site) -> None:
    await site.add_agent("flaky")
    await raise_alert(site, "alr_flaky", "circuit_open", "flaky")
    async with site.open("/for-you?tab=alerts") as page, site.open("/for-you?tab=alerts") as other:
        alert = page.get_by_role("list", name="Alerts").get_by_role("listitem")
        await expect(alert).to_contain_text("cannot reach the build farm")
        seen = other.get_by_role("list", name="Alerts").get_by_role("listitem")
        await expect(seen).to_have_count(1)
        await page.get_by_role("button", name="Acknowledge circuit open of flaky").click()
        await expect(seen).to_have_count(0, timeout=WITHIN_A_SECOND)
        await page.get_by_text("all", exact=True).click()
        await expect(alert).to_contain_text("acknowledged by operator")
        await check_accessibility(page)
        await page.reload()
        await expect(alert).to_contain_text("acknowledged by operator")


async def test_dead_letters_are_counted_in_the_navigation_and_requeued(site: Site) -> None:
    await site.add_agent("unread")
    letter = await site.call("POST", "/messages", {"to": "unread", "content": "the list is ready", "priority": "low"})
    await site.set_aside("unread", letter["message"])
    async with site.open("/for-you?tab=dead_letters") as page:
        item = page.get_by_role("list", name="Dead letters").get_by_role("listitem")
        await expect(item).to_contain_text("the list is ready")
        await expect(page.get_by_role("navigation").get_by_role("link", name="Messages")).to_contain_text("1")
        await check_accessibility(page)
        await page.get_by_role("button", name="Requeue the message from operator to unread").click()
        await expect(item).to_have_count(0)
        await expect(page.get_by_role("navigation").get_by_role("link", name="Messages")).not_to_contain_text("1")


async def test_another_window_sees_a_dropped_answer_and_a_demotion_at_once(site: Site) -> None:
    await site.call("POST", "/banks", {"name": "watched"})
    for text in ("Ann lives in Porto.", "Ann has moved to Faro."):
        await site.call("POST", "/banks/watched/episodes", {"text": text, "speaker": "ann"})
    old, new = (await site.call("GET", "/banks/watched/episodes"))["episodes"]
    asked: asyncio.Event = asyncio.Event()
    async with site.open("/banks/watched?q=Porto") as page:
        await page.get_by_role("textbox").first.fill("Porto")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Ann lives in Porto.").first).to_be_visible()
        page.on("request", lambda request: asked.set() if "/search" in request.url else None)
        asked.clear()
        await site.call("POST", f"/banks/watched/episodes/{old['id']}/stale", {"evidence": new["id"]})
        async with asyncio.timeout(WITHIN_A_SECOND / 1000):
            await asked.wait()
