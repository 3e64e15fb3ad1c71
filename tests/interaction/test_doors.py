"""Every door of REST × every principal: one table, and a test that walks it (GATE-07)."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from starlette.routing import Route

from circadia.api.app import Api
from circadia.ids import ApprovalId, EpisodeId, NoteId
from circadia.records.approval import Approval, ApprovalRule
from circadia.records.bank import Trust
from circadia.records.note import Note, NoteKind
from tests.api.service import ADMIN, METRICS, Service, serving

PRINCIPALS = ("operator", "own agent", "other agent of the session", "agent of another session", "none")

ALL = (200, 200, 200, 200, 401)
OPERATOR = (200, 403, 403, 403, 401)
SESSION = (200, 200, 200, 403, 401)
OWN = (200, 200, 403, 403, 401)

DOORS: dict[str, tuple[tuple[int, int, int, int, int], object]] = {
    "GET /api/openapi.json": (ALL, None),
    "GET /api/v1/sessions": (OPERATOR, None),
    "POST /api/v1/sessions": ((201, 403, 403, 403, 401), {}),
    "GET /api/v1/sessions/{session}": (SESSION, None),
    "DELETE /api/v1/sessions/{session}": (OPERATOR, None),
    "GET /api/v1/sessions/{session}/agents": (SESSION, None),
    "POST /api/v1/sessions/{session}/agents": ((201, 403, 403, 403, 401), {"name": "new"}),
    "GET /api/v1/sessions/{session}/agents/{agent}": (SESSION, None),
    "PATCH /api/v1/sessions/{session}/agents/{agent}": (OPERATOR, {"description": "new"}),
    "DELETE /api/v1/sessions/{session}/agents/{agent}": ((204, 403, 403, 403, 401), None),
    "POST /api/v1/sessions/{session}/agents/{agent}/token": (OPERATOR, None),
    "GET /api/v1/sessions/{session}/agents/{agent}/sleeping": (SESSION, None),
    "PUT /api/v1/sessions/{session}/agents/{agent}/sleeping": (OWN, {"sleeping": True}),
    "POST /api/v1/sessions/{session}/agents/{agent}/sleeping": (OWN, {"sleeping": True}),
    "GET /api/v1/sessions/{session}/{agent}/sleeping": (SESSION, None),
    "PUT /api/v1/sessions/{session}/{agent}/sleeping": (OWN, {"sleeping": True}),
    "POST /api/v1/sessions/{session}/{agent}/sleeping": (OWN, {"sleeping": True}),
    "GET /api/v1/sleeping/{session}/{agent}": (SESSION, None),
    "PUT /api/v1/sleeping/{session}/{agent}": (OWN, {"sleeping": True}),
    "POST /api/v1/sleeping/{session}/{agent}": (OWN, {"sleeping": True}),
    "GET /sessions/{session}/{agent}/sleeping": (SESSION, None),
    "PUT /sessions/{session}/{agent}/sleeping": (OWN, {"sleeping": True}),
    "POST /sessions/{session}/{agent}/sleeping": (OWN, {"sleeping": True}),
    "PUT /api/v1/sessions/{session}/sleeping": (OWN, {"sleeping": True, "agents": ["ann"]}),
    "GET /api/v1/sessions/{session}/threads": (SESSION, None),
    "POST /api/v1/sessions/{session}/threads": ((201, 201, 201, 403, 401), {"name": "new"}),
    "POST /api/v1/sessions/{session}/threads/{thread}/participants": ((201, 201, 403, 403, 401), {"agent": "bob"}),
    "DELETE /api/v1/sessions/{session}/threads/{thread}/participants/{agent}": ((204, 204, 403, 403, 401), None),
    "POST /api/v1/sessions/{session}/threads/{thread}/close": (OWN, None),
    "GET /api/v1/sessions/{session}/threads/{thread}/messages": (OWN, None),
    "POST /api/v1/sessions/{session}/threads/{thread}/messages": ((201, 201, 403, 403, 401), {"content": "hello"}),
    "POST /api/v1/messages": ((201, 201, 201, 403, 401), {"to": "{s}:carl", "content": "hello"}),
    "GET /api/v1/messages": (OPERATOR, None),
    "POST /api/v1/messages/{message}/requeue": (OPERATOR, None),
    "POST /api/v1/wakes": ((201, 201, 201, 403, 401), {"to": "{s}:carl", "message": "red", "reason": "blocker"}),
    "GET /api/v1/wakes": (ALL, None),
    "GET /api/v1/wakes/matrix": (OPERATOR, None),
    "GET /api/v1/wakes/{wake}": ((200, 200, 200, 403, 401), None),
    "POST /api/v1/wakes/{wake}/cancel": ((200, 200, 403, 403, 401), None),
    "GET /api/v1/calls/{call}/answer": ((403, 404, 404, 404, 401), None),
    "GET /api/v1/approvals": (OPERATOR, None),
    "GET /api/v1/approvals/{approval}": (OPERATOR, None),
    "POST /api/v1/approvals/{approval}/approve": (OPERATOR, {"reason": "checked"}),
    "POST /api/v1/approvals/{approval}/refuse": (OPERATOR, {"reason": "not now"}),
    "GET /api/v1/chains/{root}": (OPERATOR, None),
    "GET /api/v1/agents/{agent}/wake-stats": (OWN, None),
    "GET /v1/agents/{agent}/wake-stats": (OWN, None),
    "GET /api/v1/agents/{agent}/coordination": (OWN, None),
    "PATCH /api/v1/agents/{agent}/coordination": (OPERATOR, {"zone": "Europe/Berlin"}),
    "DELETE /api/v1/agents/{agent}/coordination/{key}": (OPERATOR, None),
    "GET /api/v1/agents/{agent}/inbox": (OWN, None),
    "POST /api/v1/agents/{agent}/inbox/{message}/ack": (OWN, None),
    "POST /api/v1/agents/{agent}/inbox/{message}/snooze": (OWN, {"seconds": 60}),
    "GET /api/v1/agents/{agent}/sent": (OWN, None),
    "GET /api/v1/agents/{agent}/pulses": (OWN, None),
    "POST /api/v1/agents/{agent}/pulses": ((201, 403, 403, 403, 401), None),
    "GET /api/v1/alarms": (OPERATOR, None),
    "GET /api/v1/agents/{agent}/alarms": (OWN, None),
    "PUT /api/v1/agents/{agent}/alarms/{alarm}": (OWN, {"every_seconds": 3600}),
    "DELETE /api/v1/agents/{agent}/alarms/{alarm}": (OWN, None),
    "GET /api/v1/agents/{agent}/event-waits": (OWN, None),
    "POST /api/v1/agents/{agent}/event-waits": (OWN, {"name": "batch.completed", "timeout_seconds": 0}),
    "DELETE /api/v1/agents/{agent}/event-waits/{wait}": ((204, 204, 403, 403, 401), None),
    "POST /api/v1/events/{event}": (ALL, {"data": {"id": "new"}}),
    "GET /api/v1/agents/{agent}/schedule": (OWN, None),
    "PUT /api/v1/agents/{agent}/schedule": (OPERATOR, {"routines": []}),
    "GET /api/v1/pulses/{pulse}": (OWN, None),
    "POST /api/v1/pulses/{pulse}/cancel": (OPERATOR, None),
    "POST /api/v1/pulses/{pulse}/end": ((409, 403, 403, 403, 401), {"status": "succeeded"}),
    "GET /api/v1/hooks": (OPERATOR, None),
    "GET /api/v1/hooks/{hook}": ((404, 403, 403, 403, 401), None),
    "PUT /api/v1/hooks/{hook}": (
        (422, 403, 403, 403, 401),
        {"agent": "{s}:ann", "signature": "github", "secret_env": "NOT_SET"},
    ),
    "DELETE /api/v1/hooks/{hook}": ((404, 403, 403, 403, 401), None),
    "GET /api/v1/hooks/{hook}/deliveries": ((404, 403, 403, 403, 401), None),
    "GET /api/v1/banks": (ALL, None),
    "POST /api/v1/banks": ((201, 403, 403, 403, 401), {"name": "new-{s}"}),
    "GET /api/v1/banks/{bank}": (OWN, None),
    "PATCH /api/v1/banks/{bank}": (OPERATOR, {"description": "new"}),
    "DELETE /api/v1/banks/{bank}": ((204, 403, 403, 403, 401), None),
    "POST /api/v1/banks/{bank}/forget": (OPERATOR, {"speaker": "ann"}),
    "POST /api/v1/banks/{bank}/restore": (OPERATOR, {"at": "2026-01-01"}),
    "GET /api/v1/banks/{bank}/export": (OPERATOR, None),
    "POST /api/v1/banks/{bank}/import": (OPERATOR, {"type": "episode", "text": "new", "speaker": "ann"}),
    "GET /api/v1/banks/{bank}/episodes": (OWN, None),
    "POST /api/v1/banks/{bank}/episodes": ((201, 201, 403, 403, 401), {"text": "new"}),
    "GET /api/v1/banks/{bank}/episodes/{episode}": (OWN, None),
    "POST /api/v1/banks/{bank}/episodes/{episode}/stale": (OPERATOR, {"evidence": "new"}),
    "DELETE /api/v1/banks/{bank}/episodes/{episode}/stale/{evidence}": (OPERATOR, None),
    "GET /api/v1/banks/{bank}/search": (OWN, None),
    "GET /api/v1/banks/{bank}/context": (OWN, None),
    "GET /api/v1/banks/{bank}/blocks": (OWN, None),
    "GET /api/v1/banks/{bank}/blocks/{label}": (OWN, None),
    "PUT /api/v1/banks/{bank}/blocks/{label}": (OWN, {"value": "new"}),
    "DELETE /api/v1/banks/{bank}/blocks/{label}": (OWN, None),
    "GET /api/v1/banks/{bank}/blocks/{label}/history": (OWN, None),
    "POST /api/v1/banks/{bank}/blocks/{label}/undo": (OPERATOR, None),
    "POST /api/v1/banks/{bank}/passes": ((409, 403, 403, 403, 401), None),
    "GET /api/v1/banks/{bank}/passes": (OWN, None),
    "GET /api/v1/passes": (OPERATOR, None),
    "GET /api/v1/passes/{pass}": (OWN, None),
    "GET /api/v1/passes/{pass}/changes": (OWN, None),
    "POST /api/v1/passes/{pass}/undo": ((409, 403, 403, 403, 401), None),
    "POST /api/v1/passes/{pass}/accept": ((409, 403, 403, 403, 401), None),
    "POST /api/v1/passes/{pass}/refuse": ((409, 403, 403, 403, 401), None),
    "POST /api/v1/passes/{pass}/cancel": (OPERATOR, None),
    "GET /api/v1/agents/{agent}/why": (OWN, None),
    "GET /api/v1/messages/{message}/wakes": (OPERATOR, None),
    "GET /api/v1/wake-circles": (OPERATOR, None),
    "GET /api/v1/for-you": (OPERATOR, None),
    "GET /api/v1/proposals": (OPERATOR, None),
    "GET /api/v1/alerts": (OPERATOR, None),
    "GET /api/v1/alerts/{alert}": ((404, 403, 403, 403, 401), None),
    "POST /api/v1/alerts/{alert}/acknowledge": ((404, 403, 403, 403, 401), None),
    "POST /api/v1/dreams": ((404, 403, 403, 403, 401), {"inputs": [{"type": "folder", "name": "app"}]}),
    "GET /api/v1/dreams": (OPERATOR, None),
    "GET /api/v1/dreams/{dream}": ((404, 403, 403, 403, 401), None),
    "POST /api/v1/dreams/{dream}/cancel": ((404, 403, 403, 403, 401), None),
    "GET /api/v1/dreams/{dream}/diff": ((404, 403, 403, 403, 401), None),
    "POST /api/v1/dreams/{dream}/accept": ((404, 403, 403, 403, 401), None),
    "POST /api/v1/dreams/{dream}/refuse": ((404, 403, 403, 403, 401), None),
    "POST /api/v1/dreams/{dream}/undo": ((404, 403, 403, 403, 401), None),
    "GET /api/v1/memory-folders": (OPERATOR, None),
    "GET /api/v1/memory-folders/{folder}": ((404, 403, 403, 403, 401), None),
    "GET /api/v1/banks/{bank}/notes": (OWN, None),
    "GET /api/v1/banks/{bank}/notes/{note}": (OWN, None),
    "POST /api/v1/banks/{bank}/notes/{note}/promote": ((404, 403, 403, 403, 401), {"to": "team"}),
    "GET /api/v1/banks/{bank}/forgotten": (OPERATOR, None),
    "POST /api/v1/banks/{bank}/forgotten/{episode}/restore": ((404, 403, 403, 403, 401), None),
    "GET /api/v1/banks/{bank}/sleeptime": (OWN, None),
    "GET /api/v1/banks/{bank}/sleeptime/estimate": (OPERATOR, None),
    "GET /api/v1/banks/{bank}/answers": (OPERATOR, None),
    "DELETE /api/v1/banks/{bank}/answers": (OPERATOR, None),
    "GET /api/v1/banks/{bank}/answers/stats": (OPERATOR, None),
    "POST /api/v1/banks/{bank}/answers/test": (OPERATOR, {"agent": "{s}:ann", "question": "When?"}),
    "GET /api/v1/banks/{bank}/answers/{answer}": ((404, 403, 403, 403, 401), None),
    "DELETE /api/v1/banks/{bank}/answers/{answer}": ((404, 403, 403, 403, 401), None),
    "POST /api/v1/banks/{bank}/sleeptime/pause": (OPERATOR, None),
    "POST /api/v1/banks/{bank}/sleeptime/resume": (OPERATOR, None),
    "GET /api/v1/sleeptime": (OPERATOR, None),
    "GET /api/v1/cluster": (OPERATOR, None),
    "GET /api/v1/holds": (OPERATOR, None),
    "POST /api/v1/holds/{hold}/drop": ((404, 403, 403, 403, 401), None),
    "GET /api/v1/events": (OPERATOR, None),
    "GET /api/v1/events/stream": (OPERATOR, None),
    "GET /api/v1/timeline": (OPERATOR, None),
    "GET /api/v1/timeline.csv": (OPERATOR, None),
    "GET /api/v1/timeline/sums": (OPERATOR, None),
    "GET /api/v1/usage": (OPERATOR, None),
    "GET /api/v1/usage/savings": (OPERATOR, None),
    "GET /api/v1/calls": (OPERATOR, None),
    "GET /api/v1/calls/{call}": ((404, 403, 403, 403, 401), None),
    "GET /api/v1/search": (OPERATOR, None),
    "GET /api/v1/config": (OPERATOR, None),
    "GET /api/v1/overview": (OPERATOR, None),
    "GET /api/v1/agents": (OPERATOR, None),
    "GET /api/v1/tokens": (OPERATOR, None),
    "GET /api/v1/upstreams": (OPERATOR, None),
    "POST /api/v1/tokens": ((201, 403, 403, 403, 401), {"name": "new", "role": "viewer"}),
    "DELETE /api/v1/tokens/{name}": ((404, 403, 403, 403, 401), None),
    "GET /api/v1/me": (ALL, None),
    "POST /api/v1/me/links": ((201, 403, 403, 403, 401), None),
}
"""What each principal is answered, in the order of PRINCIPALS, and the body that is sent."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A fresh session with ann, who takes part in the thread, and bob, who does not; and a foreign agent.

    Ann is awake, has a message, and has asked to wake bob, who is awake: that is deferred. A bank is hers, with an
    episode that is stale, a note, a block of two versions and a pass that has not begun; agents may write it while
    somebody waits. A call of hers waits for a person.
    """

    session: str
    tokens: tuple[str | None, ...]
    keys: Mapping[str, str]
    """What stands for the parameters of a path."""


@pytest.fixture
async def service(tmp_path: Path) -> AsyncGenerator[Service]:
    async with serving(tmp_path) as made:
        yield made


async def filled_bank(service: Service) -> Mapping[str, str]:
    """Return the name of a new bank, and what is in it."""
    name = f"bank-{uuid4().hex}"
    await service.ok("POST", "/banks", {"name": name, "policy": {"hot_edits": True}})
    episode = (await service.ok("POST", f"/banks/{name}/episodes", {"text": "private"}))["id"]
    await service.ok("POST", f"/banks/{name}/episodes/{episode}/stale", {"evidence": "e"})
    for value in ("one", "two"):
        await service.ok("PUT", f"/banks/{name}/blocks/human", {"value": value})
    run = (await service.ok("POST", f"/banks/{name}/passes"))["id"]
    now = service.clock.now()
    async with service.parts.store.begin_write() as tx:
        bank = await tx.banks.get_by_name(name)
        assert bank is not None
        note = Note(
            id=NoteId(f"not_{uuid4().hex}"), number=0, bank_id=bank.id, kind=NoteKind.BELIEF, text="private",
            evidence=(EpisodeId(episode),), trust=Trust.PERSON, at=now, created_at=now,
        )  # fmt: skip
        await tx.notes.add(note)
    return {"bank": name, "episode": episode, "pass": run, "note": note.id, "evidence": "e", "label": "human"}


async def pending_approval(service: Service, session: str) -> str:
    """Return a call of ann that waits for a person."""
    now = service.clock.now()
    async with service.parts.store.begin_write() as tx:
        ann = next(agent for agent in await tx.agents.find_by_past_name(session, "ann") if agent.deleted_at is None)
        approval = Approval(
            id=ApprovalId(f"apr_{uuid4().hex}"), agent_id=ann.id, session=session, agent="ann", door="mcp", target="t",
            what="tools/call merge", rule=ApprovalRule.TOOL, digest=uuid4().hex, preview="private", valid_seconds=60.0,
            requested_at=now, expires_at=now + timedelta(hours=1),
        )  # fmt: skip
        await tx.approvals.add(approval)
    return approval.id


async def fresh(service: Service) -> Place:
    bank = await filled_bank(service)
    graph = {
        "agents": [{"name": "ann", "bank": bank["bank"], "own_routines": 1}, {"name": "bob"}, {"name": "carl"}],
        "threads": [{"name": "t", "participants": ["ann"]}],
    }
    home = await service.ok("POST", "/sessions", graph)
    away = await service.ok("POST", "/sessions", {"agents": [{"name": "ann", "may_wake": ["*"], "may_sleep": ["*"]}]})
    ann, bob = (agent["token"] for agent in home["agents"][:2])
    name = home["name"]
    for asleep in (True, False):
        await service.ok("PUT", f"/sessions/{name}/agents/ann/sleeping", {"sleeping": asleep})
    letter = await service.ok("POST", "/messages", {"to": f"{name}:ann", "content": "private"})
    wake = await service.ok("POST", "/wakes", {"to": "bob", "message": "m", "reason": "blocker"}, token=ann)
    pulse = (await service.ok("GET", f"/agents/{name}:ann/pulses"))["pulses"][0]["id"]
    approval = await pending_approval(service, name)
    keys = {
        "approval": approval,
        "message": letter["message"],
        "wake": wake["wake"],
        "root": wake["root"],
        "pulse": pulse,
    }
    keys["call"] = "call_of_nobody"
    waiting = f"/agents/{name}:ann/event-waits"
    await service.ok("POST", waiting, {"name": "build.finished", "timeout_seconds": 0})
    wait = (await service.ok("GET", waiting))["waits"][0]["id"]
    await service.ok("PUT", f"/agents/{name}:ann/alarms/look", {"every_seconds": 900})
    keys |= {"session": name, "thread": "t", "key": "zone", "alarm": "look", "event": "new", "wait": wait, **bank}
    tokens = (ADMIN, ann, bob, away["agents"][0]["token"], None)
    return Place(session=name, tokens=tokens, keys=keys)


async def status(service: Service, place: Place, door: str, token: str | None) -> int:
    method, path = door.split(" ")
    for key, value in place.keys.items():
        path = path.replace(f"{{{key}}}", value)
    path = path.replace("{agent}", "ann" if "/sessions/" in path or "/sleeping/" in path else f"{place.session}:ann")
    body = json.loads(json.dumps(DOORS[door][1]).replace("{s}", place.session))
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    path += "?q=new" if path.endswith("/search") else ""
    async with service.http.request(method, service.url + path, json=body, headers=headers) as answer:
        return answer.status


@pytest.mark.spec("GATE-07")
def test_each_door_is_in_the_table_and_no_other() -> None:
    routes = [route for route in Api().routes if isinstance(route, Route)]
    assert len(routes) == len(Api().routes)
    served = {f"{method} {route.path}" for route in routes for method in (route.methods or set()) - {"HEAD"}}
    assert served == set(DOORS)


@pytest.mark.spec("GATE-07", "GATE-32")
@pytest.mark.parametrize("door", DOORS)
async def test_a_door_opens_to_those_only_whom_the_table_names(service: Service, door: str) -> None:
    wanted = DOORS[door][0]
    place, seen = await fresh(service), dict[str, int]()
    # Who reads, or is refused, changes nothing (the last test here), so that the next one finds the place as it was.
    for number in sorted(range(len(PRINCIPALS)), key=lambda number: wanted[number] < 300):
        seen[PRINCIPALS[number]] = await status(service, place, door, place.tokens[number])
        if seen[PRINCIPALS[number]] < 300 and not door.startswith("GET "):
            place = await fresh(service)
    assert seen == dict(zip(PRINCIPALS, wanted, strict=True))


@pytest.mark.spec("GATE-07", "GATE-35")
async def test_a_wrong_a_metrics_and_a_dead_token_open_no_door(service: Service) -> None:
    place = await fresh(service)
    dead = place.tokens[1]
    await service.ok("POST", f"/sessions/{place.session}/agents/ann/token")
    wrong = ("circadia-agent-nobody", "", ADMIN[:-1], ADMIN.upper(), dead)
    for door in DOORS:
        told = await asyncio.gather(*(status(service, place, door, token) for token in wrong))
        assert told == [401] * len(wrong), door
        assert await status(service, place, door, METRICS) == 403, door


@pytest.mark.spec("GATE-35")
def test_no_door_defines_an_upstream_an_mcp_server_or_a_launcher() -> None:
    words = ("upstream", "server", "launcher", "command", "settings", "config")
    writing = [door for door in DOORS if not door.startswith("GET ")]
    assert not [door for door in writing if any(word in door for word in words)]


@pytest.mark.spec("GATE-07", "GATE-32")
async def test_a_refusal_changes_nothing(service: Service) -> None:
    place = await fresh(service)
    before = (await service.ok("GET", f"/events?session={place.session}"))["events"]
    for door, (statuses, _) in DOORS.items():
        for number, token in enumerate(place.tokens):
            if statuses[number] in (401, 403):
                await status(service, place, door, token)
    assert (await service.ok("GET", f"/events?session={place.session}"))["events"] == before
