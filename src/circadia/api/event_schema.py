"""The schema of events in the OpenAPI document, one per kind."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel, Field, TypeAdapter, create_model

from circadia.records.event import EVENT_DATA
from circadia.schemas.events import EventView


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
