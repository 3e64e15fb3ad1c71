"""What a bank states of its passes, as REST takes it: the keys of the file's section, each checked."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

from pydantic import BaseModel, ValidationError

from circadia.agents.directory import nearest
from circadia.api.policies import MOST_MEASURED
from circadia.settings.sleeptime import SleepPolicySettings


def stated_policy(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys as they are stored, those that are null too.

    Raises:
        ValueError: an unknown key, with the nearest known one, or a bad value.
    """
    stated = {name: value for name, value in given.items() if value is not None}
    try:
        found = SleepPolicySettings.model_validate(stated).model_dump(mode="json", exclude_unset=True)
    except ValidationError as error:
        raise ValueError("; ".join(_told(line) for line in error.errors()[:3])) from None
    _require_measured("", found)
    unknown = [name for name in given if name not in SleepPolicySettings.model_fields]
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}{nearest(unknown[0], list(SleepPolicySettings.model_fields))}")
    return {**dict.fromkeys(given), **found}


def _told(line: Any) -> str:
    place: Sequence[int | str] = line["loc"]
    path = ".".join(map(str, place))
    if line["type"] != "extra_forbidden":
        return f"{path}: {str(line['msg']).removeprefix('Value error, ')}"
    return f"unknown key {path!r}{nearest(str(place[-1]), _known(place[:-1]))}"


def _known(place: Sequence[int | str]) -> list[str]:
    """Return the keys that stand at a place of the policy."""
    model: type[BaseModel] = SleepPolicySettings
    for part in place:
        field = model.model_fields.get(str(part))
        if field is None:
            continue
        kinds = (field.annotation, *get_args(field.annotation))
        model = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), model)
    return list(model.model_fields)


def _require_measured(path: str, value: object) -> None:
    """Raise ValueError for a number that no clock and no sum can hold."""
    if isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, object]", value).items():
            _require_measured(f"{path}.{name}" if path else name, inner)
    elif isinstance(value, float | int) and not (math.isfinite(value) and abs(value) <= MOST_MEASURED):
        raise ValueError(f"{path}: at most {MOST_MEASURED:g}")
