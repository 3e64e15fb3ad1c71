"""What the people who run a fleet rely on: health, metrics, stalls, both databases, agents from the file."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from circadia.errors import ConfigError
from circadia.settings import settings_from
from tests.fixtures.leap import Leap
from tests.full_disk import no_room
from tests.interaction.live import ADMIN, CHAT, KEY, Live, live


async def text(at: Live, path: str, token: str | None = None) -> tuple[int, str]:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with at.http.get(at.url + path, headers=headers) as response:
        return response.status, await response.text()


@pytest.mark.setting("server.metrics_token_env")
@pytest.mark.spec("GATE-41", "GATE-35")
async def test_health_needs_no_token_and_metrics_need_the_operators_or_their_own(tmp_path: Path) -> None:
    environment = {"METRICS": "token-that-opens-metrics-only"}
    async with live(tmp_path, environment=environment, server={"metrics_token_env": "METRICS"}) as at:
        token = await at.agent()
        assert (await text(at, "/healthz"))[0] == 200
        assert (await text(at, "/readyz"))[0] == 200
        for given, status in ((None, 401), (token, 403), (environment["METRICS"], 200), (ADMIN, 200)):
            assert (await text(at, "/metrics", given))[0] == status
        for path in ("/api/v1/sessions", "/api/v1/holds"):
            assert (await text(at, path, environment["METRICS"]))[0] == 403
        async with at.call(environment["METRICS"]) as response:
            assert response.status == 403


async def test_a_server_whose_disk_is_full_is_not_ready_until_there_is_room(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        await at.agent()
        with no_room():
            body = {"sleeping": True}
            status, told = await at.rest("PUT", "/sessions/default/agents/ann/sleeping", body)
            assert (status, told["code"]) == (503, "storage_unavailable")
            for _ in range(2):
                status, said = await text(at, "/readyz")
                assert (status, "its disk accepts no more writes; check its" in said) == (503, True)
                assert "disk I/O error" not in said, "what the driver says is for those who show a token"
            assert (await text(at, "/healthz"))[0] == 200
        assert (await text(at, "/readyz")) == (200, "ready\n")


async def test_a_server_is_not_ready_while_a_message_does_not_fit_on_its_disk_though_a_byte_would(
    tmp_path: Path,
) -> None:
    async with live(tmp_path) as at:
        await at.rest("POST", "/sessions", {"name": "team", "agents": [{"name": "ann"}]})
        thread = (await at.rest("POST", "/sessions/team/threads", {"name": "talk", "participants": ["ann"]}))[1]["id"]
        body = {"from": "ann", "content": "x" * 10_000}
        path = f"/sessions/team/threads/{thread}/messages"
        assert (await at.rest("POST", path, body))[0] == 201
        log = next(tmp_path.rglob("*.db-wal"))
        with no_room(log.stat().st_size + 2 * 4096):
            for _ in range(3):
                assert (await at.rest("POST", path, body))[0] == 503
                assert [(await text(at, "/readyz"))[0] for _ in range(3)] == [503] * 3
        assert (await text(at, "/readyz")) == (200, "ready\n")
        assert (await at.rest("POST", path, body))[0] == 201


async def test_a_server_that_nobody_writes_to_is_not_ready_while_its_disk_is_full(tmp_path: Path, leap: Leap) -> None:
    async with live(tmp_path) as at:
        await at.agent()
        leap(10)
        with no_room():
            assert (await text(at, "/readyz"))[0] == 503
        assert (await text(at, "/readyz")) == (200, "ready\n")


@pytest.mark.spec("GATE-64", "GATE-80")
async def test_metrics_count_calls_tokens_and_holds(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        await at.sleeping(True)

        async def call() -> None:
            async with at.call(token) as response:
                await response.read()

        pending = asyncio.create_task(call())
        await at.held(1)
        assert "circadia_held_calls 1.0" in (await text(at, "/metrics", ADMIN))[1]
        await at.sleeping(False)
        await pending
        seen = (await text(at, "/metrics", ADMIN))[1]
        memory, files = (
            re.search(rf"^process_{name} (\S+)$", seen, re.MULTILINE) for name in ("resident_memory_bytes", "open_fds")
        )
        assert memory is not None
        assert float(memory[1]) > 2**20
        assert files is not None
        assert float(files[1]) >= 3
        assert "circadia_held_calls 0.0" in seen
        assert 'circadia_model_calls_total{model="gpt-4o-mini",status="done",upstream="openai"} 1.0' in seen
        assert 'circadia_hold_seconds_count{door="model",outcome="admitted"} 1.0' in seen
        assert token not in seen


@pytest.mark.spec("GATE-64")
async def test_made_up_model_names_take_no_series_of_known_models_and_of_those_that_answered(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()

        async def call(model: str, status: int = 200) -> None:
            if status != 200:
                at.upstream.next(status=status, body={"error": {"message": "no"}})
            async with at.call(token, body={**CHAT, "model": model}) as response:
                assert response.status == status

        await call("house-1")
        for number in range(1_000):
            await call(f"made-up-{number}", status=404)
        await call("claude-sonnet-4-5", status=404)
        await call("house-1")
        await call("house-2")
        await at.server.journal.flush()
        _, metrics = await text(at, "/metrics", ADMIN)
    counts = dict(re.findall(r'circadia_model_calls_total\{model="([^"]*)",.*\} (\S+)', metrics))
    assert {name: float(count) for name, count in counts.items()} == {
        "house-1": 2, "other": 1_000, "claude-sonnet-4-5": 1, "house-2": 1,
    }  # fmt: skip


@pytest.mark.spec("GATE-73")
async def test_a_session_in_which_all_sleep_and_nobody_acts_is_told_as_stalled_once(tmp_path: Path) -> None:
    async with live(tmp_path, defaults={"stall_seconds": 0.1}) as at:
        graph = {"name": "team", "agents": [{"name": "ann"}, {"name": "bob"}]}
        await at.rest("POST", "/sessions", graph)
        await at.rest("PUT", "/sessions/team/agents/ann/sleeping", {"sleeping": True})

        async def stalls(count: int) -> None:
            async with asyncio.timeout(60):
                while len(await at.events("session_stalled")) < count:
                    await asyncio.sleep(0.05)

        await at.rest("PUT", "/sessions/team/agents/bob/sleeping", {"sleeping": True})
        await stalls(1)
        await at.rest("PUT", "/sessions/team/agents/bob/sleeping", {"sleeping": False})
        await at.rest("PUT", "/sessions/team/agents/bob/sleeping", {"sleeping": True})
        await stalls(2)
        told = await at.events("session_stalled")
        assert [event["session"] for event in told] == ["team", "team"]


@pytest.mark.spec("GATE-05", "GATE-42", "GATE-66")
async def test_the_same_server_works_on_postgresql(tmp_path: Path, postgres_url: str) -> None:
    server = {"database_url": postgres_url}
    async with live(tmp_path, server=server) as at:
        token = await at.agent(max_calls_per_day=3)
        await at.sleeping(True)

        async def call() -> int:
            async with at.call(token) as response:
                await response.read()
                return response.status

        pending = [asyncio.create_task(call()) for _ in range(3)]
        await at.held(3)
        await at.sleeping(False)
        assert await asyncio.gather(*pending) == [200] * 3
        assert await call() == 429
        await at.sleeping(True)
    async with live(tmp_path, server=server) as at:
        state = (await at.rest("GET", "/sessions/default/agents/ann/sleeping"))[1]
        assert state["sleeping"] is True
        assert (await at.usage())[0]["calls"] == 3


@pytest.mark.setting("agents.token_env", "agents.sleep_events", "defaults.on_wake")
async def test_agents_of_the_file_are_made_and_changed_and_keep_their_sleep(tmp_path: Path) -> None:
    agents = {"ann": {"token_env": "ANN", "sleep_events": ["agent_started"], "on_wake": "forward"}}
    environment = {"ANN": "token-of-ann-from-the-environment"}
    async with live(tmp_path, agents=agents, environment=environment) as at:
        await at.sleeping(False)
    changed = {"ann": {**agents["ann"], "models": ["other"]}}
    async with live(tmp_path, agents=changed, environment=environment) as at:
        async with at.call(environment["ANN"]) as response:
            assert response.status == 403, "the new model list is in force"
        state = (await at.rest("GET", "/sessions/default/agents/ann/sleeping"))[1]
        assert (state["sleeping"], state["generation"]) == (False, 1), "agent_started sets the first state only"


async def test_a_variable_that_is_not_set_stops_the_start_with_its_place_in_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"upstreams\.openai: the environment has no 'MISSING'"):
        async with live(tmp_path, upstream={"key_env": "MISSING"}):
            pass


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"upstrems": {}}, "unknown key 'upstrems'; did you mean 'upstreams'"),
        ({"agents": {"a": {"on_wak": "x"}}}, "unknown key 'agents.a.on_wak'; did you mean 'on_wake'"),
        ({"upstreams": {"o": {"base_url": "ftp://x"}}}, "must start with http"),
        ({"mcp_servers": {"m": {}}}, "either `url` or `command`"),
        ({"agents": {"Big Name": {}}}, "a name must match"),
        ({"server": {"port": 70000}}, "server.port"),
        ({"defaults": {"max_calls_per_day": -1}}, "defaults.max_calls_per_day"),
    ],
)
def test_a_wrong_setting_is_named_with_its_path(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_from(given)
    assert message in caught.value.message


@pytest.mark.spec("GATE-60")
async def test_a_websocket_is_refused_clearly(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        headers = {
            "authorization": f"Bearer {token}", "connection": "upgrade", "upgrade": "websocket",
            "sec-websocket-version": "13", "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        }  # fmt: skip
        async with at.http.get(f"{at.url}/llm/openai/v1/realtime", headers=headers) as response:
            assert response.status == 403
            assert "realtime" in json.dumps(await response.json()).lower()


@pytest.mark.spec("GATE-62")
async def test_the_openapi_document_and_the_events_hold_no_secret(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        async with at.call(token, body=CHAT) as response:
            await response.read()
        document = (await text(at, "/api/openapi.json", ADMIN))[1]
        for secret in (KEY, token, ADMIN):
            assert secret not in document
            assert secret not in json.dumps(await at.events())


@pytest.mark.spec("GATE-80", "WAKE-16")
async def test_only_agents_that_the_file_changes_have_changed(tmp_path: Path) -> None:
    changed: list[list[str]] = []
    for bob in ({}, {}, {"description": "reads"}):
        agents = {"ann": {"token_env": "ANN"}, "bob": {"token_env": "BOB", **bob}}
        environment = {name: f"token-of-{name}-in-the-tests-0123456789" for name in ("ANN", "BOB")}
        async with live(tmp_path, agents=agents, environment=environment) as at:
            changed.append([event["agent"] for event in await at.events("agent_changed")])
    assert changed == [[], [], ["bob"]]
