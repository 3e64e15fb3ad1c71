"""Two people edit the same settings: each sees what the other has changed, and nothing is lost."""

import re
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.dashboard.conftest import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")

REFUSED = re.compile("status of 412|Failed to load|ERR_")


async def operator(site: Site, name: str) -> str:
    token: str = (await site.call("POST", "/tokens", {"name": name, "role": "operator"}))["token"]
    return token


async def open_tab(page: Page, name: str) -> None:
    await page.get_by_role("tab", name=name).click()


async def policy(site: Site, agent: str) -> Any:
    return (await site.call("GET", f"/sessions/default/agents/{agent}"))["policy"]


@pytest.mark.spec("UI-04")
async def test_two_operators_edit_one_policy_and_both_changes_are_saved(site: Site) -> None:
    await site.add_agent("shared", policy={"max_calls_per_day": 5})
    ann, bob = await operator(site, "ann"), await operator(site, "bob")
    async with site.open("/agents/shared", token=ann) as hers, site.open("/agents/shared", token=bob) as his:
        for page in (hers, his):
            await open_tab(page, "Settings")
        mine, theirs = hers.get_by_role("region", name="Policy"), his.get_by_role("region", name="Policy")
        await mine.get_by_label("Calls a day").fill("7")
        await mine.get_by_label("Tokens a day").fill("9000")
        await theirs.get_by_label("Calls a day").fill("11")
        await theirs.get_by_label("US dollars a day").fill("3")
        await theirs.get_by_role("button", name="Save").click()
        await expect(his.get_by_text("The policy of shared is changed.")).to_be_visible()
        notice = mine.get_by_role("alert", name="Somebody else has changed this meanwhile")
        await expect(notice).to_be_visible()
        await expect(mine.get_by_role("button", name="Save")).to_be_disabled()
        rows = notice.get_by_role("row")
        await expect(rows.filter(has_text="Calls a day")).to_contain_text(re.compile("5.*11.*7"))
        await expect(rows.filter(has_text="US dollars a day")).to_contain_text(re.compile("none.*3.*not changed"))
        await expect(rows.filter(has_text="Tokens a day")).to_contain_text(re.compile("none.*none.*9000"))
        await expect(mine.get_by_label("Calls a day", exact=True)).to_have_value("7")
        assert (await policy(site, "shared"))["max_calls_per_day"] == 11
        await notice.get_by_role("button", name="Use theirs for Calls a day").click()
        await notice.get_by_role("button", name="Keep my changes").click()
        await expect(mine.get_by_label("Calls a day", exact=True)).to_have_value("11")
        await mine.get_by_role("button", name="Save").click()
        await expect(hers.get_by_text("The policy of shared is changed.")).to_be_visible()
    saved = await policy(site, "shared")
    assert [saved[f"max_{each}_per_day"] for each in ("calls", "tokens", "usd")] == [11, 9000, 3]


@pytest.mark.spec("UI-02")
async def test_what_a_person_has_typed_outlives_a_sign_in_that_ends_and_nobody_else_sees_it(site: Site) -> None:
    await site.add_agent("drafted")
    async with site.open("/agents/drafted", token=await operator(site, "dora")) as page:
        await open_tab(page, "Settings")
        calls = page.get_by_role("region", name="Policy").get_by_label("Calls a day", exact=True)
        await calls.fill("17")
        for name, value in (("emil", ""), ("dora", "17")):
            for token in [each["name"] for each in (await site.call("GET", "/tokens"))["tokens"]]:
                await site.call("DELETE", f"/tokens/{token}")
            await expect(page.get_by_role("button", name="Sign in")).to_be_visible()
            await page.get_by_label("Token").fill(await operator(site, name))
            await page.get_by_role("button", name="Sign in").click()
            await open_tab(page, "Settings")
            await expect(calls).to_have_value(value)


@pytest.mark.spec("UI-04")
async def test_a_page_that_has_not_heard_of_a_change_cannot_overwrite_it(site: Site) -> None:
    await site.add_agent("unheard")
    async with site.open("/", ignore_errors=REFUSED) as page:
        await page.route("**/events/stream*", lambda route: route.abort())
        await page.goto("/ui/agents/unheard")
        await open_tab(page, "Settings")
        settings = page.get_by_role("region", name="Wakes and guardrails")
        await settings.get_by_label("Max wakes per day").fill("3")
        change = {"wake_guardrails": {"max_wakes_per_day": 4, "max_chain_depth": 2}}
        await site.call("PATCH", "/agents/unheard/coordination", change, token=await operator(site, "carl"))
        await settings.get_by_role("button", name="Save").click()
        notice = settings.get_by_role("alert")
        await expect(notice).to_contain_text("last by 'operator/carl'")
        await expect(notice.get_by_role("row").filter(has_text="Max wakes per day")).to_contain_text("4")
        await expect(settings.get_by_label("Max wakes per day", exact=True)).to_have_value("3")
        stored = (await site.call("GET", "/agents/unheard/coordination"))["settings"]
        assert stored["wake_guardrails.max_wakes_per_day"]["value"] == 4
        await notice.get_by_role("button", name="Keep my changes").click()
        await settings.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("The next decision on a wake of unheard")).to_be_visible()
    stored = (await site.call("GET", "/agents/unheard/coordination"))["settings"]
    assert stored["wake_guardrails.max_wakes_per_day"]["value"] == 3
    assert stored["wake_guardrails.max_chain_depth"]["value"] == 2


@pytest.mark.spec("UI-07")
async def test_routines_that_two_operators_add_at_once_are_both_there(site: Site) -> None:
    await site.add_agent("crowded")
    routines = [{"name": "nightly", "cron": "0 3 * * *"}, {"name": "weekly", "cron": "0 9 * * mon"}]
    await site.call("PUT", "/agents/crowded/schedule", {"routines": routines[:1]})
    async with site.open("/agents/crowded") as page:
        await open_tab(page, "Schedule")
        await page.get_by_role("button", name="Edit nightly").click()
        await page.get_by_label("Rule").fill("0 4 * * *")
        await expect(page.get_by_text("1 changed, not saved")).to_be_visible()
        await site.call("PUT", "/agents/crowded/schedule", {"routines": routines})
        notice = page.get_by_role("alert", name="Somebody else has changed this meanwhile")
        await expect(notice.get_by_role("row").filter(has_text="Routine weekly")).to_contain_text("0 9 * * mon")
        await expect(notice.get_by_role("row").filter(has_text="Routine nightly")).to_contain_text("0 4 * * *")
        await notice.get_by_role("button", name="Keep my changes").click()
        await expect(page.get_by_label("Rule")).to_have_value("0 4 * * *")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("The schedule of crowded is changed.")).to_be_visible()
    saved = (await site.call("GET", "/agents/crowded/schedule"))["routines"]
    assert {each["name"]: each["cron"] for each in saved} == {"nightly": "0 4 * * *", "weekly": "0 9 * * mon"}
