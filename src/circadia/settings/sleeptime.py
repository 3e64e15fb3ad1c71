"""Section `sleeptime`: passes over banks while nobody waits. A bank's own `sleeptime` states what differs there."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, StringConstraints, field_validator, model_validator

from circadia.errors import CircadiaError
from circadia.records.schedule import Recurrence, load_zone
from circadia.settings.section import Section

Operation = Literal[
    "consolidate", "contradictions", "reflect", "compress", "dedupe", "collect", "rethink", "reindex", "precompute"
]
"""What passes do; dates are resolved, and episodes grouped, in all of them."""

OwnOperation = Annotated[str, StringConstraints(pattern=r"^own_[a-z0-9_]{1,40}$")]
"""An operation of the user's own code."""

When = Literal["idle", "coding", "nightly", "weekly", "manual"]
"""A preset of triggers (SLEEP-05)."""

MOST: Final = 10**9
"""Largest count, and number of dollars or seconds."""
YEAR_MINUTES: Final = 365 * 24 * 60
MONTH_SECONDS: Final = 30 * 86_400
"""Longest time that a bank may wait."""


class SpendSettings(Section):
    """Limits of one window; what is left out has none."""

    calls: int | None = Field(None, ge=0, le=MOST, description="Model calls, failed ones too.")
    tokens: int | None = Field(None, ge=0, le=MOST, description="Input and output tokens.")
    usd: float | None = Field(None, ge=0, le=MOST, description="US dollars, at list prices.")
    seconds: float | None = Field(None, ge=0, le=MOST, description="Seconds that models took.")


class BudgetSettings(Section):
    """What may be spent: a call reserves the most that it can cost, and none begins beyond a limit."""

    per_pass: SpendSettings = Field(SpendSettings.model_validate({}), description="In one pass.")
    per_hour: SpendSettings = Field(SpendSettings.model_validate({}), description="Within an hour.")
    per_day: SpendSettings = Field(SpendSettings.model_validate({}), description="Within 24 hours.")


class OperationSettings(Section):
    """One operation."""

    enabled: bool = Field(True, description="Whether passes do it.")
    model: str | None = Field(None, description="A model of its own, of the tier's upstream.")
    budget: BudgetSettings = Field(BudgetSettings.model_validate({}), description="Limits of its own, over all banks.")


class BenefitSettings(Section):
    """When an operation that brings less than it costs is paused (SLEEP-42)."""

    enabled: bool = Field(True, description="Whether operations are paused at all; they are measured anyway.")
    window_days: int = Field(
        14,
        ge=1,
        le=365,
        description="Benefit and cost of so many days are compared, no sooner than so long after the first cost; a "
        "pause lasts as long.",
    )
    least_ratio: float = Field(1.0, gt=0, le=MOST, description="Benefit over cost below which an operation is paused.")
    min_calls: int = Field(20, ge=1, le=MOST, description="Model calls within the window before it is judged.")
    min_cost_usd: float = Field(
        0.01, ge=0, le=MOST, description="US dollars within the window before it is judged, where prices are known."
    )
    hot_weight: float = Field(
        1.0,
        gt=0,
        le=MOST,
        description="What a token of a hot call counts against one of a pass, where a price is not known.",
    )
    spared: tuple[Operation | OwnOperation, ...] = Field(
        ("contradictions",),
        description="Operations that are never paused: what they bring is not fewer tokens but right answers.",
    )


class SleepScheduleSettings(Section):
    """Hours at which a pass begins even if nothing is new."""

    cron: str = Field(description="Five fields of cron, such as `0 3 * * *` for each night at three.")
    zone: str | None = Field(
        None, description="IANA name of the zone whose clock counts; without it, the bank's `zone`."
    )
    full: bool = Field(False, description="The pass looks at all notes and beliefs again, not only at what is new.")
    within_hours: float | None = Field(
        None,
        gt=0,
        le=7 * 24,
        description="The pass runs only so long after its hour; the next one goes on with what is left. Without it, an "
        "hour that was missed is made up for.",
    )

    @model_validator(mode="after")
    def _validate_recurrence(self) -> "SleepScheduleSettings":
        try:
            self.recurrence("UTC")
        except CircadiaError as error:
            raise ValueError(error.message) from error
        return self

    def recurrence(self, zone: str) -> Recurrence:
        """Return when it is due in a bank of this zone."""
        return Recurrence(cron=self.cron, zone=self.zone or zone)


def _none_if_false(value: object) -> object:
    return None if value is False else value


def _false_if_none(value: object) -> object:
    return value is not None and value


Count = Annotated[int | None, BeforeValidator(_none_if_false)]
Measure = Annotated[float | None, BeforeValidator(_none_if_false)]
Switch = Annotated[bool, BeforeValidator(_false_if_none)]
"""Values of triggers; each can be switched off by null or false."""


class SleepPolicySettings(Section):
    """When passes over a bank begin, what they do, and what they may spend."""

    enabled: bool = Field(True, description="Whether there are passes at all.")
    when: When = Field(
        "idle",
        description="When passes begin. `idle`: once nobody waits; `coding`: the same after ten minutes of quiet, not "
        "one; `nightly`: only from 03:00 to 06:00; `weekly`: only on Sundays from 03:00, over the whole bank; "
        "`manual`: only when asked for. The keys below change single triggers; null or false switches one off.",
    )
    preset: Literal["chat", "coding"] | None = Field(
        None, description="An older spelling of `when`, for files that do not state that; `chat` is `idle`."
    )
    zone: str | None = Field(
        None,
        description="IANA name of the zone in which hours count; without it, that of the bank's agents (of the oldest "
        "one), else UTC.",
    )
    asleep: Switch = Field(True, description="Whether a pass is due once all agents of the bank sleep.")
    idle_seconds: Measure = Field(
        60.0, ge=0, le=MONTH_SECONDS, description="Time without a turn after which a bank counts as idle."
    )
    frequency_turns: Count = Field(
        5, ge=0, le=MOST, description="Completed turns after which a pass is due though the bank is not idle; 0: never."
    )
    max_lag_minutes: Measure = Field(
        60.0,
        gt=0,
        le=YEAR_MINUTES,
        description="Longest time that a turn waits, however busy the bank is; a pass is slowed down then.",
    )
    importance: Measure = Field(
        5.0, ge=0, description="Sum of the importance of what was said that makes a pass due; 0: never."
    )
    overflow_share: Measure = Field(
        0.8,
        ge=0,
        le=1,
        description="Share of its model's context that a call of the bank's agents fills and that makes a pass due; "
        "one that is refused as too long fills it; 0: never.",
    )
    stale_share: Measure = Field(
        0.2,
        ge=0,
        le=1,
        description="Share of the bank's episodes and notes that others have demoted since the last pass and that "
        "makes one due; 0: never.",
    )
    documents: Switch = Field(
        True, description="Whether a block that a person, a program or an agent has written makes a pass due."
    )
    at_end: Switch = Field(
        True, description="Whether the end of a conversation or a pulse of the bank's agents makes a pass due."
    )
    every_hours: Measure = Field(
        None,
        gt=0,
        le=YEAR_MINUTES / 60,
        description="Time since the last pass after which one is due, if anything waits. With `conversations` both "
        "must have come: 24 hours and 5 conversations.",
    )
    conversations: Count = Field(
        None, ge=1, le=MOST, description="Conversations with something new after which a pass is due."
    )
    schedules: tuple[SleepScheduleSettings, ...] = Field((), description="Hours at which a pass begins anyway.")
    passes_per_hour: int = Field(12, ge=0, description="Passes that may begin within an hour.")
    review: bool = Field(False, description="What passes propose waits for a person.")
    verify: Literal["model", "off"] = Field(
        "model",
        description="`model`: the tier's model judges whether notes and blocks say what their sources say; `off`: only "
        "ids, numbers, dates, addresses, codes and names are compared.",
    )
    tell: bool = Field(True, description="The agent is told in one line what changed while it slept.")
    agent: str | None = Field(
        None,
        description="Agent that is woken when a pass has ended, `name` or `session:name`: one that writes the blocks "
        "itself, with `sleeptime` in its policy.",
    )
    unused_days: int = Field(
        90,
        ge=0,
        le=36_500,
        description="A note that no agent was given for so long leaves the searches, if others were; 0: never.",
    )
    max_rethinks: int = Field(10, ge=0, description="Edits of blocks in one pass.")
    views: int = Field(
        32, ge=0, le=1_000, description="Questions asked often whose answers are kept ready, and as many subjects."
    )
    operations: dict[Operation | OwnOperation, OperationSettings] = Field(
        default_factory=dict[Operation | OwnOperation, OperationSettings],
        description="Operations, by name: each can be switched off and has its own budget.",
    )
    budget: BudgetSettings = Field(
        BudgetSettings.model_validate(
            {"per_pass": {"calls": 100, "tokens": 300_000}, "per_day": {"tokens": 3_000_000, "usd": 1.0}}
        ),
        description="What passes over the bank may spend.",
    )
    benefit: BenefitSettings = Field(
        BenefitSettings.model_validate({}), description="When an operation that brings less than it costs is paused."
    )

    @field_validator("schedules", mode="before")
    @classmethod
    def _replace_none(cls, value: object) -> object:
        return value or ()

    @field_validator("zone")
    @classmethod
    def _validate_zone(cls, value: str | None) -> str | None:
        try:
            return value and load_zone(value).key
        except CircadiaError as error:
            raise ValueError(error.message) from error

    def is_operation_enabled(self, operation: str) -> bool:
        """Return whether passes do it."""
        stated = self.operations.get(operation)
        return stated is None or stated.enabled


_TRIGGERS: Final = (
    "asleep", "idle_seconds", "frequency_turns", "max_lag_minutes", "importance", "overflow_share", "stale_share",
    "documents", "at_end", "every_hours", "conversations", "schedules",
)  # fmt: skip
_MANUAL: Final[Mapping[str, Any]] = dict.fromkeys(_TRIGGERS)
PRESETS: Final[Mapping[When, Mapping[str, Any]]] = {
    "idle": {},
    "coding": {"idle_seconds": 600.0},
    "nightly": {**_MANUAL, "schedules": [{"cron": "0 3 * * *", "within_hours": 3}]},
    "weekly": {**_MANUAL, "schedules": [{"cron": "0 3 * * 0", "full": True}]},
    "manual": _MANUAL,
}
"""What each states of the triggers, beside their defaults."""
_OLDER: Final[Mapping[object, When]] = {"chat": "idle", "coding": "coding"}


class SleepModelSettings(Section):
    """The tier's own model."""

    upstream: str = Field(description="Name of one of `upstreams`; its address and key are used.")
    name: str | None = Field(None, description="Model; without it a cheap one of the provider, where that is known.")
    timeout_seconds: float = Field(120.0, gt=0, le=3600, description="Longest wait for an answer.")
    reasoning: Literal["off", "low", "medium", "high"] = Field(
        "off", description="How much a thinking model may think, where the provider lets one say."
    )
    local: bool = Field(False, description="It runs on this machine: one call at a time.")


class SleeptimeSettings(SleepPolicySettings):
    """The whole tier; its policy holds for banks that state nothing of their own."""

    model: SleepModelSettings | Literal["none"] | None = Field(
        None,
        description="The tier's model; without it a cheap one of the first upstream that has a `key_env` and whose "
        "provider is known, and `none` for passes that ask no model.",
    )
    max_concurrent_passes: int = Field(2, ge=1, le=64, description="Passes that one process runs at the same time.")
    fleet_budget: BudgetSettings = Field(
        BudgetSettings.model_validate({"per_day": {"usd": 5.0}}),
        description="What passes over all banks may spend together.",
    )
    max_passes_per_hour: int = Field(600, ge=0, description="Passes over all banks that may begin within an hour.")
    keep_days: int = Field(
        30, ge=1, le=36_500, description="Passes that ended, and answers of the model, are kept for so long."
    )

    own_operations: dict[OwnOperation, str] = Field(
        default_factory=dict[OwnOperation, str],
        description="Operations of your own code, as `package.module:Class`; the names begin with `own_`.",
    )

    @field_validator("model", mode="before")
    @classmethod
    def _expand_upstream_name(cls, value: object) -> object:
        return {"upstream": value} if isinstance(value, str) and value != "none" else value

    def policy_of(self, stated: Mapping[str, Any]) -> SleepPolicySettings:
        """Return the policy of a bank that states these keys, nested as in the file.

        A bank that names a preset has that one's triggers; what this section says of triggers does not hold there.
        """
        base: dict[str, Any] = self.model_dump(include=set(SleepPolicySettings.model_fields), exclude_unset=True)
        named = _stated_preset(stated)
        if named is not None:
            base = {name: value for name, value in base.items() if name not in _TRIGGERS}
        when = named or _stated_preset(base) or "idle"
        return SleepPolicySettings.model_validate({**PRESETS[when], **base, **stated, "when": when, "preset": None})


def _stated_preset(stated: Mapping[str, Any]) -> When | None:
    """Return the preset that is named there."""
    return stated.get("when") or _OLDER.get(stated.get("preset"))
