"""Section `answers`: questions that are expected next, answered while nobody waits."""

import re
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints, field_validator

from circadia.settings.section import Section

MOST: Final = 10**9
"""Largest count."""

Span = Literal["dates", "times", "ids"] | Annotated[str, StringConstraints(pattern=r"^/.+/$", max_length=500)]
"""What may change in a system prompt: a kind that is known, or a pattern between slashes."""

HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$", max_length=100, to_lower=True)]
"""As RFC 9110 (5.6.2) has it."""


def compile_pattern(span: str) -> re.Pattern[str]:
    """Return what a span between slashes matches; `^` and `$` stand for the begin and the end of a line.

    Raises:
        ValueError: it is no regular expression of Python's.
    """
    try:
        return re.compile(span[1:-1], re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{span!r} is no regular expression of Python's: {error}") from error


class AnswersSettings(Section):
    """How answers are made ready, how long they hold, and what is enough to use one."""

    questions: int = Field(5, ge=1, le=100, description="Questions that a pass answers ahead at most, for each agent.")
    ttl_hours: float = Field(24.0, gt=0, le=24 * 365, description="An answer holds for so long, used or not.")
    max_entries: int = Field(10_000, ge=1, le=MOST, description="Ready answers of a bank at most.")
    max_megabytes: float = Field(64.0, gt=0, le=MOST, description="What they take at most.")
    max_per_agent: int = Field(2_000, ge=1, le=MOST, description="Those of one agent in a bank at most.")
    check: Literal["model", "local", "off"] = Field(
        "model",
        description="Who decides whether a question that is not the same text asks the same, so that its answer is "
        "served. `model`: the sleep tier's model, while the caller waits, 2 seconds at most. `local`: an encoder in "
        "the server, which `circadia model fetch mpnet` gets; English only. `off`: nobody; such an answer is a hint.",
    )
    check_calls_per_hour: int = Field(
        120, ge=0, le=MOST, description="Maximum number of calls to the model of `check: model` in an hour."
    )
    check_confidence: float = Field(
        0.8, ge=0, le=1, description="How sure `check: local` must be that both questions ask the same."
    )
    hint_similarity: float = Field(
        0.9,
        ge=0,
        le=1,
        description="Cosine of two questions from which on an answer is a hint.",
    )
    volatile: tuple[Span, ...] = Field(
        (),
        description="What of a system prompt may change without a new scope, since no answer depends on it: `dates`, "
        "`times`, `ids` (UUIDs and long hexadecimal numbers), or a regular expression between slashes, whose `^` and "
        "`$` stand for the begin and the end of a line.",
    )
    volatile_headers: tuple[HeaderName, ...] = Field(
        (),
        description="Headers of calls, beyond those that Circadia knows, that no answer depends on, such as the number "
        "of a call. What is known to change answers, such as `anthropic-beta`, is never left out.",
    )
    sample_share: float = Field(
        0.1, ge=0, le=1, description="Share of the uses that a pass answers afresh, to see whether they were right."
    )
    least_precision: float = Field(
        0.95, ge=0, le=1, description="Share of right ones among them below which `serve` falls back to `hint`."
    )
    least_samples: int = Field(10, ge=1, le=1000, description="Samples that it takes to judge.")
    useful_share: float = Field(
        0.2,
        ge=0,
        le=1,
        description="Share of ready answers that is used below which fewer are made; 0: as many as ever.",
    )

    @field_validator("volatile")
    @classmethod
    def _must_compile(cls, spans: tuple[str, ...]) -> tuple[str, ...]:
        for span in spans:
            if span.startswith("/"):
                compile_pattern(span)
        return spans
