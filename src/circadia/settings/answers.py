"""Section `answers`: answers to expected questions, prepared while nobody waits."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, cast

from pydantic import Field, StringConstraints, field_validator, model_validator

from circadia.settings.section import Section

MAX_COUNT: Final = 10**9
"""Largest count."""

Span = Literal["dates", "times", "ids"] | Annotated[str, StringConstraints(pattern=r"^/.+/$", max_length=500)]
"""Part of a system prompt that may change: a known kind, or a pattern between slashes."""

HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$", max_length=100, to_lower=True)]
"""RFC 9110, 5.6.2."""


def compile_pattern(span: str) -> re.Pattern[str]:
    """Compile a pattern between slashes; `^` and `$` match at line boundaries.

    Raises:
        ValueError: it is no Python regular expression.
    """
    try:
        return re.compile(span[1:-1], re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{span!r} is no regular expression of Python's: {error}") from error


class AnswersSettings(Section):
    """How answers are prepared, how long they are valid, and when they are used."""

    questions: int = Field(
        5, ge=1, le=100, description="Maximum number of questions that a pass answers for each agent."
    )
    ttl_hours: float = Field(24.0, gt=0, le=24 * 365, description="Lifetime of an answer, used or not.")
    max_entries: int = Field(10_000, ge=1, le=MAX_COUNT, description="Maximum number of ready answers in a bank.")
    max_megabytes: float = Field(
        64.0, gt=0, le=MAX_COUNT, description="Maximum total size of the ready answers in a bank."
    )
    max_per_agent: int = Field(
        2_000, ge=1, le=MAX_COUNT, description="Maximum number of ready answers for an agent in a bank."
    )
    check: Literal["model", "off"] = Field(
        "model",
        description="How to decide whether a similar question asks the same, so that its answer is served: by "
        "`model`, or `off`.",
    )
    check_calls_per_hour: int = Field(120, ge=0, le=MAX_COUNT, description="Maximum calls of `check: model` per hour.")
    hint_similarity: float = Field(0.9, ge=0, le=1, description="Minimum cosine similarity of questions for a hint.")
    volatile: tuple[Span, ...] = Field(
        (),
        description="Parts of a system prompt that no answer depends on: `dates`, `times`, `ids` (UUIDs and long "
        "hexadecimal numbers), or a regular expression between slashes.",
    )
    volatile_headers: tuple[HeaderName, ...] = Field(
        (),
        description="Further request headers that no answer depends on, such as a call counter. Headers that change "
        "answers, such as `anthropic-beta`, always count.",
    )
    sample_share: float = Field(
        0.1, ge=0, le=1, description="Share of used answers that a pass answers again to check them."
    )
    least_precision: float = Field(
        0.95, ge=0, le=1, description="Minimum share of right samples; below it, `serve` acts as `hint`."
    )
    least_samples: int = Field(10, ge=1, le=1000, description="Minimum number of samples for a verdict.")
    useful_share: float = Field(
        0.2, ge=0, le=1, description="Share of used answers below which passes prepare fewer; 0 turns this off."
    )

    @model_validator(mode="before")
    @classmethod
    def _reject_local_judge(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        stated = cast("Mapping[str, object]", given)
        if stated.get("check") == "local":
            raise ValueError(
                "`check: local` is withdrawn; write `check: model`, or `check: off` to serve the same text alone"
            )
        if "check_confidence" in stated:
            raise ValueError("`check_confidence` is withdrawn with `check: local`; remove it")
        return stated

    @field_validator("volatile")
    @classmethod
    def _must_compile(cls, spans: tuple[str, ...]) -> tuple[str, ...]:
        for span in spans:
            if span.startswith("/"):
                compile_pattern(span)
        return spans
