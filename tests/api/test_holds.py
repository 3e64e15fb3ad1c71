"""Holds over REST."""

import pytest

from circadia.gateway.model_call.hold import HoldView
from circadia.ids import AgentId, HoldId
from tests.api.service import Service


def hold(service: Service, agent_id: str, agent: str, session: str = "default") -> HoldView:
    return HoldView(
        id=HoldId(f"hold_{agent}"),
        agent_id=AgentId(agent_id),
        agent=agent,
        session=session,
        door="model",
        what="POST /v1/chat/completions",
        since=service.clock.now(),
        waited_seconds=1.5,
        phase="silent",
        bytes=120,
    )


@pytest.mark.spec("GATE-03", "GATE-33")
async def test_what_is_held_is_listed_and_counted_with_its_agent(service: Service) -> None:
    ann = await service.ok("POST", "/sessions/default/agents", {"name": "ann"})
    team = await service.ok("POST", "/sessions", {"name": "team", "agents": [{"name": "bob"}]})
    service.held.views = [
        hold(service, ann["id"], "ann"),
        hold(service, ann["id"], "ann"),
        hold(service, team["agents"][0]["id"], "bob", "team"),
    ]
    listed = (await service.ok("GET", "/holds"))["holds"]
    assert [each["reference"] for each in listed] == ["ann", "ann", "team:bob"]
    assert listed[0] == {
        "id": "hold_ann", "agent": "ann", "session": "default", "reference": "ann", "door": "model",
        "what": "POST /v1/chat/completions", "since": "2026-01-01T00:00:00Z", "waited_seconds": 1.5, "phase": "silent",
        "bytes": 120, "approval": None,
    }  # fmt: skip
    assert (await service.ok("GET", "/holds"))["elsewhere"] == [], "this server is alone"
    few = await service.ok("GET", "/holds?limit=1")
    assert (len(few["holds"]), few["total"]) == (1, 3)
    assert len((await service.ok("GET", "/holds?session=team"))["holds"]) == 1
    assert len((await service.ok("GET", "/holds?agent=ann"))["holds"]) == 2
    assert (await service.ok("GET", "/sessions/default/agents/ann/sleeping"))["held"] == 2
    assert [agent["held"] for agent in (await service.ok("GET", "/sessions/team/agents"))["agents"]] == [1]
