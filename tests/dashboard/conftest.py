"""A real browser in front of a real server with the built dashboard."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import Browser, ConsoleMessage, Page, Request, ViewportSize, async_playwright, expect

from circadia.clock import SystemClock
from circadia.ids import AgentId, MessageId, PassId
from circadia.records.change import Change, ChangeKind, ChangeState
from circadia.records.sleep_pass import Pass, PassStatus, Trigger
from circadia.stores.sqlite import open_sqlite
from circadia.testing.upstream import MockUpstream
from tests.fixtures.server_process import ADMIN_TOKEN, CircadiaProcess
from tests.house.tree import ROOT

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
BUILT = ROOT / "src" / "circadia" / "dashboard"
AXE = ROOT / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
WIDE: ViewportSize = {"width": 1600, "height": 1000}
NARROW: ViewportSize = {"width": 400, "height": 800}
EXPECTED_STATUS = re.compile(r"status of (401|403)\b")
"""The browser reports these in its console, although the page handles them."""
HOSTILE = "x" * 63
MARKUP = "<img src=x onerror=alert(1)> \u202eevil\u202c"

expect.set_options(timeout=15_000)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncGenerator[Browser]:
    assert Path(CHROMIUM).exists(), "Chromium is missing; `make browser` installs it"
    assert (BUILT / "index.html").exists(), "the dashboard is not built; `make dashboard` builds it"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        await browser.close()


@dataclass(kw_only=True)
class Dashboard:
    """The dashboard of a server at this address, and what a page may not do."""

    url: str
    browser: Browser

    async def call(self, method: str, path: str, body: object = None, token: str = ADMIN_TOKEN) -> Any:
        """Call the REST API, and return the JSON of its answer."""
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            aiohttp.ClientSession(headers=headers) as http,
            http.request(method, f"{self.url}/api/v1{path}", json=body) as answer,
        ):
            assert answer.status < 300, await answer.text()
            return None if answer.status == 204 else await answer.json()

    async def add_agent(self, name: str, *, session: str = "default", **fields: object) -> str:
        """Create an agent, and return its token."""
        agent = await self.call("POST", f"/sessions/{session}/agents", {"name": name, **fields})
        token: str = agent["token"]
        return token

    async def set_sleeping(self, name: str, sleeping: bool, *, session: str = "default") -> None:
        await self.call("PUT", f"/sessions/{session}/agents/{name}/sleeping", {"sleeping": sleeping})

    @asynccontextmanager
    async def ask_model(self, token: str) -> AsyncGenerator[asyncio.Task[int]]:
        """Send a model call in the background; the task is its status."""
        body = {"model": "mock-1", "messages": [{"role": "user", "content": "hello"}]}

        async def send() -> int:
            async with (
                aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as http,
                http.post(f"{self.url}/llm/openai/v1/chat/completions", json=body) as answer,
            ):
                await answer.read()
                return answer.status

        call = asyncio.create_task(send())
        try:
            yield call
        finally:
            call.cancel()

    @asynccontextmanager
    async def open(
        self,
        path: str = "/",
        *,
        token: str | None = ADMIN_TOKEN,
        scheme: str = "light",
        ignore_errors: re.Pattern[str] | None = None,
        clock: datetime | None = None,
        is_frozen: bool = False,
        **options: Any,
    ) -> AsyncGenerator[Page]:
        """Open a page of the dashboard in a fresh profile, signed in with the token.

        The page's clock begins at `clock`, from where a test can move it, or stands there if it `is_frozen`; by default
        it is the machine's.

        At the end the page must have had no error in its console but those ignored, and no request to another server.
        """
        options = {"viewport": WIDE, "color_scheme": scheme, "reduced_motion": "reduce", **options}
        context = await self.browser.new_context(base_url=self.url, **options)
        errors: list[str] = []
        try:
            page = await context.new_page()
            page.on("console", lambda message: _note_message(errors, message))
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on("request", lambda request: self._note_foreign(errors, request))
            if clock is not None:
                await (page.clock.set_fixed_time(clock) if is_frozen else page.clock.install(time=clock))
            if token is not None:
                answer = await context.request.post("/ui/session", data={"token": token})
                assert answer.ok, await answer.text()
            await page.goto(f"/ui{path}")
            yield page
        finally:
            await context.close()
        errors = [error for error in errors if ignore_errors is None or not ignore_errors.search(error)]
        assert not errors, errors

    def _note_foreign(self, errors: list[str], request: Request) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            errors.append(f"a request to {request.url}")


@dataclass(kw_only=True)
class Site(Dashboard):
    """A server of the test's own, and its provider."""

    server: CircadiaProcess
    upstream: MockUpstream

    async def set_aside(self, agent: str, *messages: str) -> None:
        """Make dead letters of messages, as the last interruption of a pulse does."""
        row = await self.call("GET", f"/sessions/default/agents/{agent}")
        store = await open_sqlite(self.server.data / "circadia.db")
        async with store.begin_write() as tx:
            letters = [MessageId(message) for message in messages]
            await tx.deliveries.mark_dead(AgentId(row["id"]), letters, SystemClock().now())
        await store.close()

    async def add_pass(
        self, bank: str, *changes: tuple[ChangeKind, ChangeState, str, dict[str, Any] | None, dict[str, Any]]
    ) -> PassId:
        """Add a pass that has ended with these changes: kind, state, target, before and after."""
        store, now = await open_sqlite(self.server.data / "circadia.db"), SystemClock().now()
        async with store.begin_write() as tx:
            row = await tx.banks.get_by_name(bank)
            assert row is not None
            run = Pass(
                id=PassId(f"pas_{bank}"), bank_id=row.id, trigger=Trigger.IDLE, by="circadia", created_at=now,
                status=PassStatus.SUCCEEDED, started_at=now, ended_at=now,
            )  # fmt: skip
            await tx.passes.add(run)
            await tx.passes.save_changes([
                Change(
                    pass_id=run.id, number=number, operation="rethink", kind=kind, state=state, target=target,
                    before=before, after=after, why="what new notes say", at=now,
                )
                for number, (kind, state, target, before, after) in enumerate(changes, 1)
            ])  # fmt: skip
        await store.close()
        return run.id


def _note_message(errors: list[str], message: ConsoleMessage) -> None:
    if message.type in {"error", "warning"} and not EXPECTED_STATUS.search(message.text):
        errors.append(f"{message.type}: {message.text}")


async def check_accessibility(page: Page) -> None:
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE.read_text("utf-8"))
    found: list[dict[str, Any]] = await page.evaluate(
        "async () => (await axe.run(document, {resultTypes: ['violations']})).violations"
    )
    serious = [
        (rule["id"], node["html"][:200], node["failureSummary"])
        for rule in found
        if rule["impact"] in {"serious", "critical"}
        for node in rule["nodes"][:3]
    ]
    assert not serious, (page.url, serious)


async def press_tab_until(page: Page, name: str, *, back: bool = False) -> None:
    """Press Tab until the element of this name has the focus."""
    passed: list[str] = []
    while len(passed) < 60:
        focused = await page.evaluate(
            "(element => element.ariaLabel || (element.labels?.[0] ?? element).textContent.replace(' *', '').trim())"
            "(document.activeElement)"
        )
        if focused == name:
            return
        passed.append(focused[:30])
        await page.keyboard.press("Shift+Tab" if back else "Tab")
    raise AssertionError(f"60 times Tab do not lead to {name!r}: {passed}")


@asynccontextmanager
async def serve_site(folder: Path, browser: Browser, **config: Any) -> AsyncGenerator[Site]:
    async with MockUpstream(reply="the right answer") as upstream:
        whole = {
            "upstreams": {"openai": {"base_url": upstream.base_url, "retries": 0}},
            "defaults": {"hold_silent_seconds": 0.3, "hold_grace_seconds": 0.1, "keep_alive_seconds": 1},
            **config,
        }
        async with CircadiaProcess(folder, whole) as server:
            yield Site(url=server.url, server=server, upstream=upstream, browser=browser)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> AsyncGenerator[Site]:
    """A server of its own for each module."""
    async with serve_site(tmp_path_factory.mktemp("site"), browser) as site:
        yield site
