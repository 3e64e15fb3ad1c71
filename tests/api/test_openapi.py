"""The OpenAPI document is the reference: it tells what is served."""

from typing import Any

from circadia.api.app import openapi_document
from tests.api.service import Service

DOCUMENT: dict[str, Any] = openapi_document()
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


def test_each_operation_tells_its_errors_as_problems() -> None:
    for name, operation in operations():
        assert list(operation["responses"]["default"]["content"]) == ["application/problem+json"], name
    assert "HTTPValidationError" not in SCHEMAS


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
