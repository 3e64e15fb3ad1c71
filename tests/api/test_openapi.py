"""The OpenAPI document is the reference: it tells what is served, and clients are generated from it.

That answers have a status and a body of the document is checked of each request that a test sends (`check_answer`).
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

import pytest
from fastapi.routing import APIRoute
from jsonschema import Draft202012Validator

from circadia.api.app import Api
from circadia.records.event import EVENT_DATA, EventType
from tests.api.page_parts import EXAMPLES, collect_examples, event_table
from tests.api.service import Service
from tests.fixtures.documented import DOCUMENT, find_response, look_up, validate
from tests.house.tree import REFERENCE

SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]


def operations() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{method.upper()} {path}", operation)
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
    ]


async def test_the_server_serves_the_document(service: Service) -> None:
    assert await service.ok("GET", "//api/openapi.json") == DOCUMENT


def test_each_operation_says_what_it_does_and_has_a_name_of_its_own() -> None:
    ids = [operation["operationId"] for _, operation in operations()]
    assert len(ids) == len(set(ids))
    assert not [name for name, operation in operations() if not operation.get("description")]


@pytest.mark.spec("SHIP-07")
def test_each_error_status_has_the_problem_as_its_schema() -> None:
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for name, operation in operations():
        place = ("paths", name.split()[1], name.split()[0].lower())
        errors = [status for status in operation["responses"] if status >= "4"]
        assert {"401", "403", "422", "503"} <= set(errors), name
        assert all(look_up(*find_response(place, int(status)) or ())["content"] == problem for status in errors), name
    assert "HTTPValidationError" not in SCHEMAS


@pytest.mark.spec("SHIP-07")
def test_an_operation_is_in_the_document_once_though_it_is_served_at_several_paths() -> None:
    handlers = Counter(route.endpoint for route in Api().routes if isinstance(route, APIRoute))
    assert max(handlers.values()) == 8, "put and post of the sleep state, at four paths each"
    shown = Counter(route.endpoint for route in Api().routes if isinstance(route, APIRoute) and route.include_in_schema)
    assert set(shown.values()) == {1}
    assert len(operations()) == len(shown) == 149
    assert {operation["tags"][0] for _, operation in operations()} == {tag["name"] for tag in DOCUMENT["tags"]}


@pytest.mark.spec("SHIP-07")
def test_path_parameters_have_the_name_of_their_noun_and_a_description() -> None:
    parameters = [each for _, operation in operations() for each in operation.get("parameters", ())]
    described = {each["name"]: each.get("description") for each in parameters if each["in"] == "path"}
    assert {"session", "agent", "bank", "thread", "pass"} <= set(described)
    assert all(described.values())


@pytest.mark.spec("SHIP-07")
def test_each_example_and_each_default_has_the_schema_that_it_stands_beside() -> None:
    checked: Counter[str] = Counter()
    for place, schema in schemas(DOCUMENT):
        values = [*schema.get("examples", ()), *([schema["default"]] if "default" in schema else ())]
        for value in values:
            validate(value, *place)
        checked["schema"] += len(values)
    for name, operation in operations():
        place = ("paths", name.split()[1], name.split()[0].lower())
        bodies = [(*place, "requestBody", "content", "application/json")] if "requestBody" in operation else []
        answers = [(*place, "responses", min(operation["responses"]), "content", "application/json")]
        for at in [at for at in (*bodies, *answers) if "example" in (look_up_or_none(*at) or {})]:
            validate(look_up(*at)["example"], *at, "schema")
            checked["example"] += 1
    assert checked["schema"] > 150
    assert checked["example"] > 60


@pytest.mark.spec("SHIP-07")
def test_the_examples_are_those_of_the_page_which_a_server_has_answered() -> None:
    """`python -m tests.api.page_parts` brings them up to date."""
    examples = collect_examples()
    assert json.loads(EXAMPLES.read_text("utf-8")) == examples
    first_used = {"create_session", "create_agent", "wake_agent", "send_direct", "send_message", "create_bank"}
    assert first_used | {"set_sleeping", "remember", "search_bank", "list_events"} <= set(examples)


@pytest.mark.spec("SHIP-07")
def test_each_kind_of_event_has_a_schema_with_its_data_and_a_row_on_the_page() -> None:
    kinds = SCHEMAS["EventView"]["discriminator"]["mapping"]
    assert set(kinds) == set(EventType) == set(EVENT_DATA)
    assert len(SCHEMAS["EventView"]["oneOf"]) == len(kinds)
    shown = (REFERENCE / "rest.md").read_text("utf-8").splitlines()
    assert [row for row in event_table() if row not in shown] == []
    stream = DOCUMENT["paths"]["/api/v1/events/stream"]["get"]["responses"]["200"]["content"]["text/event-stream"]
    assert {"$ref": "#/components/schemas/EventView"} in stream["x-itemSchema"]["properties"]["data"]["contentSchema"][
        "anyOf"
    ]


@pytest.mark.spec("SHIP-07")
def test_a_body_whose_missing_keys_stay_unchanged_has_no_defaults_that_a_client_would_send() -> None:
    for name in ("AgentBody", "AgentChange", "PolicyBody", "BankPolicyBody"):
        assert not [key for key, schema in SCHEMAS[name]["properties"].items() if "default" in schema]


@pytest.mark.spec("SHIP-07")
def test_no_parameter_can_be_null() -> None:
    parameters = [each for _, operation in operations() for each in operation.get("parameters", ())]
    assert not [each["name"] for each in parameters if {"type": "null"} in each["schema"].get("anyOf", ())]


def test_each_key_of_each_body_and_answer_is_described() -> None:
    bare = [
        f"{name}.{key}"
        for name, schema in SCHEMAS.items()
        for key, field in schema.get("properties", {}).items()
        if not field.get("description")
    ]
    assert not bare


def test_each_query_is_described() -> None:
    bare = [
        f"{name} {parameter['name']}"
        for name, operation in operations()
        for parameter in operation.get("parameters", ())
        if parameter["in"] != "path" and not parameter.get("description")
    ]
    assert not bare


def test_no_body_takes_an_unknown_key() -> None:
    bodies = {
        schema["$ref"].rsplit("/", 1)[1]
        for _, operation in operations()
        if "requestBody" in operation
        for content in operation["requestBody"]["content"].values()
        for schema in _alternatives(content["schema"])
        if "$ref" in schema
    }
    assert bodies
    assert not [name for name in bodies if SCHEMAS[name].get("additionalProperties") is not False]


def _alternatives(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return schema.get("anyOf", [schema])


def look_up_or_none(*place: str) -> dict[str, Any] | None:
    try:
        return look_up(*place)
    except KeyError:
        return None


def schemas(part: Any, *place: str) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yield each schema with its place: all below a component, and those of parameters."""
    if isinstance(part, list):
        for number, each in enumerate(cast("list[Any]", part)):
            yield from schemas(each, *place, str(number))
    elif isinstance(part, dict):
        inner = cast("dict[str, Any]", part)
        if place[-2:-1] in {("properties",), ("schemas",)} or place[-1:] == ("schema",):
            yield place, inner
        for key, each in inner.items():
            if key not in {"example", "examples", "default"}:
                yield from schemas(each, *place, key)


@pytest.mark.spec("SHIP-07")
@pytest.mark.parametrize(
    ("body", "path"),
    [
        ("AgentBody", "/sessions/default/agents"),
        ("SessionBody", "/sessions"),
        ("BankBody", "/banks"),
        ("ThreadBody", "/sessions/default/threads"),
    ],
)
async def test_a_name_fits_its_schema_if_the_server_takes_it(service: Service, body: str, path: str) -> None:
    schema: Any = Draft202012Validator(SCHEMAS[body]["properties"]["name"])
    names = ("ann", "a-b_1", "a.b", "a" * 63, "a" * 64, "a" * 128, "a" * 200, "a" * 201, "", "Ann", "-ann", "a b")
    for name in names:
        answer = await service.call("POST", path, {"name": name})
        assert (answer.status == 201) == schema.is_valid(name), (name, answer.body)
