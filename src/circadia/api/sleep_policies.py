"""What a bank states of its passes, as REST takes it: the keys of the file's section, each checked."""

import math
from collections.abc import Mapping
from itertools import islice
from typing import Any, cast

from pydantic import ValidationError

from circadia.api.policies import MOST_MEASURED
from circadia.settings.mistakes import describe_mistakes
from circadia.settings.sleeptime import SleepPolicySettings
from circadia.suggestions import did_you_mean


def validate_sleep_policy(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys as they are stored, those that are null too.

    Raises:
        ValueError: an unknown key, with the nearest known one, or a bad value.
    """
    stated = {name: value for name, value in given.items() if value is not None}
    try:
        found = SleepPolicySettings.model_validate(stated).model_dump(mode="json", exclude_unset=True)
    except ValidationError as error:
        raise ValueError("; ".join(islice(describe_mistakes(error, stated, SleepPolicySettings), 3))) from None
    _require_measured("", found)
    unknown = [name for name in given if name not in SleepPolicySettings.model_fields]
    if unknown:
        near = did_you_mean(unknown[0], SleepPolicySettings.model_fields)
        raise ValueError(f"unknown key {unknown[0]!r}{near}")
    off = {name: False for name, value in found.items() if value is None}  # null would take the key out
    return {**dict.fromkeys(given), **found, **off}


def _require_measured(path: str, value: object) -> None:
    """Raise ValueError for a number that no clock and no sum can hold."""
    if isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, object]", value).items():
            _require_measured(f"{path}.{name}" if path else name, inner)
    elif isinstance(value, float | int) and not (math.isfinite(value) and abs(value) <= MOST_MEASURED):
        raise ValueError(f"{path}: at most {MOST_MEASURED:g}")
