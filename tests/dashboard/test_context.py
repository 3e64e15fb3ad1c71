"""What an agent would see now, and the pages of people, sessions, providers and the configuration (UI-22)."""

import re

import pytest
from playwright.async_api import expect

from tests.dashboard.conftest import Site, check_accessibility

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("UI-22")]


async def test_the_context_of_an_agent_is_shown_for_a_question_with_the_parts_of_each_score(site: Site) -> None:
    await site.add_agent("reader", policy={"bank": "harbour"})
    await site.call("PUT", "/banks/harbour/blocks/rules", {"value": "Answer briefly.", "pinned": True})
    await site.call("POST", "/banks/harbour/episodes", {"text": "The harbour opens at nine.", "speaker": "ann"})
    async with site.open("/agents/reader?tab=context") as page:
        await expect(page.get_by_role("region", name="Blocks")).to_contain_text("Answer briefly.")
        await page.get_by_role("textbox", name="Question").fill("When does the harbour open?")
        await page.get_by_role("button", name="Show the context").click()
        await expect(page).to_have_url(re.compile("q=When"))
        await expect(page.get_by_role("region", name="Behind the question")).to_contain_text("opens at nine")
        hit = page.get_by_role("listitem").filter(has_text="opens at nine")
        await expect(hit.get_by_role("group", name="Score")).to_contain_text("Score")
        await page.get_by_role("button", name="Look for a ready answer").click()
        await expect(page.get_by_role("region", name="Ready answer")).to_contain_text("A miss")
        await check_accessibility(page)
        await hit.get_by_role("link", name="Show the episode").click()
        await expect(page.get_by_role("dialog", name="The episode")).to_contain_text("opens at nine")


async def test_an_agent_without_a_bank_is_told_how_to_get_one(site: Site) -> None:
    await site.add_agent("bankless")
    async with site.open("/agents/bankless?tab=context") as page:
        await expect(page.get_by_text("memory adds nothing to its calls")).to_be_visible()


async def test_people_sessions_providers_and_the_configuration_have_pages(site: Site) -> None:
    await site.call("POST", "/sessions", {"name": "crew", "agents": [{"name": "mate"}]})
    async with site.open("/access") as page:
        await page.get_by_role("textbox", name="Name").fill("vera")
        await page.get_by_role("button", name="Make a token").click()
        await expect(page.get_by_label("Token", exact=True)).to_contain_text("circadia-")
        row = page.get_by_role("row").filter(has_text="vera")
        await expect(row).to_contain_text("viewer")
        await check_accessibility(page)
        await row.get_by_role("button", name="Revoke").click()
        await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        await expect(row).to_have_count(0)
        await page.goto("/ui/sessions")
        await page.get_by_role("link", name="crew").click()
        drawer = page.get_by_role("dialog", name="The session")
        await expect(drawer.get_by_role("link", name="crew:mate")).to_be_visible()
        await drawer.get_by_role("button", name="Close session crew").click()
        question = page.get_by_role("dialog", name="Close session crew?")
        await question.get_by_role("button", name="Close", exact=True).last.click()
        await expect(page.get_by_role("link", name="crew", exact=True)).to_have_count(0)
        await page.goto("/ui/providers")
        await expect(page.get_by_role("row").filter(has_text="openai")).to_contain_text("/llm/openai/v1")
        await page.goto("/ui/configuration?from=file")
        await expect(page.get_by_role("row").filter(has_text="upstreams.openai.base_url")).to_be_visible()
        await page.get_by_role("textbox", name="Filter by key").fill("retries")
        await expect(page.get_by_role("row").filter(has_text="base_url")).to_have_count(0)
        await expect(page.get_by_role("row").filter(has_text="upstreams.openai.retries")).to_contain_text("0")
