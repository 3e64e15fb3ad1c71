"""Typed answers about passes. Times are strings, ISO 8601 in UTC."""

from typing import Any, TypedDict

from circadia.client.memory_answers import EpisodeAnswer


class PassCostAnswer(TypedDict):
    calls: int
    tokens: int
    usd: float
    seconds: float


class PassCostLineAnswer(PassCostAnswer):
    operation: str
    model: str
    failed: int


class PassAnswer(TypedDict):
    id: str
    bank: str
    trigger: str
    by: str
    instructions: str
    operations: list[str]
    dry_run: bool
    review: bool
    full: bool
    status: str
    detail: str
    attempt: int
    created_at: str
    not_before: str | None
    started_at: str | None
    ended_at: str | None
    run_seconds: float
    after: int
    upto: int
    generation_before: int | None
    generation_after: int | None
    counts: dict[str, int]
    spent: PassCostAnswer


class PassDetailAnswer(PassAnswer):
    ledger: list[PassCostLineAnswer]
    errors: list[str]


class PassListAnswer(TypedDict):
    """Passes over a bank; `before` is None on the last page."""

    bank: str
    passes: list[PassAnswer]
    before: str | None


ChangeAnswer = TypedDict(
    "ChangeAnswer",
    {
        "pass": str, "number": int, "operation": str, "kind": str, "target": str, "before": dict[str, Any] | None,
        "after": dict[str, Any] | None, "state": str, "why": str, "at": str,
    },
)  # fmt: skip


class ChangeListAnswer(TypedDict):
    """Changes of a pass; `after` is None on the last page."""

    changes: list[ChangeAnswer]
    after: int | None


PassChangedAnswer = TypedDict("PassChangedAnswer", {"pass": PassAnswer, "changes": list[ChangeAnswer]})


class VerdictAnswer(TypedDict):
    due: bool
    trigger: str | None
    gate: str | None
    why: str
    at: str | None


class BacklogAnswer(TypedDict):
    episodes: int
    turns: int
    conversations: int
    importance: float
    oldest_at: str | None
    newest_at: str | None


class LeftoverAnswer(TypedDict):
    first: int
    last: int
    failures: int
    quarantined: bool
    cause: str


class BalanceAnswer(TypedDict):
    operation: str
    uses: int
    saved_tokens: int
    saved_seconds: float
    saved_usd: float
    calls: int
    spent_tokens: int
    spent_usd: float
    unit: str
    ratio: float | None
    standing: str
    paused_until: str | None


class SleeptimeStatusAnswer(TypedDict):
    bank: str
    policy: dict[str, Any]
    begins: dict[str, str]
    paused_by: str | None
    cursor: int
    leftovers: list[LeftoverAnswer]
    failures: int
    not_before: str | None
    succeeded_at: str | None
    backlog: BacklogAnswer
    verdict: VerdictAnswer
    gate: str
    gate_at: str | None
    running: PassAnswer | None
    spent: PassCostAnswer
    lag_seconds: float
    balances: list[BalanceAnswer]
    red: str


class SleeptimeAnswer(TypedDict):
    banks: list[SleeptimeStatusAnswer]
    more: int
    passes: dict[str, int]
    spent: PassCostAnswer
    lag_seconds: float
    red: list[str]


NoteAnswer = TypedDict(
    "NoteAnswer",
    {
        "id": str, "bank": str, "kind": str, "text": str, "at": str, "trust": str, "importance": float | None,
        "pass": str | None, "created_at": str, "retired_at": str | None, "evidence": list[EpisodeAnswer],
        "changes": list[ChangeAnswer],
    },
)  # fmt: skip
