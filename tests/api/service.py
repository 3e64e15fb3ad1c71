"""The REST API over real HTTP on a free port, with a SQLite file behind it and a clock that stands still."""

import contextlib
import io
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from circadia.agents.approvals import ApprovalService
from circadia.agents.identity import AccessTokenService, Identity
from circadia.agents.presence import Presence
from circadia.agents.sign_in import SignIn
from circadia.agents.sleep_confirmation import SleepConfirmer
from circadia.agents.waits import Waits
from circadia.answers.lookup import AnswerLookup
from circadia.api.app import create_api
from circadia.api.services import ApiContext
from circadia.errors import NotFound, TargetGone
from circadia.gateway.hold.reply import Ticker
from circadia.gateway.model_call.hold import HoldView
from circadia.gateway.model_call.resume import ResumableAnswers
from circadia.ids import AgentId, HoldId, hash_token, new_token
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.server.dream_wiring import ConfiguredFolders
from circadia.server.memory_wiring import build_memory_services
from circadia.server.sleeptime_wiring import build_sleeptime
from circadia.server.wake_wiring import build_agent_services, build_wake_services
from circadia.settings import settings_from
from circadia.sleeptime.triggers.dream_requests import DreamRequests
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite
from circadia.testing.clock import ManualClock
from tests.fixtures.database_file import put_database
from tests.fixtures.documented import check_answer
from tests.fixtures.listening import listening

ADMIN = "operator-token-of-the-tests"
METRICS = "metrics-token-of-the-tests"
Json = Any


@dataclass
class FakeHolds:
    """What is held, as a test says it."""

    views: list[HoldView] = field(default_factory=list[HoldView])

    def list_holds(
        self, *, session: str | None = None, agent: str | None = None, limit: int = 1000
    ) -> tuple[Sequence[HoldView], int]:
        """Return what the test put in."""
        found = [view for view in self.views if session in (None, view.session) and agent in (None, view.agent)]
        return found[:limit], len(found)

    def drop(self, hold: HoldId, *, by: str) -> HoldView:
        """Remove a call from what is held."""
        for view in self.views:
            if view.id == hold:
                self.views.remove(view)
                return view
        raise NotFound(f"no call {hold!r}")

    def find_hold(self, hold: HoldId) -> HoldView | None:
        """Return the call that is held under this id."""
        return next((view for view in self.views if view.id == hold), None)

    def count_held(self, agent_id: AgentId) -> int:
        """Return how many of them are the agent's."""
        return sum(view.agent_id == agent_id for view in self.views)


class NumberedIds:
    """Ids that ascend while the clock stands still, and differ from those before a restart."""

    def __init__(self) -> None:
        self._run = new_token("run")[-8:].lower()
        self._number = 0

    def new(self, prefix: str) -> str:
        """Return the next id."""
        self._number += 1
        return f"{prefix}_{self._number:06}{self._run}"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: Json

    @property
    def code(self) -> str:
        """Return the problem's code."""
        assert self.headers["Content-Type"] == "application/problem+json"
        assert self.body["status"] == self.status
        return self.body["code"]


class Service:
    """A running API."""

    def __init__(
        self, url: str, parts: ApiContext, clock: ManualClock, held: FakeHolds, http: aiohttp.ClientSession
    ) -> None:
        self.url = url
        self.parts = parts
        self.clock = clock
        self.held = held
        self.http = http

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = ADMIN,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request below /api/v1, or to the whole path if it begins with two slashes."""
        url = self.url + (path[1:] if path.startswith("//") else f"/api/v1{path}")
        sent = {**({} if token is None else {"Authorization": f"Bearer {token}"}), **(headers or {})}
        given = io.BytesIO(data) if data else None
        async with self.http.request(method, url, json=body, data=given, headers=sent) as answer:
            text = await answer.text()
            lines = answer.content_type == "application/x-ndjson"
            body = text.splitlines() if lines else json.loads(text) if text else None
            path, status = answer.url.path, answer.status
            check_answer(method, path, status, answer.headers, body, content_type=answer.content_type)
            return Answer(status=answer.status, headers=answer.headers.copy(), body=body)

    async def ok(self, method: str, path: str, body: object = None, *, token: str = ADMIN) -> Json:
        """Return the body of an answer that is a success."""
        answer = await self.call(method, path, body, token=token)
        assert 200 <= answer.status < 300, answer
        return answer.body

    async def agent(self, name: str, *, session: str = "default", **given: object) -> str:
        """Make an agent and return its token."""
        return (await self.ok("POST", f"/sessions/{session}/agents", {"name": name, **given}))["token"]

    async def asleep(self, name: str, *, session: str = "default") -> bool:
        """Return whether it sleeps."""
        return (await self.ok("GET", f"/sessions/{session}/agents/{name}/sleeping"))["sleeping"]

    async def events(self, *types: str) -> list[Json]:
        """Return the events of these types."""
        found = (await self.ok("GET", "/events"))["events"]
        return [event for event in found if not types or event["type"] in types]


@contextlib.asynccontextmanager
async def serving(
    folder: Path, *, clock: ManualClock | None = None, launchers: Mapping[str, Json] | None = None, **limits: int
) -> AsyncGenerator[Service]:
    """Serve what is in the folder's database; a second time in the same folder is a restart."""
    clock = clock or ManualClock()
    store = await open_sqlite(put_database(folder))
    held = FakeHolds()
    parts = await _parts(store, clock, held, {"limits": limits, "launchers": launchers or {}})
    try:
        async with listening(create_api(parts)) as url:
            try:
                async with aiohttp.ClientSession() as http:
                    yield Service(url, parts, clock, held, http)
            finally:
                parts.presence.stop(TargetGone("the test is over"))
                clock.advance(60)
    finally:
        await store.close()


async def _parts(store: Store, clock: ManualClock, held: FakeHolds, stated: Mapping[str, Json]) -> ApiContext:
    signals = LocalSignals()
    ids = NumberedIds()
    settings = settings_from(stated)
    events = EventLog(clock, signals)
    tier = build_wake_services(settings, clock, ids, events)
    registry, threads, sessions = build_agent_services(settings, clock, ids, events, tier)
    async with store.begin_write() as tx:
        await sessions.ensure_default(tx)
    memory = build_memory_services(settings, clock, ids, events, BundledEmbedder())
    asked = DreamRequests(clock, ids, events, settings.dreams)
    identity = Identity(store, signals, admin_token_hashes=[hash_token(ADMIN)], metrics_token_hash=hash_token(METRICS))
    presence = Presence(store, signals)
    return ApiContext(
        store=store,
        clock=clock,
        signals=signals,
        identity=identity,
        sign_in=SignIn(clock, store, identity, [ADMIN]),
        registry=registry,
        sessions=sessions,
        threads=threads,
        tokens=AccessTokenService(clock, events),
        approvals=ApprovalService(clock, ids, events),
        resumable=ResumableAnswers(clock, ids, Ticker(clock), 2**20, lambda agent, data: None),
        confirmer=SleepConfirmer(clock, store, signals, presence, None),
        waits=Waits(clock, store, signals, presence),
        presence=presence,
        settings=settings,
        holds=held,
        wake=tier,
        memory=memory,
        lookup=AnswerLookup(clock, memory.retrieval, memory.words, settings.answers),
        sleeptime=build_sleeptime(settings, clock, ids, memory),
        folders=ConfiguredFolders(asked, settings, {}, (None, None), clock),
    )
