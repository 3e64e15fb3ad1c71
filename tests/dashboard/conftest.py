"""A real browser in front of a real server with the built dashboard."""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    ViewportSize,
    async_playwright,
    expect,
)

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
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--process-per-site",
)  # fmt: skip
BUILT = ROOT / "src" / "circadia" / "dashboard"
AXE = ROOT / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
WIDE: ViewportSize = {"width": 1600, "height": 1000}
NARROW: ViewportSize = {"width": 400, "height": 800}
SETTLE_SECONDS = 15
_SETTLED = """() => new Promise((done) => {
  const look = () => document.querySelector("h1")?.checkVisibility() && !document.querySelector("[aria-busy=true]");
  if (look()) done();
  else new MutationObserver((_, watch) => look() && (watch.disconnect(), done()))
    .observe(document, { attributeFilter: ["aria-busy"], childList: true, subtree: true });
})"""
_FIND_SERIOUS = """async () => {
  const others = axe._audit.rules.filter(({ impact }) => impact !== "serious" && impact !== "critical");
  const rules = Object.fromEntries(others.map(({ id }) => [id, { enabled: false }]));
  return (await axe.run(document, { resultTypes: ["violations"], rules })).violations;
}"""
_FIND_CUT_CELLS = """() => [...document.querySelectorAll(".table-row > *")]
  .filter((each) => {
    const name = each.querySelector(".name");
    const isCut = [each, ...each.querySelectorAll("button *")].some((one) =>
      one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1);
    return isCut || (name && name.clientWidth < Math.min(name.scrollWidth, 40));
  })
  .map((each) => each.outerHTML.slice(0, 300))"""
ColourScheme = Literal["light", "dark"]
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
class Profile:
    """A profile of the browser."""

    context: BrowserContext
    clock: datetime | None
    """Where its clock stands; by default it goes as the machine's."""
    page: Page
    """Keeps the process with all that it has compiled."""

    async def clear(self, url: str) -> None:
        """Close the other pages, and delete what they have left."""
        for page in self.context.pages:
            if page is not self.page:
                await page.close()
        await self.context.clear_cookies()
        tools: Any = await self.context.new_cdp_session(self.page)
        await tools.send("Storage.clearDataForOrigin", {"origin": url, "storageTypes": "local_storage"})
        await tools.detach()


@dataclass(kw_only=True)
class Dashboard:
    """The dashboard of a server at this address, and what a page may not do."""

    url: str
    browser: Browser
    _profiles: list[Profile] = field(default_factory=list[Profile])
    """Those that no page uses now."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for profile in self._profiles:
            await profile.context.close()

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
        scheme: ColourScheme = "light",
        ignore_errors: re.Pattern[str] | None = None,
        clock: datetime | None = None,
        is_frozen: bool = False,
        **options: Any,
    ) -> AsyncGenerator[Page]:
        """Open a page of the dashboard in a profile that nobody else uses, signed in with the token, and let it load.

        The page's clock begins at `clock`, from where a test can move it, or stands there if it `is_frozen`; by default
        it is the machine's.

        At the end the page must have had no error in its console but those ignored, and no request to another server.
        """
        errors: list[str] = []
        async with self._take_profile(clock, is_frozen, options) as context:
            page = await context.new_page()
            page.on("console", lambda message: _note_message(errors, message))
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on("request", lambda request: self._note_foreign(errors, request))
            if "viewport" in options:
                await page.set_viewport_size(options["viewport"])
            await page.emulate_media(color_scheme=scheme)
            if token is not None:
                answer = await context.request.post("/ui/session", data={"token": token})
                assert answer.ok, await answer.text()
            await page.goto(f"/ui{path}")
            await settle(page)
            yield page
        errors = [error for error in errors if ignore_errors is None or not ignore_errors.search(error)]
        assert not errors, errors

    @asynccontextmanager
    async def _take_profile(
        self, clock: datetime | None, is_frozen: bool, options: Mapping[str, Any]
    ) -> AsyncGenerator[BrowserContext]:
        """Yield a profile that nobody else uses: a fresh one, or one that was cleared.

        In the latter, a page need not load and compile all scripts again.
        """
        is_plain = options.keys() <= {"viewport"} and (clock is None or is_frozen)
        kept = next((each for each in self._profiles if is_plain and each.clock == clock), None)
        if kept is not None:
            self._profiles.remove(kept)
            context = kept.context
        else:
            wishes: dict[str, Any] = {"viewport": WIDE, **({} if is_plain else options)}
            context = await self.browser.new_context(base_url=self.url, reduced_motion="reduce", **wishes)
        try:
            if kept is None and clock is not None:
                await (context.clock.set_fixed_time(clock) if is_frozen else context.clock.install(time=clock))
            if kept is None and is_plain:
                kept = Profile(context=context, clock=clock, page=await context.new_page())
                await kept.page.goto("/ui/inter-OFL.txt")
            yield context
            if kept is not None:
                await kept.clear(self.url)
                self._profiles.append(kept)
        finally:
            if kept not in self._profiles:
                await context.close()

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


async def settle(page: Page) -> None:
    """Wait until the page has its heading and nothing is loading."""
    try:
        async with asyncio.timeout(SETTLE_SECONDS):
            await page.evaluate(_SETTLED)
    except TimeoutError:
        raise AssertionError(f"{page.url} has no heading, or loads for ever: {await page.inner_text('body')}") from None


async def check_accessibility(page: Page) -> None:
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE.read_text("utf-8"))
    found: list[dict[str, Any]] = await page.evaluate(_FIND_SERIOUS)
    serious = [(rule["id"], node["html"][:200], node["failureSummary"]) for rule in found for node in rule["nodes"][:3]]
    assert not serious, (page.url, serious)


async def check_cells(page: Page) -> None:
    """Check that no cell of a table is cut, but a long name behind its first letters."""
    cut: list[str] = await page.evaluate(_FIND_CUT_CELLS)
    assert not cut, (page.url, cut)


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
        async with (
            CircadiaProcess(folder, whole) as server,
            Site(url=server.url, server=server, upstream=upstream, browser=browser) as site,
        ):
            yield site


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> AsyncGenerator[Site]:
    """A server of its own for each module."""
    async with serve_site(tmp_path_factory.mktemp("site"), browser) as site:
        yield site
