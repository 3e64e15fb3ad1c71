"""The ten questions of an operator: each is answered on a page, as the database has it."""

import re
import sqlite3
import struct
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.dashboard.conftest import Dashboard
from tests.dashboard.pictures import FOLDER, PICTURES, shoot_story, summarize_day
from tests.dashboard.story_day import DAY, NOW, StoryTeam, play_story_day
from tests.house.tree import DOCS, ROOT
from tests.interaction.live import ADMIN

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.spec("UI-16", "UI-17", "UI-18", "UI-19")]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TODAY = (DAY - EPOCH) // timedelta(microseconds=1)
A_DAY = 86_400 * 10**6


@dataclass(frozen=True)
class Story:
    team: StoryTeam
    site: Dashboard

    def open(self, path: str) -> AbstractAsyncContextManager[Page]:
        return self.site.open(path, token=ADMIN, clock=self.team.clock.now(), is_frozen=True)

    def ask_database(self, statement: str, *values: object) -> list[Any]:
        """Return what the database says, past the server."""
        with closing(sqlite3.connect(self.team.folder / "circadia.db", timeout=60)) as database:
            return database.execute(statement, values).fetchall()

    async def ask_server(self, path: str) -> Any:
        return (await self.team.at.rest("GET", path))[1]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def story(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> AsyncGenerator[Story]:
    async with play_story_day(tmp_path_factory.mktemp("story")) as team:
        async with Dashboard(url=team.at.url, browser=browser) as site:
            yield Story(team, site)


def at(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def in_words(time: timedelta) -> str:
    """Return a time of hours and minutes as pages do."""
    hours, minutes = divmod(int(time.total_seconds()) // 60, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def usd(amount: float) -> str:
    return f"${amount:.2f}"


async def test_1_why_does_this_agent_sleep(story: Story) -> None:
    [(asleep, actor, since)] = story.ask_database("SELECT asleep, actor, since FROM agents WHERE name = 'support'")
    assert (asleep, actor) == (1, "support"), "it put itself to sleep"
    async with story.open("/agents/support") as page:
        head = page.get_by_role("status", name="State and next wake")
        await expect(head).to_contain_text(f"asleep for {in_words(NOW - at(since))}")
        await expect(head).to_contain_text("by support;")


async def test_2_what_woke_it_last(story: Story) -> None:
    [(sender, reason, when)] = story.ask_database(
        "SELECT sender, reason, wakes.at FROM wakes JOIN agents ON agents.id = agent_id"
        " WHERE name = 'support' AND decision = 'admitted' ORDER BY wakes.at DESC LIMIT 1"
    )
    assert (sender, reason, at(when)) == ("alarm", "ask the customer again", DAY + timedelta(hours=16))
    async with story.open("/agents/support") as page:
        last = page.get_by_role("group", name="Last wake")
        await expect(last).to_contain_text("4 h ago")
        await expect(last).to_contain_text("ask the customer again from alarm")


async def test_3_what_wakes_it_next(story: Story) -> None:
    agent = await story.ask_server("/sessions/default/agents/lead")
    [(due,)] = story.ask_database(
        "SELECT min(routines.next_at) FROM routines JOIN agents ON agents.id = agent_id WHERE agents.name = 'lead'"
    )
    assert datetime.fromisoformat(agent["next"]["at"]) == at(due) == DAY + timedelta(days=1, hours=6, minutes=30)
    async with story.open("/agents/lead") as page:
        head = page.get_by_role("status", name="State and next wake")
        await expect(head).to_contain_text(f"wakes next in 9 h 50 min by {agent['next']['by']}")


async def test_4_is_anything_stuck(story: Story) -> None:
    [(dead,)] = story.ask_database("SELECT sum(number) FROM delivery_counts WHERE state = 'dead'")
    [(waiting, since)] = story.ask_database(
        "SELECT count(*), min(requested_at) FROM approvals WHERE status = 'pending'"
    )
    attention = (await story.ask_server("/overview"))["attention"]
    assert {need["kind"]: need["figure"] for need in attention} == {
        "approvals": waiting, "dead_letters": dead, "proposals": 1,
    }  # fmt: skip
    async with story.open("/") as page:
        needs = page.get_by_role("status", name="Needs you").get_by_role("listitem")
        await expect(needs).to_have_count(3)
        await expect(needs.filter(has_text="approval")).to_contain_text(
            f"{waiting} call · for {round((NOW - at(since)).total_seconds() / 60)} min"
        )
        await expect(needs.filter(has_text="Messages")).to_contain_text(f"{dead} dead letter")


async def test_5_what_waits_for_me(story: Story) -> None:
    counts = {
        "Approvals": "SELECT count(*) FROM approvals WHERE status = 'pending'",
        "Proposals": "SELECT count(*) FROM pass_changes WHERE state = 'staged'",
        "Dead letters": "SELECT sum(number) FROM delivery_counts WHERE state = 'dead'",
        "Alerts": "SELECT count(*) FROM alert_history WHERE acknowledged_at IS NULL",
    }
    async with story.open("/for-you") as page:
        total = 0
        for name, statement in counts.items():
            [(count,)] = story.ask_database(statement)
            await expect(page.get_by_role("tab", name=name)).to_contain_text(str(count))
            total += count
        await expect(page.get_by_role("link", name="For you")).to_contain_text(str(total))
        await expect(page.get_by_role("tabpanel")).to_contain_text("Plan the move of 2 million orders")


async def test_6_did_sleeping_save_money_today_and_what_is_usual(story: Story) -> None:
    groups = story.ask_database(
        "SELECT at / ?, model, sum(held_seconds), avg(cost_nanousd) FROM calls WHERE tier = 'hot' GROUP BY 1, 2", A_DAY
    )
    [(approved,)] = story.ask_database("SELECT sum(decided_at - requested_at) FROM approvals WHERE status = 'used'")
    saved: dict[int, float] = {}
    for day, model, held, price in groups:
        asleep = held - (approved / 10**6 if model == "gpt-5-pro" else 0)
        saved[day] = saved.get(day, 0.0) + asleep / 300 * price / 10**9
    [(dreaming,)] = story.ask_database("SELECT sum(cost_nanousd) / 1e9 FROM calls WHERE tier = 'sleep'")
    today = saved.pop(TODAY // A_DAY)
    assert len(saved) == 13
    async with story.open("/") as page:
        figure = page.get_by_role("group", name="Saved today, estimate")
        await expect(figure).to_contain_text(usd(today - dreaming))
        await expect(figure).to_contain_text(f"sleeping {usd(today)}, memory $0")
        await expect(figure).to_contain_text(f"13-day mean {usd(sum(saved.values()) / 13)}")
        rule = page.get_by_role("group", name="Waiting while asleep")
        await expect(rule).to_contain_text(f"an agent that asks every 5 minutes would have paid {usd(today)}")


async def test_7_who_let_what_into_memory(story: Story) -> None:
    [(run,)] = story.ask_database("SELECT id FROM passes")
    published = story.ask_database(
        "SELECT number, kind, json_extract(after, '$.text') FROM pass_changes WHERE state = 'published'"
    )
    events = (await story.ask_server("/events?after=0&limit=1000&type=reviewed"))["events"]
    assert [event["data"]["by"] for event in events] == ["operator/ann"]
    assert sorted(events[0]["data"]["numbers"]) == sorted(number for number, _, _ in published)
    async with story.open(f"/passes/{run}") as page:
        changes = page.get_by_role("list", name="Changes").get_by_role("listitem")
        accepted = changes.filter(has_text="accepted by operator/ann")
        await expect(accepted).to_have_count(len(published))
        for number, _, text in published:
            change = accepted.filter(has_text=re.compile(rf"^{number}\. "))
            await expect(change).to_contain_text("published")
            if text:
                await expect(change).to_contain_text(text.split(". ")[0])


async def test_8_which_call_cost_most_and_why(story: Story) -> None:
    [(call, model, tokens, nanousd)] = story.ask_database(
        "SELECT id, model, input_tokens, cost_nanousd FROM calls WHERE at >= ? ORDER BY cost_nanousd DESC LIMIT 1",
        TODAY,
    )
    async with story.open(f"/calls?order=cost&since={DAY:%Y-%m-%d}") as page:
        first = page.get_by_role("table", name="Calls").get_by_role("row").nth(1)
        await expect(first).to_contain_text(usd(nanousd / 10**9))
        await first.get_by_role("button", name=f"Show the call {call}").click()
        details = page.get_by_role("dialog")
        await expect(details).to_contain_text(model)
        await expect(details).to_contain_text(f"{tokens:,} in")
    assert model == "gpt-5-pro"
    dearest = (await story.ask_server("/calls?order=cost&limit=3"))["calls"]
    assert [each["cost_usd"] for each in dearest] == sorted((each["cost_usd"] for each in dearest), reverse=True)
    assert dearest[0]["id"] == call


async def test_9_who_wakes_whom_in_circles(story: Story) -> None:
    pairs = {
        (sender, agent): count
        for sender, agent, count in story.ask_database(
            "SELECT sender, agents.name, count(*) FROM wakes JOIN agents ON agents.id = agent_id"
            " WHERE decision IN ('admitted', 'coalesced') AND wakes.at >= ? GROUP BY 1, 2",
            TODAY,
        )
    }
    there, back = pairs["coder", "reviewer"], pairs["reviewer", "coder"]
    async with story.open("/agents/coder") as page:
        circle = page.get_by_role("alert").filter(has_text="Wakes in a circle today")
        await expect(circle).to_contain_text(
            f"coder ⇄ reviewer: {there + back} wakes; from reviewer to coder: {back} of at most 2"
        )
    async with story.open("/") as page:
        watch = page.get_by_role("region", name="Watch").get_by_role("listitem").filter(has_text="reviewer")
        await expect(watch).to_contain_text(f"coder⇄reviewer{there} and {back + 1} requests today")  # one was refused


async def test_10_what_did_this_agent_do_yesterday(story: Story) -> None:
    begin = TODAY - A_DAY
    spans = story.ask_database(
        "SELECT kind, started_at, ended_at FROM spans WHERE agent = 'coder' AND started_at < ? AND ended_at > ?",
        TODAY,
        begin,
    )
    asleep = sum(min(end, TODAY) - max(start, begin) for kind, start, end in spans if kind == "asleep")
    held = sum(kind == "held" for kind, _, _ in spans)
    words = f"Yesterday in UTC: asleep for {in_words(timedelta(microseconds=asleep))}, {held} held calls, 0 pulses"
    async with story.open("/agents/coder") as page:
        await page.get_by_text("yesterday", exact=True).click()
        await expect(page.get_by_role("region", name="Timeline")).to_contain_text(words)
        await expect(page).to_have_url(re.compile("time=yesterday"))
        await page.reload()
        await expect(page.get_by_role("region", name="Timeline")).to_contain_text(words)


@pytest.mark.spec("SHIP-11")
async def test_the_readme_tells_what_the_story_day_saves_in_a_month(story: Story) -> None:
    summary = await summarize_day(story.team)
    readme = (ROOT / "README.md").read_text("utf-8")
    first = "\n".join(readme.splitlines()[:60])
    figures = re.findall(r"\$?\d[\d.,]*%?", summary)
    text = re.sub(r"\s+", " ", first)
    for figure in figures:
        assert figure.rstrip(",.").replace("%", " %") in text, (figure, summary)
    for scheme in ("light", "dark"):
        assert f'="docs/pictures/sleep-timeline-{scheme}.png"' in first
        assert (FOLDER / f"sleep-timeline-{scheme}.png").is_file()


@pytest.mark.spec("UI-14")
async def test_the_pictures_of_the_docs_are_taken_of_the_day_and_shown(
    story: Story, browser: Browser, tmp_path: Path
) -> None:
    await shoot_story(browser, story.team, tmp_path)
    page = (DOCS / "operations" / "dashboard.md").read_text("utf-8")
    for name, _, _, width, height in PICTURES:
        file = f"dashboard-{name}.png"
        assert struct.unpack(">II", (tmp_path / file).read_bytes()[16:24]) == (width, height)
        assert (FOLDER / file).exists()
        assert f"pictures/{file}" in page
