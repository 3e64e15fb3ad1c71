"""What docs/reference/rest.md shares with the OpenAPI document: its examples, and the table of events.

`python -m tests.api.page_parts` writes the examples of the page into the package, and prints the table for the page.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from circadia.records.event import EVENT_DATA, EventData, EventType
from tests.api.test_reference import examples
from tests.fixtures.documented import find_operation, look_up
from tests.house.tree import SOURCE

EXAMPLES: Final = SOURCE / "api" / "examples.json"


def collect_examples() -> Mapping[str, Mapping[str, Any]]:
    """Return body and answer of the first example of each operation on the page, by operation."""
    found: dict[str, dict[str, Any]] = {}
    for example in examples():
        place = find_operation(example.method, example.path.split("?")[0])
        if place is None or example.shown is None or '"code"' in example.shown.body:
            continue
        operation = look_up(*place)
        answers = operation["responses"][min(operation["responses"])]
        if operation["operationId"] not in found and "application/json" in answers.get("content", {}):
            parts = {"answer": json.loads(example.shown.body)}
            if example.data is not None and "application/json" in operation["requestBody"]["content"]:
                parts = {"request": json.loads(example.data), **parts}
            found[operation["operationId"]] = parts
    return found


def event_table() -> Iterator[str]:
    """Yield the rows of the page's table of events: kinds, what happened, and the names of the data."""
    kinds: dict[type[EventData], list[EventType]] = {}
    for kind, models in EVENT_DATA.items():
        for model in models:
            kinds.setdefault(model, []).append(kind)
    yield "| type | what happened |"
    yield "| --- | --- |"
    for model, types in kinds.items():
        yield f"| {', '.join(f'`{kind}`' for kind in types)} | {_describe(model)} |"


def _describe(model: type[EventData]) -> str:
    about = str(model.__doc__).removesuffix(".")
    fields = [f"`{_name(key, field)}`" for key, field in model.model_fields.items()]
    return f"{about[0].lower()}{about[1:]}" + (f": {', '.join(fields)}" if fields else "")


def _name(key: str, field: FieldInfo) -> str:
    """Return the name of a field, with the value if it has only one."""
    values = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    return (field.serialization_alias or key) + (f": {values[0]}" if len(values) == 1 else "")


def write_examples(path: Path = EXAMPLES) -> None:
    path.write_text(json.dumps(collect_examples(), indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    write_examples()
    print("\n".join(event_table()))
