"""Agents over REST."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from circadia.agents.identity import Identity
from circadia.errors import Unauthenticated
from circadia.ids import hash_token
from circadia.stores.base import Tx
from tests.api.service import ADMIN, Service
from tests.watched_store import HookedStore

AGENTS = "/sessions/default/agents"


@pytest.mark.spec("GATE-02")
async def test_event_lists_are_taken_in_both_spellings(service: Service) -> None:
    sleep = ["agent_started", "last_thread_closed", "removed_from_last_thread"]
    wake = ["added_to_any_thread", "added_to_thread_first_time", "first_time_in_thread", "mentioned"]
    snake = await service.ok("POST", AGENTS, {"name": "ann", "sleep_events": sleep, "wake_events": wake})
    camel = await service.ok("POST", AGENTS, {"name": "bob", "sleepEvents": sleep, "wakeEvents": wake})
    for made in (snake, camel):
        assert (made["sleep_events"], made["wake_events"]) == (sleep, wake)


@pytest.mark.spec("GATE-02")
@pytest.mark.parametrize(
    ("key", "valid"),
    [
        ("sleep_events", ("agent_started", "removed_from_last_thread", "last_thread_closed")),
        ("wakeEvents", ("added_to_any_thread", "added_to_thread_first_time", "first_time_in_thread", "mentioned")),
    ],
)
async def test_an_unknown_event_is_refused_with_the_valid_ones(
    service: Service, key: str, valid: tuple[str, ...]
) -> None:
    answer = await service.call("POST", AGENTS, {"name": "ann", key: ["mention"]})
    assert (answer.status, answer.code) == (422, "invalid_request")
    assert all(event in answer.body["detail"] for event in valid)
    assert "'mention'" in answer.body["detail"]
    assert (await service.ok("GET", AGENTS))["agents"] == []


@pytest.mark.spec("GATE-07")
async def test_the_token_is_told_once_and_opens_the_agents_doors(service: Service) -> None:
    answer = await service.call("POST", AGENTS, {"name": "ann"})
    token = answer.body["token"]
    assert (answer.status, answer.headers["Cache-Control"]) == (201, "no-store")
    listed = (await service.ok("GET", AGENTS, token=token))["agents"]
    assert [agent["name"] for agent in listed] == ["ann"]
    assert "token" not in listed[0]
    by_key = await service.call("GET", AGENTS, token=None, headers={"x-api-key": token})
    assert by_key.status == 200


@pytest.mark.spec("GATE-07")
async def test_a_rotated_token_opens_nothing_and_the_new_one_does(service: Service) -> None:
    old = await service.agent("ann")
    assert (await service.call("GET", AGENTS, token=old)).status == 200
    answer = await service.call("POST", f"{AGENTS}/ann/token")
    assert (answer.status, answer.headers["Cache-Control"], answer.body["agent"]) == (200, "no-store", "ann")
    assert (await service.call("GET", AGENTS, token=old)).status == 401
    assert (await service.call("GET", AGENTS, token=answer.body["token"])).status == 200


@pytest.mark.spec("GATE-07")
async def test_a_disabled_agent_is_refused_until_it_is_enabled(service: Service) -> None:
    token = await service.agent("ann")
    assert (await service.ok("PATCH", f"{AGENTS}/ann", {"enabled": False}))["enabled"] is False
    refused = await service.call("GET", AGENTS, token=token)
    assert (refused.status, refused.code) == (403, "forbidden")
    await service.ok("PATCH", f"{AGENTS}/ann", {"enabled": True})
    assert (await service.call("GET", AGENTS, token=token)).status == 200


@pytest.mark.spec("GATE-07")
async def test_a_deleted_agent_is_gone_and_its_name_is_free(service: Service) -> None:
    token = await service.agent("ann")
    answer = await service.call("DELETE", f"{AGENTS}/ann")
    assert (answer.status, answer.body) == (204, None)
    assert (await service.call("GET", AGENTS, token=token)).status == 401
    assert (await service.call("DELETE", f"{AGENTS}/ann")).status == 404
    assert await service.agent("ann") != token


async def test_a_name_is_taken_once_and_must_be_a_name(service: Service) -> None:
    await service.agent("ann")
    twice = await service.call("POST", AGENTS, {"name": "ann"})
    assert (twice.status, twice.code) == (409, "conflict")
    for name in ("", "Ann", "-ann", "a" * 64, "a b", "ann:bob", "../ann"):
        assert (await service.call("POST", AGENTS, {"name": name})).status == 422
    for name in ("operator", "user", "circadia", "Operator"):
        refused = await service.call("POST", AGENTS, {"name": name})
        assert (refused.status, refused.code) == (422, "invalid_request")
    assert "reserved" in str((await service.call("POST", AGENTS, {"name": "operator"})).body)


async def test_policy_keys_stand_in_the_policy_or_beside_it_but_not_twice(service: Service) -> None:
    policy = {"upstreams": ["openai"], "max_usd_per_day": 2, "on_wake": "forward"}
    inside = await service.ok("POST", AGENTS, {"name": "ann", "policy": policy})
    beside = await service.ok("POST", AGENTS, {"name": "bob", **policy})
    assert inside["policy"] == beside["policy"]
    assert {key: inside["policy"][key] for key in policy} == policy
    assert inside["policy"]["mcp_servers"] == ["*"]
    twice = await service.call("POST", AGENTS, {"name": "cat", "policy": policy, "upstreams": ["*"]})
    assert (twice.status, "'upstreams'" in twice.body["detail"]) == (422, True)


@pytest.mark.parametrize(
    "policy",
    [
        {"max_calls_per_day": True}, {"max_calls_per_day": "5"}, {"max_calls_per_day": -1}, {"max_tokens_per_day": 1.5},
        {"max_calls_per_day": 2**70}, {"max_usd_per_day": "1"}, {"hold_max_seconds": 0}, {"include_usage": "yes"},
        {"on_wake": "later"}, {"upstreams": "openai"}, {"upstreams": [1]},
    ],
)  # fmt: skip
async def test_a_policy_value_that_only_looks_right_is_refused(service: Service, policy: dict[str, object]) -> None:
    assert (await service.call("POST", AGENTS, {"name": "ann", "policy": policy})).status == 422


@pytest.mark.parametrize("number", [b"1e999", b"Infinity", b"-Infinity", b"NaN"])
async def test_a_number_that_json_cannot_hold_is_refused(service: Service, number: bytes) -> None:
    body = b'{"name": "ann", "policy": {"max_usd_per_day": %s}}' % number
    assert (await service.call("POST", AGENTS, data=body)).status == 422


async def test_a_change_leaves_the_rest_as_it_is_and_null_takes_a_limit_away(service: Service) -> None:
    await service.agent("ann", description="writes", wake_events=["mentioned"], max_calls_per_day=5)
    changed = await service.ok("PATCH", f"{AGENTS}/ann", {"policy": {"models": ["gpt-4o-mini"]}})
    assert (changed["description"], changed["wake_events"]) == ("writes", ["mentioned"])
    assert (changed["policy"]["models"], changed["policy"]["max_calls_per_day"]) == (["gpt-4o-mini"], 5)
    changed = await service.ok("PATCH", f"{AGENTS}/ann", {"max_calls_per_day": None, "wakeEvents": []})
    assert (changed["policy"]["max_calls_per_day"], changed["wake_events"]) == (None, [])
    assert await service.ok("PATCH", f"{AGENTS}/ann", {}) == changed


async def test_a_change_of_policy_holds_at_once_for_a_token_in_use(service: Service) -> None:
    ann = await service.agent("ann")
    await service.agent("bob", sleep_events=["agent_started"])
    path = f"{AGENTS}/bob/sleeping"
    assert (await service.call("PUT", path, {"sleeping": False}, token=ann)).status == 403
    await service.ok("PATCH", f"{AGENTS}/ann", {"may_wake": ["bob"]})
    assert (await service.call("PUT", path, {"sleeping": False}, token=ann)).status == 200


async def test_an_agent_sees_its_own_policy_and_not_that_of_others(service: Service) -> None:
    ann = await service.agent("ann")
    await service.agent("bob")
    listed = (await service.ok("GET", AGENTS, token=ann))["agents"]
    assert [(each["name"], each["policy"] is None) for each in listed] == [("ann", False), ("bob", True)]
    assert all(each["policy"] for each in (await service.ok("GET", AGENTS))["agents"])


@pytest.mark.spec("GATE-07")
async def test_another_session_is_reached_by_an_explicit_grant_only(service: Service) -> None:
    await service.ok("POST", "/sessions", {"name": "team", "agents": [{"name": "bob"}]})
    ann = await service.agent("ann", may_wake=["team:bob"])
    path = "/sessions/team/agents/bob/sleeping"
    assert (await service.call("GET", path, token=ann)).status == 403
    assert (await service.call("PUT", path, {"sleeping": False}, token=ann)).status == 403
    hidden = await service.call("GET", "/sessions/nowhere", token=ann)
    assert (hidden.status, hidden.code) == (403, "forbidden")
    await service.ok("PATCH", f"{AGENTS}/ann", {"sessions": ["team"]})
    assert (await service.call("GET", path, token=ann)).status == 200
    assert (await service.call("PUT", path, {"sleeping": False}, token=ann)).status == 200
    assert (await service.call("PUT", path, {"sleeping": True}, token=ann)).status == 403


async def test_no_token_is_stored_or_told_in_an_event(service: Service, tmp_path: Path) -> None:
    token = await service.agent("ann")
    fresh = (await service.ok("POST", f"{AGENTS}/ann/token"))["token"]
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for secret in (token, fresh, ADMIN):
        assert secret.encode() not in kept
        assert secret not in str(await service.events())


@pytest.mark.spec("MEM-12")
@pytest.mark.parametrize("key", ["bank", "write_banks", "read_banks"])
@pytest.mark.parametrize("name", ["support-{usr}", "for-{ user }", "Team", "*"])
async def test_a_name_that_no_bank_may_have_is_refused_so_that_no_misspelt_template_is_one_bank_for_all(
    service: Service, key: str, name: str
) -> None:
    await service.ok("POST", AGENTS, {"name": "ann", "policy": {"bank": "team-{user}"}})
    value = name if key == "bank" else ["team", name]
    for answer in (
        await service.call("PATCH", f"{AGENTS}/ann", {"policy": {key: value}}),
        await service.call("POST", AGENTS, {"name": "bob", key: value}),
    ):
        assert (answer.status, answer.code) == (422, "invalid_request")
        assert repr(name) in answer.body["detail"]
    assert [each["policy"]["bank"] for each in (await service.ok("GET", AGENTS))["agents"]] == ["team-{user}"]


class PausedReadStore(HookedStore):
    """A store whose reads see what is there, and end when the test lets them."""

    def __init__(self, service: Service) -> None:
        super().__init__(service.parts.store)
        self.seen = asyncio.Event()
        self.free = asyncio.Event()

    @asynccontextmanager
    async def begin_read(self) -> AsyncGenerator[Tx]:
        async with super().begin_read() as tx:
            yield tx
            self.seen.set()
            await self.free.wait()


@pytest.mark.spec("GATE-07")
async def test_a_token_that_is_revoked_while_its_owner_is_looked_up_opens_nothing_from_then_on(
    service: Service,
) -> None:
    token = await service.agent("ann")
    store = PausedReadStore(service)
    identity = Identity(store, service.parts.signals, admin_token_hashes=[hash_token(ADMIN)])
    looking = asyncio.create_task(identity.authenticate(token))
    await store.seen.wait()
    await service.ok("POST", f"{AGENTS}/ann/token")
    store.free.set()
    assert (await looking).agent is not None, "it was valid when it was read"
    with pytest.raises(Unauthenticated):
        await identity.authenticate(token)


async def test_the_sleep_states_of_all_agents_come_in_one_list(service: Service) -> None:
    for session in ("red", "blue"):
        await service.ok("POST", "/sessions", {"name": session, "agents": [{"name": "ann"}, {"name": "bob"}]})
    await service.ok("POST", AGENTS, {"name": "cyd"})
    await service.ok("PUT", "/sessions/red/agents/bob/sleeping", {"sleeping": True})
    await service.ok("PATCH", f"{AGENTS}/cyd", {"enabled": False})
    await service.ok("DELETE", "/sessions/blue/agents/ann")
    body = await service.ok("GET", "/agents")
    states = [(row["reference"], row["sleeping"], row["enabled"], row["pulsing"]) for row in body["agents"]]
    assert states == [
        ("blue:bob", False, True, False), ("cyd", False, False, False),
        ("red:ann", False, True, False), ("red:bob", True, True, False),
    ]  # fmt: skip
    await service.ok("POST", "/agents/red:bob/pulses", {})
    some = await service.ok("GET", "/agents?agent=red:bob&agent=cyd&agent=blue:ann&agent=no:one")
    assert [(row["reference"], row["pulsing"]) for row in some["agents"]] == [("red:bob", True), ("cyd", False)]
    await service.call("DELETE", "/sessions/red")
    assert len((await service.ok("GET", "/agents?limit=1"))["agents"]) == 1
    assert (await service.ok("GET", "/agents?agent=red:ann"))["agents"] == []


@pytest.mark.spec("GATE-80")
async def test_a_change_to_what_an_agent_has_already_is_no_event(service: Service) -> None:
    await service.agent("ann", description="reads", policy={"max_calls_per_day": 5})
    for description in ("reads", "writes", "writes"):
        change = {"description": description, "policy": {"max_calls_per_day": 5}}
        assert (await service.ok("PATCH", f"{AGENTS}/ann", change))["description"] == description
    assert len(await service.events("agent_changed")) == 1
