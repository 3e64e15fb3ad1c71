"""The overview and the agents: live, and acted on."""

import pytest
from playwright.async_api import Route, expect

from tests.dashboard.conftest import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.spec("UI-03")
async def test_one_glance_at_the_overview_says_well_or_what_is_not(site: Site) -> None:
    async with site.open() as page:
        await expect(page.get_by_role("status").filter(has_text="All well")).to_be_visible()
        token = await site.add_agent("glance")
        await expect(page.get_by_role("group", name="Asleep", exact=True)).to_contain_text("0 of 1")
        site.upstream.next(status=503)
        async with site.ask_model(token) as call:
            await call
        await expect(page.get_by_role("status").filter(has_text="Not all is well")).to_contain_text(
            "Upstream 'openai' fails"
        )
        await expect(page.get_by_role("group", name="Calls", exact=True)).to_have_text("Calls1")


@pytest.mark.spec("UI-04")
async def test_a_click_puts_an_agent_to_sleep_and_the_table_follows_events_made_elsewhere(site: Site) -> None:
    await site.add_agent("sleeper")
    async with site.open("/agents") as page:
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name="sleeper"))
        await expect(row).to_contain_text("awake")
        await page.get_by_label("Select sleeper").check()
        await page.get_by_role("button", name="Sleep sleeper").click()
        await expect(row).to_contain_text("asleep")
        assert (await site.call("GET", "/sessions/default/agents/sleeper"))["sleeping"]
        await site.set_sleeping("sleeper", False)
        await expect(row).to_contain_text("awake", timeout=1_000)
        await site.add_agent("newcomer")
        await expect(page.get_by_role("link", name="newcomer")).to_be_visible(timeout=1_000)
        await site.call("DELETE", "/sessions/default/agents/newcomer")
        await expect(page.get_by_role("link", name="newcomer")).to_be_hidden(timeout=1_000)


@pytest.mark.spec("UI-04")
async def test_select_all_is_about_the_agents_that_the_filter_shows(site: Site) -> None:
    for name in ("chosen-one", "chosen-two", "other-one"):
        await site.add_agent(name)
    async with site.open("/agents") as page:
        filter_, select_all = page.get_by_label("Filter by name"), page.get_by_label("Select all")
        await filter_.fill("chosen-")
        await expect(page.get_by_role("row")).to_have_count(3)
        await select_all.check()
        await filter_.fill("other-one")
        await expect(page.get_by_role("row")).to_have_count(2)
        await expect(select_all).not_to_be_checked()
        await expect(select_all).to_have_js_property("indeterminate", False)
        await select_all.check()
        await expect(page.get_by_text("1 selected")).to_be_visible()


@pytest.mark.spec("UI-04")
async def test_deleting_an_agent_leads_to_the_list_of_agents(site: Site) -> None:
    await site.add_agent("unwanted")
    async with site.open("/agents/unwanted") as page:

        async def answer_late(route: Route) -> None:
            """Let the event of the deletion reach the page before the answer does."""
            if route.request.method != "DELETE":
                await route.continue_()
                return
            async with page.expect_request("**/api/v1/overview"):
                response = await route.fetch()
            await route.fulfill(response=response)

        await page.route("**/agents/unwanted", answer_late)
        await page.get_by_role("tab", name="Budgets").click()
        await expect(page.get_by_text("not running; ")).to_be_visible()
        await page.get_by_role("button", name="Delete").click()
        await expect(page.get_by_role("dialog", name="Delete unwanted?")).to_be_visible()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_role("heading", name="Agents")).to_be_visible()
        assert page.url == f"{site.server.url}/ui/agents"
        await expect(page.get_by_role("link", name="unwanted")).to_have_count(0)


@pytest.mark.spec("UI-04")
async def test_a_new_agents_token_is_shown_once_and_opens_the_gateway(site: Site) -> None:
    async with site.open("/agents") as page:
        await page.get_by_role("button", name="Add an agent").click()
        await page.get_by_role("textbox", name="Name", exact=True).fill("made-here")
        await page.get_by_role("button", name="Create").click()
        token = await page.get_by_label("Token", exact=True).inner_text()
        await page.get_by_role("button", name="Done").click()
        assert token not in await page.content()
    async with site.ask_model(token) as call:
        assert await call == 200


@pytest.mark.spec("UI-04")
async def test_the_page_of_an_agent_shows_why_it_woke_its_day_and_its_budgets(site: Site) -> None:
    token = await site.add_agent("busy", policy={"max_calls_per_day": 5})
    await site.set_sleeping("busy", True)
    async with site.open("/agents/busy") as page, site.ask_model(token) as call:
        await expect(page.get_by_role("group", name="Held calls")).to_have_text("Held calls1")
        await page.get_by_role("button", name="Wake", exact=True).click()
        assert await call == 200
        await expect(page.get_by_role("group", name="State")).to_contain_text("awake")
        await expect(page.get_by_role("group", name="State")).to_contain_text("by operator (rest)")
        await expect(page.get_by_role("img", name="Today in UTC")).to_be_visible()
        await expect(page.get_by_text("1 held call, 0 pulses, 1 wake, 0 refusals.")).to_be_visible()
        await page.get_by_role("tab", name="Budgets").click()
        await expect(page.get_by_text("1 used of 5, 4 left")).to_be_visible()
        await page.get_by_role("tab", name="Settings").click()
        await page.get_by_label("Calls a day").fill("7")
        await page.get_by_role("region", name="Policy").get_by_role("button", name="Save").click()
        await expect(page.get_by_text("The policy of busy is changed.")).to_be_visible()
        await page.get_by_label("Max wakes per day").fill("3")
        await page.get_by_role("region", name="Wakes and guardrails").get_by_role("button", name="Save").click()
        await expect(page.get_by_text("The next decision on a wake of busy")).to_be_visible()
        await page.get_by_role("button", name="Ask for a wake").click()
        await page.get_by_role("button", name="Test only").click()
        await expect(page.get_by_text("nothing was changed")).to_be_visible()
        await expect(page.get_by_role("table", name="Guardrails")).to_contain_text("max wakes per day")
    agent = await site.call("GET", "/sessions/default/agents/busy")
    assert agent["policy"]["max_calls_per_day"] == 7
    settings = (await site.call("GET", "/agents/busy/coordination"))["settings"]
    assert settings["wake_guardrails.max_wakes_per_day"]["value"] == 3


@pytest.mark.spec("UI-04")
async def test_a_token_is_rotated_after_a_question_and_shown_once(site: Site) -> None:
    old = await site.add_agent("rotated")
    async with site.open("/agents/rotated") as page:
        await page.get_by_role("button", name="New token").click()
        await page.get_by_role("dialog").get_by_role("button", name="New token").click()
        token = await page.get_by_label("Token", exact=True).inner_text()
    for key, status in ((old, 401), (token, 200)):
        async with site.ask_model(key) as call:
            assert await call == status


async def test_an_agents_page_says_what_woke_it_last_and_what_will_wake_it_next(site: Site) -> None:
    await site.add_agent("rhythmic")
    daily = {"name": "daily", "cron": "0 3 * * *", "instructions": "look"}
    await site.call("PUT", "/agents/rhythmic/schedule", {"routines": [daily]})
    async with site.open("/agents/rhythmic") as page:
        await expect(page.get_by_role("group", name="Next wake")).to_contain_text("routine daily")
        await expect(page.get_by_role("group", name="Last wake")).to_contain_text("none")
        for sleeping in (True, False):
            await site.call("PUT", "/sessions/default/agents/rhythmic/sleeping", {"sleeping": sleeping})
        await expect(page.get_by_role("group", name="Last wake")).to_contain_text("woken by hand from operator")
