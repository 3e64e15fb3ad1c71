"""The one boolean over REST."""

import asyncio
from pathlib import Path

import pytest

from tests.api.service import Service, serving

STATE = "/sessions/default/agents/ann/sleeping"
DOORS = (
    "//api/v1/sessions/default/agents/ann/sleeping",
    "//api/v1/sessions/default/ann/sleeping",
    "//api/v1/sleeping/default/ann",
    "//sessions/default/ann/sleeping",
)


@pytest.mark.spec("GATE-01")
async def test_an_agent_is_awake_unless_its_start_puts_it_to_sleep(service: Service) -> None:
    await service.agent("ann")
    await service.agent("bob", sleep_events=["agent_started"])
    await service.agent("cat", sleep_events=["removed_from_last_thread", "last_thread_closed"])
    assert [await service.asleep(name) for name in ("ann", "bob", "cat")] == [False, True, False]


@pytest.mark.spec("GATE-03")
async def test_the_state_tells_since_cause_actor_generation_and_held(service: Service) -> None:
    await service.agent("ann")
    service.clock.advance(90)
    state = await service.ok("PUT", STATE, {"sleeping": True})
    assert state == {
        "sleeping": True, "since": "2026-01-01T00:01:30Z", "cause": "rest", "actor": "operator", "generation": 1,
        "held": 0, "unconfirmed": [], "agent": "ann", "session": "default", "pulse": None, "unread": [], "alarm": None,
    }  # fmt: skip
    assert await service.ok("GET", STATE) == state
    assert [event["data"]["generation"] for event in await service.events("sleep_start")] == [1]


@pytest.mark.spec("GATE-04")
async def test_setting_the_value_it_has_changes_nothing(service: Service) -> None:
    await service.agent("ann")
    before = await service.ok("PUT", STATE, {"sleeping": True})
    service.clock.advance(60)
    assert await service.ok("PUT", STATE, {"sleeping": True}) == before
    assert len(await service.events("sleep_start")) == 1
    assert (await service.ok("PUT", STATE, {"sleeping": False}))["generation"] == 2


@pytest.mark.spec("GATE-05", "GATE-21")
async def test_the_state_survives_a_restart_and_the_start_does_not_undo_a_wake(tmp_path: Path) -> None:
    async with serving(tmp_path) as service:
        await service.agent("ann", sleep_events=["agent_started"])
        await service.agent("bob")
        await service.ok("PUT", STATE, {"sleeping": False})
        await service.ok("PUT", "/sessions/default/agents/bob/sleeping", {"sleeping": True})
    async with serving(tmp_path) as service:
        assert [await service.asleep(name) for name in ("ann", "bob")] == [False, True]


@pytest.mark.spec("GATE-30", "GATE-34")
@pytest.mark.parametrize("door", DOORS)
async def test_every_path_of_the_state_reads_and_sets_it_by_put_and_by_post(service: Service, door: str) -> None:
    await service.agent("ann")
    for method, asleep in (("PUT", True), ("PUT", False), ("POST", True), ("POST", False)):
        answer = await service.call(method, door, {"sleeping": asleep})
        assert (answer.status, answer.body["sleeping"]) == (200, asleep)
        assert (await service.call("GET", door)).body == answer.body == await service.ok("GET", STATE)


@pytest.mark.spec("GATE-30")
@pytest.mark.parametrize("method", ["PUT", "POST"])
@pytest.mark.parametrize(
    "body", [{"sleeping": 1}, {"sleeping": 0}, {"sleeping": "true"}, {"sleeping": None}, {"sleeping": []}, {}, [], 1]
)
async def test_only_true_and_false_are_booleans(service: Service, method: str, body: object) -> None:
    await service.agent("ann")
    answer = await service.call(method, STATE, body)
    assert (answer.status, answer.code) == (422, "invalid_request")
    assert not await service.asleep("ann")


@pytest.mark.spec("GATE-30")
@pytest.mark.parametrize("data", [b"", b"{", b'{"sleeping": tru', b"\xff\xfe", b"[" * 100_000, b"sleeping=true"])
async def test_what_is_no_json_is_the_callers_mistake(service: Service, data: bytes) -> None:
    await service.agent("ann")
    answer = await service.call("PUT", STATE, data=data)
    assert (answer.status, answer.code) == (422, "invalid_request")


@pytest.mark.spec("GATE-34")
async def test_a_custom_tool_may_repeat_the_names_of_the_path_and_nothing_else(service: Service) -> None:
    await service.agent("ann")
    asked = {"session": "default", "agent": "ann", "sleeping": True}
    assert (await service.ok("POST", STATE, asked))["sleeping"] is True
    assert (await service.call("POST", STATE, {**asked, "sleepin": True})).status == 422


async def test_the_body_is_json_whatever_the_caller_calls_it(service: Service) -> None:
    await service.agent("ann")
    for kind in ("application/x-www-form-urlencoded", "text/plain", "application/json; charset=utf-8"):
        answer = await service.call("PUT", STATE, data=b'{"sleeping": true}', headers={"Content-Type": kind})
        assert answer.status == 200


@pytest.mark.spec("GATE-30")
async def test_an_unknown_session_or_agent_is_told_with_the_nearest_names(service: Service) -> None:
    await service.agent("writer")
    missing = await service.call("GET", "/sessions/default/agents/writr/sleeping")
    assert (missing.status, missing.code) == (404, "not_found")
    assert "did you mean 'writer'?" in missing.body["detail"]
    for method, body in (("GET", None), ("PUT", {"sleeping": True})):
        answer = await service.call(method, "/sessions/defaut/agents/writer/sleeping", body)
        assert answer.status == 404
        assert "'default'" in answer.body["detail"]


@pytest.mark.spec("GATE-30")
async def test_a_closed_session_conflicts(service: Service) -> None:
    await service.ok("POST", "/sessions", {"name": "team", "agents": [{"name": "ann"}]})
    await service.ok("DELETE", "/sessions/team")
    for method in ("GET", "PUT", "POST"):
        body = None if method == "GET" else {"sleeping": True}
        answer = await service.call(method, "/sessions/team/agents/ann/sleeping", body)
        assert (answer.status, answer.code) == (409, "conflict")


@pytest.mark.spec("GATE-31")
async def test_after_a_wake_every_look_says_awake_and_who_waited_goes_on(service: Service) -> None:
    made = await service.ok("POST", "/sessions/default/agents", {"name": "ann", "sleep_events": ["agent_started"]})
    presence = service.parts.presence
    cell = await presence.fetch_cell(made["id"])
    waiting = asyncio.create_task(presence.wait_until_awake(cell, object()))
    await asyncio.sleep(0)
    assert not waiting.done()
    await service.ok("PUT", STATE, {"sleeping": False})
    looks = await asyncio.gather(*(service.asleep("ann") for _ in range(5)))
    assert looks == [False] * 5
    await asyncio.wait_for(waiting, 5)


@pytest.mark.spec("GATE-32")
async def test_an_agent_sets_its_own_state_and_that_of_others_by_its_lists_only(service: Service) -> None:
    ann = await service.agent("ann", may_wake=["bob"], policy={"may_sleep": ["cat"]})
    for name in ("bob", "cat"):
        await service.agent(name)

    async def tries(name: str, asleep: bool) -> int:
        path = f"/sessions/default/agents/{name}/sleeping"
        return (await service.call("PUT", path, {"sleeping": asleep}, token=ann)).status

    assert [await tries("ann", True), await tries("ann", False)] == [200, 200]
    assert [await tries("bob", True), await tries("bob", False)] == [403, 200]
    assert [await tries("cat", True), await tries("cat", False)] == [200, 403]
    assert (await service.ok("GET", "/sessions/default/agents/cat/sleeping", token=ann))["actor"] == "ann"


@pytest.mark.spec("GATE-33")
async def test_many_are_set_at_once_and_listed(service: Service) -> None:
    for name in ("ann", "bob", "cat"):
        await service.agent(name)
    named = await service.ok("PUT", "/sessions/default/sleeping", {"sleeping": True, "agents": ["cat", "ann", "cat"]})
    assert [(each["agent"], each["sleeping"]) for each in named["agents"]] == [("cat", True), ("ann", True)]
    everyone = await service.ok("PUT", "/sessions/default/sleeping", {"sleeping": True, "agents": None})
    assert [each["generation"] for each in everyone["agents"]] == [1, 1, 1]
    listed = (await service.ok("GET", "/sessions/default/agents"))["agents"]
    assert [(each["name"], each["sleeping"], each["cause"], each["held"]) for each in listed] == [
        ("ann", True, "rest", 0), ("bob", True, "rest", 0), ("cat", True, "rest", 0),
    ]  # fmt: skip


@pytest.mark.spec("GATE-33")
async def test_if_one_of_many_may_not_be_set_none_is(service: Service) -> None:
    ann = await service.agent("ann", may_sleep=["bob"])
    for name in ("bob", "cat"):
        await service.agent(name)
    path = "/sessions/default/sleeping"
    assert (await service.call("PUT", path, {"sleeping": True, "agents": ["bob", "cat"]}, token=ann)).status == 403
    assert (await service.call("PUT", path, {"sleeping": True, "agents": ["bob", "cot"]})).status == 404
    assert (await service.call("PUT", path, {"sleeping": True}, token=ann)).status == 403
    assert not any([await service.asleep(name) for name in ("ann", "bob", "cat")])
    assert (await service.call("PUT", path, {"sleeping": True, "agents": ["bob", "ann"]}, token=ann)).status == 200


@pytest.mark.spec("GATE-03", "GATE-31")
async def test_changes_at_the_same_moment_are_all_answered_and_counted_one_by_one(service: Service) -> None:
    await service.agent("ann")
    answers = await asyncio.gather(
        *(service.call("PUT", STATE, {"sleeping": bool(number % 2)}) for number in range(40)),
        *(service.call("PUT", "/sessions/default/sleeping", {"sleeping": bool(number % 2)}) for number in range(10)),
    )
    assert {answer.status for answer in answers} == {200}
    events = await service.events("sleep_start", "sleep_stop")
    assert [event["data"]["generation"] for event in events] == list(range(1, len(events) + 1))
    assert [event["type"] for event in events] == (["sleep_start", "sleep_stop"] * len(events))[: len(events)]
    assert (await service.ok("GET", STATE))["generation"] == len(events)


@pytest.mark.spec("GATE-32", "GATE-07")
async def test_a_bare_name_in_a_list_is_an_agent_of_the_own_session_only(service: Service) -> None:
    await service.ok("POST", "/sessions", {"name": "team", "agents": [{"name": "bob"}]})
    ann = await service.agent("ann", policy={"sessions": ["team"], "may_sleep": ["bob"], "may_wake": ["bob"]})
    await service.agent("bob")

    async def tries(session: str, asleep: bool) -> int:
        path = f"/sessions/{session}/agents/bob/sleeping"
        return (await service.call("PUT", path, {"sleeping": asleep}, token=ann)).status

    assert [await tries("default", True), await tries("default", False)] == [200, 200]
    assert [await tries("team", True), await tries("team", False)] == [403, 403]
    grants = {"may_sleep": ["team:bob"], "may_wake": ["team:bob"]}
    await service.ok("PATCH", "/sessions/default/agents/ann", {"policy": grants})
    assert [await tries("team", True), await tries("team", False)] == [200, 200]
    assert [await tries("default", True), await tries("default", False)] == [403, 403]
