"""What REST says to bad requests."""

import gzip
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
from fastapi.routing import APIRoute

from circadia.api.app import Api
from circadia.gateway.model_call.hold import HoldView
from tests.api.service import ADMIN, METRICS, Service, serving

STATE = "/sessions/default/agents/ann/sleeping"


async def test_an_error_is_a_problem_of_rfc_9457(service: Service) -> None:
    answer = await service.call("GET", "/sessions/nowhere")
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.body == {
        "type": "urn:circadia:error:not_found",
        "title": "Not found",
        "status": 404,
        "detail": "no session 'nowhere'; there are 'default'",
        "instance": "/api/v1/sessions/nowhere",
        "code": "not_found",
    }


async def test_nothing_on_the_way_may_keep_an_answer(service: Service) -> None:
    for path, token in (
        ("/sessions", ADMIN),
        ("/sessions/nowhere", ADMIN),
        ("/sessions", None),
        ("/events?limit=1", ADMIN),
    ):
        headers = (await service.call("GET", path, token=token)).headers
        assert [value for name, value in headers.items() if name.lower() == "cache-control"] == ["no-store"]


@pytest.mark.spec("GATE-07")
@pytest.mark.parametrize("path", ["/sessions", "/nothing", "//api/openapi.json", "//anything"])
async def test_without_a_good_token_no_door_opens_and_nothing_is_told(service: Service, path: str) -> None:
    for token in (None, "wrong"):
        answer = await service.call("GET", path, token=token)
        assert (answer.status, answer.code) == (401, "unauthenticated")
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    bad = await service.call("PUT", STATE, data=b"{", token=None)
    assert bad.status == 401


async def test_a_body_that_is_no_text_is_told_what_it_should_be(service: Service) -> None:
    told = await service.call("PUT", STATE, data=gzip.compress(b'{"sleeping": true}'))
    assert (told.status, told.code) == (422, "invalid_request")
    assert "in UTF-8 and not compressed" in told.body["detail"]


async def test_the_metrics_token_opens_nothing_here(service: Service) -> None:
    for path in ("/sessions", "//api/openapi.json", "/nothing"):
        assert (await service.call("GET", path, token=METRICS)).status == 403


@pytest.mark.parametrize(
    ("path", "body"), [("/banks/team/import", None), ("/agents/ann/pulses", {"timeout_seconds": 5e-324})]
)
async def test_an_empty_import_and_a_pulse_of_no_time_are_refused(service: Service, path: str, body: object) -> None:
    assert (await service.call("POST", path, body)).status == 422


async def test_an_unknown_path_is_not_found(service: Service) -> None:
    for path in ("/nothing", "/sessions/", "//", "//api/v1", "/sessions/a/b/c/d", "/sessions/%00", "/sessions/%ff"):
        assert (await service.call("GET", path)).status == 404


async def test_a_wrong_method_is_told_with_the_right_ones(service: Service) -> None:
    answer = await service.call("PATCH", "/sessions/default")
    assert (answer.status, answer.code, answer.headers["Allow"]) == (405, "method_not_allowed", "DELETE, GET")
    assert (await service.call("DELETE", STATE)).headers["Allow"] == "GET, POST, PUT"
    # `DELETE /banks/{bank}/answers/{answer}` is not for the statistics.
    assert (await service.call("POST", "/banks/any/answers/stats")).headers["Allow"] == "GET"


AGENTS = "/sessions/default/agents"
THREADS = "/sessions/default/threads"
UNKNOWN: list[tuple[str, str, dict[str, object], str]] = [
    ("PUT", STATE, {"sleepin": True}, "unknown key 'sleepin'; did you mean 'sleeping'?"),
    ("POST", "/sessions", {"agent": []}, "unknown key 'agent'; did you mean 'agents'?"),
    ("POST", "/sessions", {"agents": [{"name": "a", "wake_event": []}]}, "did you mean 'wake_events'?"),
    ("POST", "/sessions", {"agents": [{"name": "a", "policy": {"models_": []}}]}, "did you mean 'models'?"),
    ("POST", "/sessions/default/agents", {"name": "a", "xyz": 1}, "known keys: abort_streams,"),
    ("POST", "/sessions/default/agents", {"name": "a", "wakeEvents": [], "wake_events": []}, "the same key"),
    ("POST", "/sessions/default/threads", {"name": "t", "participant": []}, "did you mean 'participants'?"),
    ("POST", "/sessions/default/threads/t/messages", {"content": "c", "sender": "user"}, "known keys: content,"),
]


@pytest.mark.parametrize(("method", "path", "body", "said"), UNKNOWN)
async def test_an_unknown_key_is_told_with_the_nearest_known_one(
    service: Service, method: str, path: str, body: dict[str, object], said: str
) -> None:
    answer = await service.call(method, path, body)
    assert (answer.status, answer.code) == (422, "invalid_request")
    assert said in answer.body["detail"]
    assert answer.body["errors"][0]["message"] in answer.body["detail"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/sessions", {"agents": [1] * 150_000}),
        ("/sessions", {"agents": [{"name": "a", "wake_events": [1] * 150_000}]}),
        (AGENTS, {"name": "a", "may_wake": [1] * 150_000}),
        (AGENTS, {str(number): number for number in range(50_000)}),
        (AGENTS, {"x" * 500_000: 1}),
        (f"{THREADS}/t/messages", {"content": "hello", "mentions": [1] * 150_000}),
    ],
    ids=["agents", "events", "reach", "keys", "key", "mentions"],
)
async def test_a_body_full_of_mistakes_costs_one_short_answer(
    service: Service, path: str, body: dict[str, object]
) -> None:
    answer = await service.call("POST", path, body)
    assert answer.status == 422
    assert len(str(answer.body)) < 5_000


async def test_each_wrong_value_is_told_with_its_path(service: Service) -> None:
    agents = [{"name": "a"}, {"name": 1, "wake_events": ["mentioned", "x"]}]
    answer = await service.call("POST", "/sessions", {"agents": agents, "name": []})
    paths = {error["path"] for error in answer.body["errors"]}
    assert paths == {"body.name", "body.agents.1.name", "body.agents.1.wake_events.1"}


@pytest.mark.parametrize("query", ["after=x", "after=-1", "after=99999999999999999999", "limit=0", "type=nap"])
async def test_a_wrong_query_is_told(service: Service, query: str) -> None:
    for path in ("/events", "/events/stream"):
        if query.startswith("limit") and path.endswith("stream"):
            continue
        answer = await service.call("GET", f"{path}?{query}")
        assert (answer.status, answer.body["errors"][0]["path"].split(".")[0]) == (422, "query")


NUL_BODIES: list[tuple[str, str, dict[str, object]]] = [
    ("POST", "/sessions/default/threads", {"name": "a\0b", "participants": []}),
    ("POST", "/sessions/default/agents", {"name": "cid", "description": "\0"}),
    ("PATCH", "/sessions/default/agents/ann", {"description": "\\\0"}),
    ("POST", "/messages", {"to": "ann", "content": "one\0two"}),
    ("POST", "/messages", {"to": "ann", "content": "x", "key": "k\0"}),
    ("POST", "/wakes", {"to": "ann", "reason": "blocker", "override": "\0"}),
    ("POST", "/banks/b/episodes", {"text": "x", "metadata": {"a": [{"\0": 1}]}}),
    ("PUT", "/agents/ann/schedule", {"routines": [{"name": "r", "every_seconds": 60, "instructions": "a\0"}]}),
]


@pytest.mark.spec("GATE-72")
@pytest.mark.parametrize(("method", "path", "body"), NUL_BODIES)
async def test_a_nul_is_refused_whatever_the_database(
    service: Service, method: str, path: str, body: dict[str, object]
) -> None:
    await service.call("POST", "/sessions/default/agents", {"name": "ann"})
    answer = await service.call(method, path, body)
    assert (answer.status, answer.code) == (422, "invalid_request")
    assert "NUL" in answer.body["detail"]
    for query in ("/agents/ann/inbox?q=a%00b", "/wakes?agent=%00"):
        assert "NUL" in (await service.call("GET", query)).body["detail"]
    assert (await service.call("GET", "/chains/%00")).status == 404


async def test_text_about_a_nul_is_text(service: Service) -> None:
    await service.call("POST", "/sessions/default/agents", {"name": "ann"})
    said = "write \\u0000, or \\\\u0000, not u0000"
    assert (await service.call("POST", "/messages", {"to": "ann", "content": said})).status == 201
    (kept,) = (await service.call("GET", "/agents/ann/inbox")).body["messages"]
    assert kept["content"] == said


async def test_a_body_over_the_limit_is_refused_while_it_is_read(service: Service) -> None:
    told = await service.call("PUT", STATE, data=b"x" * 5_000_000)
    assert (told.status, told.code) == (413, "too_large")
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 200_000_000:
            sent += 65_536
            yield b" " * 65_536

    headers = {"Authorization": "Bearer operator-token-of-the-tests"}
    async with service.http.put(f"{service.url}/api/v1{STATE}", data=endless(), headers=headers) as answer:
        assert answer.status == 413
    assert sent < 100_000_000
    assert (await service.call("GET", "/sessions")).status == 200


@pytest.mark.parametrize(("over", "status"), [(0, 200), (1, 413)])
async def test_the_limit_of_the_settings_is_counted_exactly(tmp_path: Path, over: int, status: int) -> None:
    body = b'{"sleeping": true}'
    async with serving(tmp_path, max_api_body_bytes=len(body)) as service:
        await service.agent("ann")
        assert (await service.call("PUT", STATE, data=body + b" " * over)).status == status


async def test_a_database_that_is_away_is_told_to_come_back_later(service: Service) -> None:
    await service.parts.store.close()
    answer = await service.call("GET", "/sessions")
    assert (answer.status, answer.code, int(answer.headers["Retry-After"]) >= 1) == (503, "storage_unavailable", True)


async def test_what_nobody_foresaw_is_logged_and_tells_nothing(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    service.held.views = cast("list[HoldView]", [None])
    with caplog.at_level(logging.ERROR, "circadia.api.guard"):
        answer = await service.call("GET", "/holds")
    assert (answer.status, answer.code) == (500, "internal_error")
    assert "NoneType" not in str(answer.body)
    assert "AttributeError" in caplog.text


@pytest.mark.spec("GATE-30")
async def test_a_query_parameter_that_an_endpoint_does_not_know_is_refused_and_nothing_is_done(
    service: Service,
) -> None:
    await service.agent("ann")
    routine = {"name": "r", "instructions": "do", "every_seconds": 3600}
    answer = await service.call("PUT", "/agents/ann/schedule?dryrun=true", {"routines": [routine]})
    assert (answer.status, answer.code) == (422, "invalid_request")
    assert "no query parameter 'dryrun' here; did you mean 'dry_run'" in answer.body["detail"]
    assert (await service.ok("GET", "/agents/ann/schedule"))["routines"] == []
    await service.ok("PUT", "/agents/ann/schedule?dry_run=true", {"routines": [routine]})
    assert (await service.ok("GET", "/agents/ann/schedule"))["routines"] == []


def test_many_applications_of_one_process_share_their_endpoints() -> None:
    """Each wrapped them once more, until a request met the limit of recursion in the 480th."""
    first, last = ([route.app for route in Api().routes if isinstance(route, APIRoute)] for _ in range(2))
    assert len(first) > 100
    assert all(one is other for one, other in zip(first, last, strict=True))
