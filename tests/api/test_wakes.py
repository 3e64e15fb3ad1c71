"""Messages and wakes over REST: what is answered, what is refused, and what the record shows afterwards."""

from typing import Any

import pytest

from tests.api.service import ADMIN, Service

WAKE: dict[str, object] = {"to": "bob", "message": "the build is red", "reason": "blocker"}


@pytest.fixture
async def ann(service: Service) -> str:
    """Make ann, who is awake, and bob, who is asleep; return ann's token."""
    token = await service.agent("ann")
    await service.agent("bob", sleep_events=["agent_started"])
    return token


async def limit(service: Service, agent: str, **limits: object) -> None:
    await service.ok("PATCH", f"/agents/{agent}/coordination", {"wake_guardrails": limits})


async def sleep(service: Service, agent: str = "bob") -> None:
    await service.ok("PUT", f"/sessions/default/agents/{agent}/sleeping", {"sleeping": True})


async def unread(service: Service, agent: str = "bob") -> list[str]:
    return [each["content"] for each in (await service.ok("GET", f"/agents/{agent}/inbox"))["messages"]]


@pytest.mark.spec("WAKE-01", "WAKE-02", "WAKE-05")
async def test_a_wake_opens_the_gate_and_tells_what_is_left(service: Service, ann: str) -> None:
    told = await service.ok("POST", "/wakes", WAKE, token=ann)
    assert (told["decision"], told["rule"], told["retry_at"]) == ("admitted", None, None)
    assert told["budgets"] == {
        "session": {"limit": 3, "used": 1, "left": 2},
        "day": {"limit": 12, "used": 1, "left": 11},
        "pair": {"limit": 5, "used": 1, "left": 4},
    }
    assert not await service.asleep("bob")
    shown = await service.ok("GET", f"/wakes/{told['wake']}")
    assert (shown["message"], shown["pulse"], shown["from"]) == (told["message"], told["pulse"], "ann")
    assert [each["rule"] for each in shown["trace"]][:2] == ["enabled", "max_wakes_per_session"]
    assert [event["data"]["decision"] for event in await service.events("wake")] == ["admitted"]


@pytest.mark.spec("WAKE-02", "WAKE-05", "WAKE-11")
async def test_a_refused_wake_keeps_its_message_and_says_what_stays_free_and_when_to_try_again(
    service: Service, ann: str
) -> None:
    await limit(service, "bob", max_wakes_per_day=0)
    told = await service.ok("POST", "/wakes", WAKE, token=ann)
    assert (told["decision"], told["rule"]) == ("refused", "max_wakes_per_day")
    assert told["retry_at"] == "2026-01-02T00:00:00Z"
    assert "message_agent stays free" in told["summary"]
    assert "message is in its inbox" in told["summary"]
    assert await unread(service) == ["the build is red"]
    assert await service.asleep("bob")
    stats = await service.ok("GET", "/agents/bob/wake-stats")
    assert (stats["wakes_today"], stats["refused_today"]) == (0, {"max_wakes_per_day": 1})


@pytest.mark.spec("WAKE-05", "WAKE-20")
async def test_a_refusal_in_the_cooldown_says_when_it_is_over(service: Service, ann: str) -> None:
    await service.ok("PATCH", "/agents/bob/coordination", {"on_cooldown": "refuse"})
    await service.ok("POST", "/wakes", WAKE, token=ann)
    service.clock.advance(100)
    await sleep(service)
    told = await service.ok("POST", "/wakes", WAKE, token=ann)
    assert (told["decision"], told["rule"]) == ("refused", "cooldown_seconds")
    assert told["retry_at"] == "2026-01-01T00:05:00Z"
    stats = await service.ok("GET", "/agents/bob/wake-stats")
    assert (stats["cooldown_remaining_seconds"], stats["last_wake_time"]) == (200, 1_767_225_600_000)


@pytest.mark.spec("WAKE-03")
async def test_a_repeat_with_its_key_in_body_or_header_is_one_message_and_one_request(
    service: Service, ann: str
) -> None:
    first = await service.ok("POST", "/wakes", {**WAKE, "key": "k"}, token=ann)
    second = (await service.call("POST", "/wakes", WAKE, token=ann, headers={"Idempotency-Key": "k"})).body
    assert (first["wake"], first["message"]) == (second["wake"], second["message"])
    assert await unread(service) == ["the build is red"]
    third = await service.ok("POST", "/wakes", {**WAKE, "key": "k"})
    assert third["wake"] != first["wake"]
    headers = {"Idempotency-Key": "other"}
    assert (await service.call("POST", "/wakes", {**WAKE, "key": "k"}, token=ann, headers=headers)).status == 422
    other = await service.call("POST", "/messages", {"to": "ann", "content": "x", "key": "k"})
    assert (other.status, other.code) == (409, "conflict")


@pytest.mark.spec("WAKE-03")
@pytest.mark.parametrize(
    ("path", "first", "changes"),
    [
        (
            "/messages",
            {"to": "bob", "content": "x"},
            [{"content": "y"}, {"priority": "low"}, {"type": "unblock"}, {"wake": "blocker"}],
        ),
        (
            "/messages",
            {"to": "bob", "content": "x", "wake": "blocker"},
            [{"wake": "user_request"}, {"wake": None}, {"wake": None, "priority": "urgent"}],
        ),
        ("/messages", {"to": "bob", "content": "x", "priority": "high"}, [{"priority": "urgent"}, {"wake": "blocker"}]),
        ("/wakes", WAKE, [{"message": "y"}, {"reason": "user_request"}, {"to": "carl"}]),
        ("/wakes", {"to": "bob", "reason": "blocker"}, [{"reason": "user_request"}, {"to": "carl"}, {"message": "y"}]),
    ],
)
async def test_a_key_that_stands_for_something_else_is_a_conflict_and_nothing_is_stored(
    service: Service, ann: str, path: str, first: dict[str, object], changes: list[dict[str, object]]
) -> None:
    await service.agent("carl")
    token = ann if "content" in first or "message" in first else ADMIN
    told = await service.ok("POST", path, {**first, "key": "k"}, token=token)
    before = await unread(service)
    for change in changes:
        answer = await service.call("POST", path, {**first, **change, "key": "k"}, token=token)
        assert (answer.status, answer.code) == (409, "conflict"), change
        assert "use a new key" in str(answer.body)
    again = await service.ok("POST", path, {**first, "key": "k"}, token=token)
    assert (again["message"], again["wake"]) == (told["message"], told["wake"])
    assert await unread(service) == before
    assert len((await service.ok("GET", "/wakes"))["wakes"]) == (told["wake"] is not None)


@pytest.mark.spec("WAKE-03")
async def test_a_repeat_gives_the_first_answer_although_the_readers_settings_would_now_decide_otherwise(
    service: Service, ann: str
) -> None:
    await service.ok("PATCH", "/agents/bob/coordination", {"wake_on_high_priority": False})
    loud = {"to": "bob", "content": "x", "priority": "high", "key": "k"}
    assert (await service.ok("POST", "/messages", loud, token=ann))["wake"] is None
    await service.ok("PATCH", "/agents/bob/coordination", {"wake_on_high_priority": True})
    assert (await service.ok("POST", "/messages", loud, token=ann))["wake"] is None
    assert (await service.ok("GET", "/wakes"))["wakes"] == []


@pytest.mark.spec("WAKE-04")
async def test_a_sender_that_is_not_the_tokens_is_refused(service: Service, ann: str) -> None:
    for path, body in (("/wakes", WAKE), ("/messages", {"to": "bob", "content": "x"})):
        for forged in ("bob", "operator", "default:bob", "team:ann"):
            answer = await service.call("POST", path, {**body, "from": forged}, token=ann)
            assert (answer.status, answer.code) == (403, "forbidden"), forged
        assert (await service.call("POST", path, {**body, "from": "ann"}, token=ann)).status == 201
        assert (await service.call("POST", path, {**body, "from": "ann"})).status == 403
    assert (await service.call("POST", "/wakes", {**WAKE, "from": "bob", "dry_run": True}, token=ann)).status == 403


@pytest.mark.spec("WAKE-04", "WAKE-06")
async def test_each_mistake_is_told_with_what_there_is(service: Service, ann: str) -> None:
    await service.agent("carl")
    await service.ok("PATCH", "/sessions/default/agents/carl", {"enabled": False})
    long = "x" * 64_001
    wrong: list[tuple[str, dict[str, object], int, str]] = [
        ("/messages", {"to": "bobb", "content": "x"}, 404, "did you mean 'bob'"),
        ("/messages", {"to": "bob", "content": "x", "priority": "hi"}, 422, "'low', 'normal', 'high' or 'urgent'"),
        ("/messages", {"to": "bob", "content": "x", "type": "chat"}, 422, "'info', 'review_request'"),
        ("/messages", {"to": "bob", "content": "x", "wake": "bored"}, 422, "'blocker', 'critical_finding'"),
        ("/messages", {"to": "bob", "content": long}, 422, "64000 characters"),
        ("/messages", {"to": "bob", "content": " "}, 422, "needs content"),
        ("/messages", {"to": "ann", "content": "x"}, 422, "to itself"),
        ("/messages", {"to": "carl", "content": "x"}, 409, "disabled"),
        ("/messages", {"to": "bob", "content": "x", "reply_to": "msg_nowhere"}, 404, "msg_nowhere"),
        ("/messages", {"to": "bob", "content": "x", "key": ""}, 422, "1 to 200"),
        ("/messages", {"to": "nowhere:bob", "content": "x"}, 403, "may not reach session 'nowhere'"),
        ("/wakes", {**WAKE, "reason": "bored"}, 422, "'blocker', 'critical_finding' or 'user_request'"),
        ("/wakes", {"to": "bob", "reason": "blocker"}, 422, "`message` is missing"),
        ("/wakes", {**WAKE, "to": "ann"}, 422, "to itself"),
        ("/wakes", {**WAKE, "to": "ann", "dry_run": True}, 422, "may not wake itself"),
        ("/wakes", {**WAKE, "override": "I can"}, 403, "only the operator"),
        ("/wakes", {**WAKE, "override": "I can", "dry_run": True}, 403, "only the operator"),
        ("/wakes", {**WAKE, "resaon": "blocker"}, 422, "did you mean 'reason'"),
    ]
    for path, body, status, said in wrong:
        answer = await service.call("POST", path, body, token=ann)
        assert answer.status == status, (body, answer)
        assert said in answer.body["detail"]
    data = b'{"to": "bob", "content": "%s"}' % (b"x" * 1_100_000)
    assert (await service.call("POST", "/messages", data=data, token=ann)).code == "too_large"
    assert await unread(service) == []
    assert (await service.ok("GET", "/wakes"))["wakes"] == []
    assert (await service.call("POST", "/wakes", {"to": "carl", "reason": "blocker"})).status == 409


@pytest.mark.spec("WAKE-06")
async def test_a_high_priority_asks_for_a_wake_unless_the_target_has_switched_that_off(
    service: Service, ann: str
) -> None:
    await service.ok("PATCH", "/agents/bob/coordination", {"wake_on_high_priority": False})
    told = await service.ok("POST", "/messages", {"to": "bob", "content": "x", "priority": "urgent"}, token=ann)
    assert told["decision"] is None
    await service.ok("PATCH", "/agents/bob/coordination", {"wake_on_high_priority": True})
    told = await service.ok("POST", "/messages", {"to": "bob", "content": "x", "priority": "high"}, token=ann)
    assert told["decision"] == "admitted"


@pytest.mark.spec("WAKE-18")
async def test_the_operator_overrides_with_a_reason_that_is_recorded(service: Service, ann: str) -> None:
    await limit(service, "bob", max_wakes_per_day=0)
    told = await service.ok("POST", "/wakes", {"to": "bob", "reason": "user_request", "override": "the site is down"})
    assert (told["decision"], told["message"]) == ("admitted", None)
    shown = await service.ok("GET", f"/wakes/{told['wake']}")
    assert shown["overridden_by"] == "operator: the site is down"
    assert not await service.asleep("bob")


@pytest.mark.spec("WAKE-71")
async def test_what_waits_can_be_taken_back_by_its_sender_and_keeps_its_message(service: Service, ann: str) -> None:
    carl = await service.agent("carl")
    await service.ok("POST", "/wakes", WAKE, token=ann)
    waits = await service.ok("POST", "/wakes", {**WAKE, "message": "again"}, token=ann)
    assert waits["decision"] == "deferred"
    path = f"/wakes/{waits['wake']}"
    assert (await service.call("GET", path, token=carl)).status == 403
    assert (await service.call("POST", f"{path}/cancel", token=carl)).status == 403
    assert (await service.ok("POST", f"{path}/cancel", token=ann))["decision"] == "cancelled"
    assert (await service.call("POST", f"{path}/cancel", token=ann)).code == "conflict"
    assert (await service.call("GET", "/wakes/wak_nowhere")).code == "not_found"
    assert "again" in await unread(service)


@pytest.mark.spec("WAKE-71", "WAKE-60")
async def test_a_wake_tells_the_pulse_in_which_its_sender_asked(service: Service, ann: str) -> None:
    dora = await service.agent("dora", sleep_events=["agent_started"])
    woken = await service.ok("POST", "/wakes", {"to": "dora", "reason": "user_request"})
    asked = await service.ok("POST", "/wakes", WAKE, token=dora)
    found = {each["id"]: each["sender_pulse"] for each in (await service.ok("GET", "/wakes"))["wakes"]}
    assert found == {woken["wake"]: None, asked["wake"]: woken["pulse"]}


@pytest.mark.spec("WAKE-71")
async def test_wakes_are_listed_page_by_page_and_agents_see_their_own_only(service: Service, ann: str) -> None:
    bob = await service.agent("bert")
    for number in range(5):
        await service.ok("POST", "/wakes", {**WAKE, "message": f"n{number}", "key": str(number)})
    await service.ok("POST", "/wakes", WAKE, token=ann)
    every = (await service.ok("GET", "/wakes"))["wakes"]
    assert len(every) == 6
    seen: list[Any] = []
    page: dict[str, Any] = await service.ok("GET", "/wakes?limit=4")
    seen += page["wakes"]
    page = await service.ok("GET", f"/wakes?limit=4&before={page['before']}")
    assert seen + page["wakes"] == every
    assert page["before"] is None
    assert len((await service.ok("GET", "/wakes?decision=admitted"))["wakes"]) == 1
    assert (await service.ok("GET", "/wakes?since=2026-01-02"))["wakes"] == []
    assert len((await service.ok("GET", "/wakes?sender=ann", token=ann))["wakes"]) == 1
    assert (await service.ok("GET", "/wakes", token=ann))["wakes"] == []
    assert (await service.call("GET", "/wakes?agent=bob", token=bob)).status == 403
    assert (await service.call("GET", "/wakes?sender=ann&agent=bob", token=bob)).status == 403
    assert (await service.call("GET", "/wakes?before=wak_nowhere")).status == 422
    assert "trace" not in every[0]
    traced = (await service.ok("GET", "/wakes?trace=true"))["wakes"]
    assert traced == [await service.ok("GET", f"/wakes/{each['id']}") for each in every]
    assert [{**each, "trace": None} for each in traced] == [{**each, "trace": None} for each in every]
    assert (await service.call("GET", "/wakes?decision=maybe")).status == 422


@pytest.mark.spec("WAKE-71")
async def test_the_matrix_counts_who_woke_whom(service: Service, ann: str) -> None:
    for sender in (ann, ann):
        await service.ok("POST", "/wakes", WAKE, token=sender)
    await service.ok("POST", "/wakes", WAKE)
    pairs = (await service.ok("GET", "/wakes/matrix"))["pairs"]
    assert pairs == [
        {"from": "ann", "to": "bob", "decisions": {"admitted": 1, "deferred": 1}, "total": 2},
        {"from": "operator", "to": "bob", "decisions": {"deferred": 1}, "total": 1},
    ]
    assert (await service.ok("GET", "/wakes/matrix?since=2026-01-02"))["pairs"] == []
    for until in ("0001-01-01", "1970-01-01", "2026-01-01"):
        assert (await service.ok("GET", f"/wakes/matrix?until={until}"))["pairs"] == []


@pytest.mark.spec("WAKE-60", "WAKE-71")
async def test_a_chain_is_shown_as_the_tree_that_grew_from_its_first_message(service: Service, ann: str) -> None:
    carl = await service.agent("carl", sleep_events=["agent_started"])
    bob = (await service.ok("POST", "/sessions/default/agents/bob/token"))["token"]
    first = await service.ok("POST", "/wakes", WAKE)
    second = await service.ok("POST", "/wakes", {**WAKE, "to": "carl", "message": "look"}, token=bob)
    said = await service.ok("POST", "/messages", {"to": "bob", "content": "x" * 600}, token=carl)
    assert {first["root"], second["root"], said["root"]} == {first["root"]}
    chain = await service.ok("GET", f"/chains/{first['root']}")
    assert (chain["wakes"], chain["pulses"], chain["messages"], chain["depth"]) == (2, 2, 3, 2)
    kinds = [(node["kind"], node["agent"], node["depth"]) for node in chain["nodes"]]
    assert kinds == [
        ("message", "operator", 0), ("wake", "bob", 1), ("pulse", "bob", 1), ("message", "bob", 1), ("wake", "carl", 2),
        ("pulse", "carl", 2), ("message", "carl", 2),
    ]  # fmt: skip
    parents = [node["parent"] for node in chain["nodes"]]
    assert parents == [None, *(node["id"] for node in chain["nodes"][:-1])]
    assert len(chain["nodes"][-1]["detail"]) == 501
    assert (await service.call("GET", "/chains/nowhere")).code == "not_found"


@pytest.mark.spec("WAKE-70")
async def test_the_stats_have_both_spellings_and_count_from_the_ledger(service: Service, ann: str) -> None:
    await service.ok("POST", "/wakes", WAKE, token=ann)
    service.clock.advance(90)
    await service.ok("POST", "/wakes", WAKE, token=ann)
    stats = await service.ok("GET", "/agents/bob/wake-stats")
    assert stats == {
        "agent": "bob", "wakes_today": 1, "max_wakes_per_day": 12, "cooldown_seconds": 300,
        "last_wake_time": 1_767_225_600_000, "max_daily_session_minutes": 120, "date": "2026-01-01", "timezone": "UTC",
        "resets_at": "2026-01-02T00:00:00Z", "cooldown_remaining_seconds": 210, "session_minutes_today": 1.5,
        "per_source": {"ann": 1}, "refused_today": {}, "deferred": 1, "active_pulses": 1,
    }  # fmt: skip
    camel = await service.ok("GET", "//v1/agents/bob/wake-stats")
    assert set(camel) == {
        "agent", "wakesToday", "maxWakesPerDay", "cooldownSeconds", "lastWakeTime", "maxDailySessionMinutes", "date",
        "timezone", "resetsAt", "cooldownRemainingSeconds", "sessionMinutesToday", "perSource", "refusedToday",
        "deferred", "activePulses",
    }  # fmt: skip
    assert list(camel.values()) == list(stats.values())
    for path in ("//v1/agents/bobb/wake-stats", "/agents/bobb/wake-stats"):
        answer = await service.call("GET", path)
        assert (answer.status, "did you mean 'bob'" in answer.body["detail"]) == (404, True)


@pytest.mark.spec("WAKE-15", "WAKE-70")
async def test_the_day_of_the_stats_is_that_of_the_agents_zone(service: Service, ann: str) -> None:
    await service.ok("PATCH", "/agents/bob/coordination", {"zone": "America/New_York"})
    stats = await service.ok("GET", "/agents/bob/wake-stats")
    assert (stats["date"], stats["timezone"], stats["resets_at"]) == (
        "2025-12-31", "America/New_York", "2026-01-01T05:00:00Z",
    )  # fmt: skip


@pytest.mark.spec("WAKE-55", "WAKE-07", "WAKE-10")
async def test_no_door_opens_a_gate_while_the_server_stops_and_what_is_not_guarded_counts_against_nobody(
    service: Service,
) -> None:
    ann = await service.agent("ann")
    await service.agent("bob", sleep_events=["agent_started"], wake_events=["mentioned"])
    await service.ok("POST", "/sessions/default/threads", {"name": "t", "participants": ["ann", "bob"]})
    await limit(service, "bob", max_wakes_per_day=0)
    service.parts.wake.requests.drain()
    for path, body in (
        ("/sessions/default/agents/bob/sleeping", {"sleeping": False}),
        ("/sessions/default/sleeping", {"sleeping": False}),
    ):
        answer = await service.call("PUT", path, body)
        assert (answer.status, answer.code, "Retry-After" in answer.headers) == (503, "ended", True)
    await service.ok("PUT", "/sessions/default/agents/ann/sleeping", {"sleeping": True})
    mention = {"content": "please", "mentions": ["bob"]}
    await service.ok("POST", "/sessions/default/threads/t/messages", mention, token=ann)
    assert await service.asleep("bob")
    assert await unread(service) == ["please"]
    (wake,) = (await service.ok("GET", "/wakes"))["wakes"]
    assert (wake["source"], wake["from"], wake["decision"], wake["rule"]) == ("thread", "ann", "deferred", "draining")
    assert (await service.ok("GET", "/agents/bob/wake-stats"))["per_source"] == {}
    async with service.parts.store.begin_read() as tx:
        (row,) = await tx.wakes.find_all()
    assert row.sender_id is None


@pytest.mark.spec("WAKE-07")
async def test_a_mention_passes_the_guardrails_only_where_the_agents_coordination_says_so(service: Service) -> None:
    ann = await service.agent("ann")
    await service.agent("bob", sleep_events=["agent_started"], wake_events=["mentioned"])
    await service.ok("POST", "/sessions/default/threads", {"name": "t", "participants": ["ann", "bob"]})
    await limit(service, "bob", max_wakes_per_day=0)
    mention = {"content": "please", "mentions": ["bob"]}
    for guarded in (False, True):
        await sleep(service)
        await service.ok("PATCH", "/agents/bob/coordination", {"guard_thread_events": guarded})
        await service.ok("POST", "/sessions/default/threads/t/messages", mention, token=ann)
        assert await service.asleep("bob") is guarded
    wakes = (await service.ok("GET", "/wakes"))["wakes"]
    assert [(each["source"], each["from"], each["decision"], each["rule"]) for each in wakes] == [
        ("thread", "ann", "refused", "max_wakes_per_day"), ("thread", "ann", "admitted", None),
    ]  # fmt: skip
    assert await unread(service) == ["please", "please"]
