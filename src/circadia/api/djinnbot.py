"""DjinnBot's camelCase: the event lists of an agent, and the wake statistics at DjinnBot's path (WAKE-70)."""

from typing import Any, Final, cast

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from circadia.api.parts import Parts, Who, noun_router
from circadia.api.waking.wake_stats import show_wake_stats
from circadia.schemas.wakes import WakeStatsView

router = noun_router("wake-stats", prefix="")

_EVENT_KEYS: Final = {"sleepEvents": "sleep_events", "wakeEvents": "wake_events"}


class CamelCaseEvents(BaseModel):
    """A body that takes `sleepEvents` and `wakeEvents` too."""

    @model_validator(mode="before")
    @classmethod
    def _rename_keys(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        values = cast("dict[str, Any]", given)
        for camel, name in _EVENT_KEYS.items():
            if camel in values and name in values:
                message = f"{camel!r} and {name!r} are the same key; send one of them"
                raise PydanticCustomError("key_twice", "{told}", {"told": message})
        return {_EVENT_KEYS.get(key, key): value for key, value in values.items()}


class WakeStatsInCamelCase(WakeStatsView):
    """The wake statistics in camelCase."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


@router.get("/v1/agents/{agent}/wake-stats", include_in_schema=False)
async def show_wake_stats_bare(agent: str, who: Who, parts: Parts) -> WakeStatsInCamelCase:
    """Show the same in camelCase, at DjinnBot's path. Access: operator, the agent."""
    return WakeStatsInCamelCase(**dict(await show_wake_stats(agent, who, parts)))
