"""Section `sleeptime`: passes over banks while nobody waits. A bank's own `sleeptime` overrides keys.

Section `dreams`: memory folders of coding agents over which the server dreams (DREAM-31).
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, StringConstraints, field_validator, model_validator

from circadia.errors import CircadiaError
from circadia.records.schedule import Recurrence, check_cron_steps, load_zone
from circadia.settings.section import Section

Operation = Literal[
    "consolidate", "contradictions", "reflect", "compress", "dedupe", "collect", "rethink", "reindex", "precompute"
]
"""Operations of passes; all of them also resolve dates and group episodes."""

OwnOperation = Annotated[str, StringConstraints(pattern=r"^own_[a-z0-9_]{1,40}$")]
"""An operation of the user's own code."""

When = Literal["idle", "coding", "nightly", "weekly", "manual"]
"""A preset of triggers (SLEEP-05)."""

MAX_COUNT: Final = 10**9
"""Largest count, and number of dollars or seconds."""
YEAR_MINUTES: Final = 365 * 24 * 60
MONTH_SECONDS: Final = 30 * 86_400
"""Longest time that a bank may wait."""


class SpendSettings(Section):
    """Limits of one window; a missing key means no limit."""

    calls: int | None = Field(None, ge=0, le=MAX_COUNT, description="Model calls, including failed ones.")
    tokens: int | None = Field(None, ge=0, le=MAX_COUNT, description="Input and output tokens.")
    usd: float | None = Field(None, ge=0, le=MAX_COUNT, description="US dollars, at list prices.")
    seconds: float | None = Field(None, ge=0, le=MAX_COUNT, description="Seconds of model time.")


class BudgetSettings(Section):
    """Spending limits: a call reserves its maximum cost, and none begins beyond a limit."""

    per_pass: SpendSettings = Field(SpendSettings.model_validate({}), description="Limits per pass.")
    per_hour: SpendSettings = Field(SpendSettings.model_validate({}), description="Limits per hour.")
    per_day: SpendSettings = Field(SpendSettings.model_validate({}), description="Limits per 24 hours.")


class OperationSettings(Section):
    enabled: bool = Field(True, description="Run the operation in passes.")
    model: str | None = Field(None, description="Model for this operation, from the upstream of `sleeptime.model`.")
    batch: bool = Field(
        False,
        description="Ask in batches of the provider (OpenAI, Anthropic), for half the price and within a day, unless "
        "somebody waits for the pass. Not for `precompute`.",
    )
    budget: BudgetSettings = Field(BudgetSettings.model_validate({}), description="Separate limits over all banks.")


class SleepScheduleSettings(Section):
    """Times at which a pass begins even if nothing is new."""

    cron: str = Field(description="Five fields of cron, such as `0 3 * * *` for each night at three.")
    zone: str | None = Field(None, description="IANA time zone; by default the bank's `zone`.")
    full: bool = Field(False, description="Review all notes and beliefs again, not only new ones.")
    within_hours: float | None = Field(
        None,
        gt=0,
        le=7 * 24,
        description="How long after its hour the pass may run; the next one continues. By default a missed hour is "
        "made up for.",
    )

    @model_validator(mode="after")
    def _validate_recurrence(self) -> "SleepScheduleSettings":
        try:
            self.recurrence("UTC")
            check_cron_steps(self.cron)
        except CircadiaError as error:
            raise ValueError(error.message) from error
        return self

    def recurrence(self, zone: str) -> Recurrence:
        """Return the recurrence for a bank in this time zone."""
        return Recurrence(cron=self.cron, zone=self.zone or zone)


def _none_if_false(value: object) -> object:
    return None if value is False else value


def _false_if_none(value: object) -> object:
    return value is not None and value


Count = Annotated[int | None, BeforeValidator(_none_if_false)]
Measure = Annotated[float | None, BeforeValidator(_none_if_false)]
Switch = Annotated[bool, BeforeValidator(_false_if_none)]
"""Values of triggers; null or false turns each off."""


class SleepPolicySettings(Section):
    """When passes over a bank begin, what they do, and what they may spend."""

    withdrawn = ("benefit", "views")

    enabled: bool = Field(True, description="Run passes.")
    when: When = Field(
        "idle",
        description="When passes begin: `idle` once nobody waits, `coding` after 10 minutes of quiet, `nightly` from "
        "03:00 to 06:00, `weekly` on Sundays at 03:00, `manual` on request.",
    )
    preset: Literal["chat", "coding"] | None = Field(
        None, description="An older spelling of `when`, for files that do not state that; `chat` is `idle`."
    )
    zone: str | None = Field(None, description="IANA time zone; by default that of the bank's oldest agent, else UTC.")
    asleep: Switch = Field(True, description="Start a pass once all agents of the bank sleep.")
    idle_seconds: Measure = Field(
        60.0, ge=0, le=MONTH_SECONDS, description="Time without a turn that makes a bank idle."
    )
    frequency_turns: Count = Field(
        5, ge=0, le=MAX_COUNT, description="Completed turns that make a pass due before the bank is idle; 0: never."
    )
    max_lag_minutes: Measure = Field(
        60.0,
        gt=0,
        le=YEAR_MINUTES,
        description="Longest wait of a turn for a pass, however busy the bank is; such a pass runs slowly.",
    )
    importance: Measure = Field(5.0, ge=0, description="Total importance of new turns that makes a pass due; 0: never.")
    overflow_share: Measure = Field(
        0.8,
        ge=0,
        le=1,
        description="Share of the model's context that a call must fill to make a pass due; a refusal as too long "
        "counts. 0 means never.",
    )
    stale_share: Measure = Field(
        0.2, ge=0, le=1, description="Share of newly demoted episodes and notes that makes a pass due; 0: never."
    )
    documents: Switch = Field(True, description="Start a pass after somebody writes a block.")
    at_end: Switch = Field(True, description="Start a pass when a conversation or pulse ends.")
    every_hours: Measure = Field(
        None,
        gt=0,
        le=YEAR_MINUTES / 60,
        description="Time since the last pass after which one is due, if there is work. With `conversations`, both "
        "conditions must hold.",
    )
    conversations: Count = Field(
        None, ge=1, le=MAX_COUNT, description="Conversations with new turns that make a pass due."
    )
    schedules: tuple[SleepScheduleSettings, ...] = Field((), description="Times at which a pass begins anyway.")
    passes_per_hour: int = Field(12, ge=0, description="Maximum number of passes per hour.")
    review: bool = Field(False, description="Proposals of passes wait for a person's review.")
    verify: Literal["model", "off"] = Field(
        "model",
        description="Verification of notes and blocks: `model` judges whether their sources support them; `off` "
        "compares only ids, numbers, dates, addresses, codes and names.",
    )
    tell: bool = Field(True, description="Tell the agent in one line what changed while it slept.")
    agent: str | None = Field(
        None,
        description="Agent to wake after a pass, as `name` or `session:name`. It writes the blocks itself and needs "
        "`sleeptime_agent` in its policy.",
    )
    unused_days: int = Field(
        90,
        ge=0,
        le=36_500,
        description="Days without use after which a note leaves the search, if other notes were used; 0 means never.",
    )
    max_rethinks: int = Field(10, ge=0, description="Maximum number of block edits in one pass.")
    operations: dict[Operation | OwnOperation, OperationSettings] = Field(
        default_factory=dict[Operation | OwnOperation, OperationSettings],
        description="Operations, by name: each has a switch and a budget.",
    )

    @field_validator("operations")
    @classmethod
    def _require_time_for_batches(
        cls, operations: dict[Operation | OwnOperation, OperationSettings]
    ) -> dict[Operation | OwnOperation, OperationSettings]:
        if "precompute" in operations and operations["precompute"].batch:
            raise ValueError("precompute.batch: answers are made for the next call and cannot wait for a batch")
        return operations

    budget: BudgetSettings = Field(
        BudgetSettings.model_validate(
            {"per_pass": {"calls": 100, "tokens": 300_000}, "per_day": {"tokens": 3_000_000, "usd": 1.0}}
        ),
        description="Spending limits of passes over the bank.",
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
"""Trigger values of each preset, on top of their defaults."""
_OLDER: Final[Mapping[object, When]] = {"chat": "idle", "coding": "coding"}


class SleepModelSettings(Section):
    upstream: str = Field(description="Name of one of `upstreams`; the server uses its address and key.")
    name: str | None = Field(None, description="Model; by default a cheap one of a known provider.")
    timeout_seconds: float = Field(120.0, gt=0, le=3600, description="Longest wait for an answer.")
    reasoning: Literal["off", "low", "medium", "high"] = Field(
        "off",
        description="How much the model may think: `low` has room for 2,000 tokens beside an answer, `medium` 8,000, "
        "`high` 16,000.",
    )
    local: bool = Field(False, description="The model runs on this machine: one call at a time.")


class SleeptimeSettings(SleepPolicySettings):
    """The whole tier; its policy is the default for banks."""

    model: SleepModelSettings | Literal["none"] | None = Field(
        None,
        description="Model for passes: by default a cheap one of the first upstream with a `key_env` and a known "
        "provider; `none` for passes without a model.",
    )
    max_concurrent_passes: int = Field(2, ge=1, le=64, description="Maximum concurrent passes per process.")
    fleet_budget: BudgetSettings = Field(
        BudgetSettings.model_validate({"per_day": {"usd": 5.0}}),
        description="Spending limits of passes over all banks together.",
    )
    max_passes_per_hour: int = Field(600, ge=0, description="Maximum number of passes over all banks per hour.")
    keep_days: int = Field(30, ge=1, le=36_500, description="Days to keep ended passes and answers of the model.")

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

        A bank that names a preset takes its triggers from the preset and none from this section.
        """
        base: dict[str, Any] = self.model_dump(include=set(SleepPolicySettings.model_fields), exclude_unset=True)
        named = _stated_preset(stated)
        if named is not None:
            base = {name: value for name, value in base.items() if name not in _TRIGGERS}
        when = named or _stated_preset(base) or "idle"
        return SleepPolicySettings.model_validate({**PRESETS[when], **base, **stated, "when": when, "preset": None})


def _stated_preset(stated: Mapping[str, Any]) -> When | None:
    return stated.get("when") or _OLDER.get(stated.get("preset"))


class DreamSettings(Section):
    """A memory folder. Whoever names it here agrees to dreams over it."""

    folder: str = Field(
        min_length=1,
        description="The folder, with an index `MEMORY.md`, or a project that Claude Code keeps one for; `~` is the "
        "home of the server's user.",
    )
    transcripts: str | None = Field(
        None,
        min_length=1,
        description="Folder of the agent's sessions; by default the one around the folder, if it has any.",
    )
    project: str | None = Field(
        None, min_length=1, description="Read only sessions of this project, if the folder has those of several."
    )
    programs: bool = Field(
        False, description="Read sessions of programs too (`claude -p`, `codex exec`, SDKs), as a person's."
    )
    repository: bool = Field(False, description="The folder is a repository all of whose Markdown files are memory.")
    mode: Literal["propose", "auto"] = Field(
        "propose", description="`propose` waits for a person; `auto` writes, once a person has accepted one dream."
    )
    watch: bool = Field(
        True, description="Begin a dream when one is due (five new sessions, a day passed); else only when asked."
    )
    agents: tuple[str, ...] = Field(
        (),
        description="Agents that may ask for dreams, see and undo them by MCP; `session:name` outside the session "
        "`default`.",
    )
