"""Section `retention`: how long records are kept."""

from pydantic import Field

from circadia.settings.section import Section


def _days(default: int, what: str) -> int | None:
    return Field(default, ge=32, le=36_500, description=f"Days for which {what} are kept; `null` keeps them for ever.")


class RetentionSettings(Section):
    """How long records are kept. The shortest time is 32 days: budgets and limits count up to a month."""

    events_days: int | None = _days(90, "events")
    calls_days: int | None = _days(90, "single model calls")
    wakes_days: int | None = _days(90, "decided wake requests")
    pulses_days: int | None = _days(90, "ended pulses")
    conversations_days: int | None = _days(90, "conversations without a new turn")
    messages_days: int | None = _days(365, "messages that are in no inbox any more")
    provider_ids_days: int | None = _days(400, "owners of ids that providers hand out")
