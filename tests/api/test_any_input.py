"""No body, path or query makes REST fail: each is answered, or is the caller's mistake."""

import asyncio
import contextlib
import json
import re
from collections.abc import Generator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.service import Service, serving
from tests.fixtures.documented import DOCUMENT, served_operations

Json = Any
Operation = tuple[str, str]

GOOD = {200, 201, 202, 204}
MISTAKES = {403, 404, 405, 409, 413, 422}
OPERATIONS = sorted(served_operations(but=("/api/v1/events/stream", "/api/openapi.json")))
WRITES = [(method, path) for method, path in OPERATIONS if method in {"POST", "PUT", "PATCH"}]
KEYS = sorted(
    {key for schema in DOCUMENT["components"]["schemas"].values() for key in schema.get("properties", {})}
    - {"wait_seconds"}  # nothing works here that could end what is waited for
    | {"sleepEvents", "wakeEvents"}
)

QUERIES = sorted(
    {
        parameter["name"]
        for item in DOCUMENT["paths"].values()
        for operation in item.values()
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query"
    }
)

NAMES = st.sampled_from(["ann", "bob", "default", "team", "topic", "lead", "nobody", "", "operator", "team:bob", "*"])
WORDS = st.sampled_from(["mentioned", "agent_started", "forward", "all-but [ann]", "2026-01-01", "\x00", "\ud800", "'"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), NAMES, WORDS, st.text(max_size=20), st.just("a" * 300)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(), inner, max_size=5),
    max_leaves=15,
)


def shaped(schema: Mapping[str, Any], depth: int = 0) -> st.SearchStrategy[Json]:
    """Return values that have the schema's shape, so that they get past the first checks."""
    if "$ref" in schema:
        return shaped(DOCUMENT["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]], depth)
    if "anyOf" in schema:
        return st.one_of([shaped(each, depth) for each in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object" if "properties" in schema:
            fields = {key: shaped(each, depth + 1) for key, each in schema["properties"].items()}
            for wait in {"wait_seconds", "timeout_seconds"}.intersection(
                fields
            ):  # nothing here ends what is waited for
                fields[wait] = st.sampled_from([0, -1, "x", None])
            needed = [*schema.get("required", ()), "timeout_seconds"]  # some wait if it is not said
            required = {key: fields.pop(key) for key in needed if key in fields}
            return st.fixed_dictionaries(required, optional=fields)
        case "array":
            return st.lists(shaped(schema["items"], depth + 1), max_size=3)
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers(min_value=0, max_value=9) | st.integers(min_value=-1, max_value=2**64)
        case "number":
            return st.floats(min_value=1, max_value=9) | st.floats()
        case "string":
            return NAMES | WORDS | st.text(max_size=10)
        case _:
            return VALUES


def body_of(method: str, path: str) -> st.SearchStrategy[Json]:
    operation = DOCUMENT["paths"].get(path, {}).get(method.lower(), {})
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" not in content:
        return VALUES
    return shaped(content["application/json"]["schema"]) | VALUES


OPERATION_AND_BODY = st.sampled_from(WRITES).flatmap(lambda each: st.tuples(st.just(each), body_of(*each)))


class Running:
    """A service, and the loop that it runs in while hypothesis tries its examples."""

    def __init__(self, runner: asyncio.Runner, service: Service) -> None:
        self._runner = runner
        self._service = service

    def answers(self, tries: Sequence[tuple[str, str, bytes | None]]) -> None:
        """Send all; each is answered, or refused as the caller's mistake."""
        self._runner.run(self._answers(tries))

    async def _answers(self, tries: Sequence[tuple[str, str, bytes | None]]) -> None:
        await prepared(self._service)
        for method, path, data in tries:
            answer = await self._service.call(method, f"/{path}", data=data)
            assert answer.status in GOOD | MISTAKES, (method, path, data, answer)
            assert answer.status in GOOD or answer.body["detail"]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()
        service = runner.run(stack.enter_async_context(serving(tmp_path_factory.mktemp("any"))))
        yield Running(runner, service)
        runner.run(stack.aclose())


async def prepared(service: Service) -> None:
    """Make again what the tries before have closed or deleted."""
    agents = [{"name": "ann"}, {"name": "bob"}]
    await service.call("POST", "/banks", {"name": "bank"})
    await service.call("POST", "/sessions", {"name": "team", "agents": agents})
    for session in ("default", "team"):
        for agent in agents:
            await service.call("POST", f"/sessions/{session}/agents", agent)
        threads = (await service.ok("GET", f"/sessions/{session}/threads?closed=false"))["threads"]
        if not any(thread["name"] == "topic" for thread in threads):
            body = {"name": "topic", "participants": ["ann", "bob"]}
            await service.ok("POST", f"/sessions/{session}/threads", body)


Place = tuple[str, str, str]


def filled(path: str, names: Place) -> str:
    """Return the path with its parameters filled in."""
    session, agent, other = (quote(name, safe="", errors="surrogatepass") for name in names)
    keys = {"session": session, "agent": agent, "bank": "bank", "evidence": agent}
    return re.sub(r"\{(.*?)\}", lambda match: keys.get(match[1], other), path)


FEW = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
PLACES = st.tuples(
    st.sampled_from(["default", "team"]), st.sampled_from(["ann", "bob"]), st.sampled_from(["topic", "other"])
)


@FEW
@given(st.lists(st.tuples(OPERATION_AND_BODY, PLACES), min_size=10, max_size=25))
def test_no_body_makes_it_fail(running: Running, tries: list[tuple[tuple[Operation, Json], Place]]) -> None:
    running.answers(
        [(method, filled(path, names), json.dumps(body).encode()) for ((method, path), body), names in tries]
    )


@FEW
@given(st.lists(st.tuples(st.sampled_from(WRITES), PLACES, st.binary(max_size=60)), min_size=10, max_size=25))
def test_no_bytes_make_it_fail(running: Running, tries: list[tuple[Operation, Place, bytes]]) -> None:
    running.answers([(method, filled(path, names), data) for (method, path), names, data in tries])


@FEW
@given(
    st.lists(
        st.tuples(
            st.sampled_from(OPERATIONS),
            st.tuples(*[st.text(min_size=1, max_size=12) | NAMES.filter(bool)] * 3),
            st.dictionaries(
                st.sampled_from(QUERIES),
                st.text(max_size=12) | st.integers().map(str) | st.datetimes().map(str),
                max_size=4,
            ),
        ),
        min_size=10,
        max_size=25,
    )
)
def test_no_path_and_no_query_makes_it_fail(
    running: Running, tries: list[tuple[Operation, Place, dict[str, str]]]
) -> None:
    sent: list[tuple[str, str, bytes | None]] = []
    for (method, path), names, query in tries:
        if path.startswith("/api/v1/sessions/{session}") and method == "DELETE":
            continue
        asked = "&".join(f"{key}={quote(value, safe='', errors='surrogatepass')}" for key, value in query.items())
        sent.append((method, f"{filled(path, names)}?{asked}", None))
    running.answers(sent)
