"""The OpenAPI document: FastAPI's, with what generators of clients need beside it."""

import json
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from importlib.resources import files
from typing import Annotated, Any, Final, Literal, Union, cast

from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, Field, TypeAdapter, create_model
from starlette.routing import BaseRoute

from circadia.api.problems import MEDIA_TYPE, Problem
from circadia.records.event import EVENT_DATA
from circadia.schemas.events import EventGap, EventView
from circadia.settings.server import ServerSettings
from circadia.settings.sleeptime import SleepPolicySettings

_ABOUT: Final = """The control plane of Circadia. Each request needs a token, as `Authorization: Bearer TOKEN`,
`x-api-key` or `api-key`: the operator's token allows everything, an agent's what the agent may do. Times are ISO 8601
in UTC."""

_REFERENCE: Final = "#/components/schemas/{model}"

_NOUNS: Final = {
    "sessions": "Groups of agents.",
    "agents": "Agents of a session, with policy and token.",
    "sleeping": "The sleep state of agents.",
    "threads": "Conversations between agents of a session.",
    "messages": "Messages to a thread or to an inbox.",
    "inbox": "Messages to an agent, and the status of those it sent.",
    "wakes": "Wake requests and their decisions.",
    "wake-stats": "Wakes of an agent in its current day.",
    "chains": "Trees of wakes, pulses and messages.",
    "pulses": "Runs of launched agents.",
    "alarms": "Alarms and routines that agents set for themselves, and their waits for named events.",
    "schedule": "Routines and blackouts of an agent.",
    "coordination": "Wake settings of an agent.",
    "hooks": "Inbound webhooks, and the deliveries that they accepted.",
    "banks": "Memory banks.",
    "episodes": "Episodes of a bank.",
    "blocks": "Blocks of a bank, with their versions.",
    "memory": "Search in a bank, and the context that it adds to prompts.",
    "memory-transfer": "Export and import of a bank.",
    "passes": "Sleep-time passes over a bank, and their changes.",
    "dreams": "Dreams over memory folders of coding agents, and over banks.",
    "sleeptime": "Status of sleep-time compute.",
    "answers": "Ready answers of a bank.",
    "holds": "Calls held at the gateway.",
    "approvals": "Calls that wait for a person's approval.",
    "events": "The event log.",
    "timeline": "What agents did, and when.",
    "usage": "Totals of model calls.",
    "calls": "Model calls one by one, and streamed answers that are kept after a broken connection.",
    "search": "Search by name and id.",
    "config": "The configuration in force.",
    "cluster": "Servers on the same database.",
    "overview": "State of the fleet, and what is not well.",
    "tokens": "Tokens of people, and who the caller is.",
    "upstreams": "Providers behind the gateway.",
    "for-you": "What waits for a person.",
    "alerts": "Alerts that were raised, and who acknowledged them.",
}

_PATH_PARAMETERS: Final = {
    "session": "Name or id of the session.",
    "agent": "Agent: `name` in the caller's session (the operator's is `default`), or `session:name`.",
    "thread": "Id of the thread, or its name if only one open thread has it.",
    "message": "Id of the message.",
    "wake": "Id of the wake request.",
    "root": "Id of the first wake, pulse or message.",
    "pulse": "Id of the pulse.",
    "hold": "Id of the hold.",
    "approval": "Id of the approval.",
    "call": "Id of the call, or of the hold while it is held.",
    "key": "Name of the setting.",
    "hook": "Name of the hook.",
    "bank": "Name of the bank, or a template of the agent's policy.",
    "episode": "Id of the episode.",
    "evidence": "Id of the evidence.",
    "label": "Label of the block.",
    "pass": "Id of the pass.",
    "alert": "Id of the alert.",
    "note": "Id of the note.",
    "dream": "Id of the dream.",
    "folder": "Name of the memory folder.",
    "answer": "Id of the ready answer.",
    "name": "Name of the person.",
    "alarm": "Name of the alarm, or of the routine of the agent's own.",
    "event": "Name of the event.",
    "wait": "Id of the wait.",
}
_AGENT_NAME: Final = "Name of the agent in the session."

_ERRORS: Final = {
    401: ("Unauthenticated", "No token, or an invalid one."),
    403: ("Forbidden", "A valid token without access."),
    404: ("NotFound", "A name or id that does not exist."),
    409: ("Conflict", "The current state does not allow it."),
    412: ("PreconditionFailed", "The settings have changed since the caller read them."),
    413: ("TooLarge", "The body is over the limit."),
    421: ("Misdirected", "The `Host` header names no host of this server."),
    422: ("InvalidRequest", "Malformed JSON, an unknown key or a wrong value."),
    429: ("LimitReached", "Too many requests with a wrong token, or over another limit."),
    500: ("InternalError", "A fault in Circadia; see its log."),
    503: ("Unavailable", "The database does not answer, or the server is stopping; retry."),
    504: ("ReadTooSlow", "Reading this takes a person too long; ask for less."),
}
"""Name and description of each error response."""
_HEADERS: Final = {
    401: ("WWW-Authenticate", "Scheme of the token.", "string"),
    429: ("Retry-After", "Seconds to wait.", "integer"),
    503: ("Retry-After", "Seconds to wait.", "integer"),
}
_BOUNDS: Final = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum"}
"""What Pydantic leaves of the bounds of a number that is a union."""
_LISTS: Final = {"group_by"}
"""Queries whose values are separated by commas."""
_FILTERS: Final = {"session", "agent", "sender", "bank"}
"""Queries whose names must exist."""


def list_error_statuses(method: str, path: str, operation: dict[str, Any]) -> list[int]:
    """Return the error statuses that an operation can answer with.

    The guard and the database can fail each request, and a read can be too slow. Whatever names something can fail to
    find it: a path parameter, a filter or a body. A write can meet a state that forbids it; so can a read that needs an
    open session, or a thread whose name several have. A change with a precondition can fail it.
    """
    queries = {parameter["name"] for parameter in operation.get("parameters", ())}
    names_something = "{" in path or "requestBody" in operation or bool(queries & _FILTERS)
    meets_state = method != "get" or "{thread}" in path or path.endswith("/sleeping")
    is_conditional = any(parameter["name"] == "If-Match" for parameter in operation.get("parameters", ()))
    possible = {404: names_something, 409: meets_state, 412: is_conditional, 504: method == "get"}
    absent = {status for status, can_happen in possible.items() if not can_happen}
    return [status for status in _ERRORS if status not in absent]


def build_openapi_document(routes: list[BaseRoute]) -> dict[str, Any]:
    document: dict[str, Any] = get_openapi(
        title="Circadia", version=version("circadia"), description=_ABOUT.replace("\n", " "), routes=routes
    )
    defaults = ServerSettings.model_validate({})
    document["servers"] = [{"url": f"http://{defaults.host}:{defaults.port}", "description": "Default address."}]
    document["tags"] = [{"name": noun, "description": about} for noun, about in _NOUNS.items()]
    components = document["components"]
    _complete_schemas(components["schemas"])
    components["responses"] = dict(_build_error_responses())
    components["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    }
    document["security"] = [{"bearer": []}, {"key": []}]
    examples = json.loads(files("circadia.api").joinpath("examples.json").read_text("utf-8"))
    for path, item in document["paths"].items():
        for method, operation in item.items():
            _complete_operation(method, path, operation)
            _add_examples(operation, examples.get(operation["operationId"], {}))
    return _simplify(document)


def _complete_schemas(schemas: dict[str, Any]) -> None:
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for model in (Problem, EventGap, SleepPolicySettings):
        schema = model.model_json_schema(ref_template=_REFERENCE, mode="serialization")
        models = {**schema.pop("$defs", {}), model.__name__: schema}
        if model is SleepPolicySettings:
            _require_all(models)
        schemas.update(models)
    schemas["SleeptimeStatusView"]["properties"]["policy"] = {
        "$ref": _REFERENCE.format(model="SleepPolicySettings"), "description": "Effective policy of the bank."
    }  # fmt: skip
    events = build_event_schema(_REFERENCE)
    models = events.pop("$defs")
    assert all(schemas.get(name, model) == model for name, model in models.items()), "two models have one name"
    schemas.update({**models, "EventView": {**events, "description": "An event."}})


def _require_all(models: dict[str, Any]) -> None:
    """Require each key of these models, which an answer shows in whole."""
    for schema in models.values():
        if "properties" in schema:
            schema["required"] = list(schema["properties"])


def _build_error_responses() -> Iterator[tuple[str, dict[str, Any]]]:
    for status, (name, about) in _ERRORS.items():
        content = {MEDIA_TYPE: {"schema": {"$ref": _REFERENCE.format(model="Problem")}}}
        response: dict[str, Any] = {"description": about, "content": content}
        if status in _HEADERS:
            header, meaning, kind = _HEADERS[status]
            response["headers"] = {header: {"description": meaning, "schema": {"type": kind}}}
        yield name, response


def _complete_operation(method: str, path: str, operation: dict[str, Any]) -> None:
    operation["responses"].pop("422", None)
    for status in list_error_statuses(method, path, operation):
        operation["responses"][str(status)] = {"$ref": f"#/components/responses/{_ERRORS[status][0]}"}
    for parameter in operation.get("parameters", ()):
        parameter["schema"] = _without_null(parameter["schema"])
        if parameter["in"] == "query" and parameter["name"] in _LISTS:
            parameter["explode"] = False
        if parameter["in"] == "path":
            name = parameter["name"]
            in_session = name == "agent" and "{session}" in path
            parameter["description"] = _AGENT_NAME if in_session else _PATH_PARAMETERS[name]
    for media in operation.get("requestBody", {}).get("content", {}).values():
        media["schema"] = _without_null(media["schema"])


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter or a body, which may be missing but never null."""
    others = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    if len(others) != 1 or len(schema["anyOf"]) == 1:
        return schema
    return {**others[0], **{key: value for key, value in schema.items() if key != "anyOf"}}


def _add_examples(operation: dict[str, Any], example: dict[str, Any]) -> None:
    if "request" in example:
        operation["requestBody"]["content"]["application/json"]["example"] = example["request"]
    if "answer" in example:
        status = min(operation["responses"])
        operation["responses"][status]["content"]["application/json"]["example"] = example["answer"]


def _simplify(schema: Any) -> Any:
    """Return the document with `number` for a number that may be an integer, which `number` covers."""
    if isinstance(schema, list):
        return [_simplify(part) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    simple = {key: _simplify(value) for key, value in cast("dict[str, Any]", schema).items()}
    choices: Any = simple.get("anyOf", ())
    numbers = [choice for choice in choices if choice.get("type") == "number"]
    if numbers:
        kept = [choice for choice in choices if choice.get("type") != "integer"]
        del simple["anyOf"]
        simple = {_BOUNDS.get(key, key): value for key, value in simple.items()}
        return {**(kept[0] if len(kept) == 1 else {"anyOf": kept}), **simple}
    return simple


def build_event_schema(ref_template: str) -> dict[str, Any]:
    """Return the JSON schema of an event: one of the kinds, by `type`."""
    union: Any = Annotated[_any_of(_build_models()), Field(discriminator="type")]
    schema = TypeAdapter[Any](union).json_schema(ref_template=ref_template, mode="serialization")
    for model in schema["$defs"].values():
        model.pop("additionalProperties", None)  # a later version may add a field
    return schema


def _build_models() -> Iterator[type[BaseModel]]:
    for kind, models in EVENT_DATA.items():
        by = "cause" if len(models) > 1 and "cause" in models[0].model_fields else None
        fields: dict[str, Any] = {
            "type": (Literal[kind.value], Field(description="Kind of event.")),
            "data": (_any_of(models), Field(description="Further data.", discriminator=by)),
        }
        name = "".join(word.capitalize() for word in kind.split("_"))
        about = " ".join(dict.fromkeys(str(model.__doc__) for model in models))
        yield create_model(f"{name}EventView", __base__=EventView, __doc__=about, **fields)


def _any_of(models: Iterable[Any]) -> Any:
    return Union[tuple(models)]  # noqa: UP007 - the members are computed
