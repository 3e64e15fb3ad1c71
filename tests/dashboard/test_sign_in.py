"""Signing in to the dashboard and out of it, and what a viewer cannot do."""

import pytest
from playwright.async_api import expect

from tests.dashboard.conftest import Site
from tests.fixtures.server_process import ADMIN_TOKEN

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("UI-02")]


async def test_a_person_signs_in_with_a_token_and_out_again(site: Site) -> None:
    async with site.open("/agents", token=None) as page:
        await page.get_by_label("Token").fill("wrong")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("alert")).to_contain_text("Not signed in")
        await page.get_by_label("Token").fill(ADMIN_TOKEN)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("heading", name="Agents")).to_be_visible()
        assert page.url == f"{site.server.url}/ui/agents"
        assert ADMIN_TOKEN not in await page.content()
        assert ADMIN_TOKEN not in await page.evaluate(
            "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
        )
        await page.get_by_role("button", name="operator").click()
        await page.get_by_role("menuitem", name="Sign out").click()
        await expect(page.get_by_label("Token")).to_be_visible()
        await expect(page.get_by_role("alert")).to_have_count(0)
        await page.reload()
        await expect(page.get_by_label("Token")).to_be_visible()


async def test_a_revoked_token_leads_to_the_sign_in_and_back_to_the_same_page(site: Site) -> None:
    token = (await site.call("POST", "/tokens", {"name": "ann", "role": "operator"}))["token"]
    async with site.open("/agents?state=asleep", token=token) as page:
        await expect(page.get_by_role("button", name="ann")).to_be_visible()
        await site.call("DELETE", "/tokens/ann")
        await expect(page.get_by_label("Token")).to_be_visible(timeout=2_000)
        await expect(page.get_by_role("alert")).to_contain_text("Your token was revoked, or your sign-in has expired.")
        await page.get_by_label("Token").fill(ADMIN_TOKEN)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("heading", name="Agents")).to_be_visible()
        assert page.url == f"{site.server.url}/ui/agents?state=asleep"


async def test_a_viewer_sees_all_and_learns_why_it_can_do_nothing(site: Site) -> None:
    await site.add_agent("watched")
    token = (await site.call("POST", "/tokens", {"name": "vic", "role": "viewer"}))["token"]
    async with site.open("/agents/watched", token=token) as page:
        sleep = page.get_by_role("button", name="Sleep", exact=True)
        await expect(sleep).to_have_attribute("aria-disabled", "true")
        await expect(sleep).to_have_attribute(
            "aria-description", "You are signed in as a viewer. Only an operator can do this."
        )
        await sleep.click(force=True)
        await page.get_by_role("tab", name="Settings").click()
        await expect(page.get_by_role("button", name="Save").first).to_be_disabled()
    assert not (await site.call("GET", "/sessions/default/agents/watched"))["sleeping"]
