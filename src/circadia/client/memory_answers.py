"""Typed answers about memory. Times are strings, ISO 8601 in UTC."""

from typing import Any, TypedDict


class BankAnswer(TypedDict):
    id: str
    name: str
    description: str
    template: str | None
    end_user: str | None
    policy: dict[str, Any]
    tuned_importance: float
    episodes: int
    skipped: dict[str, int]
    created_at: str
    written_at: str | None


class BankPageAnswer(TypedDict):
    """Banks by name; `after` is None on the last page."""

    banks: list[BankAnswer]
    after: str | None


class ForgottenAnswer(TypedDict):
    bank: str
    episodes: int
    notes: int
    versions: int
    dry_run: bool


class StaleAnswer(TypedDict):
    by: str
    reason: str
    evidence: str
    at: str
    weight: float


class EpisodeAnswer(TypedDict):
    id: str
    number: int
    bank: str
    text: str
    speaker: str
    at: str
    kind: str
    session: str | None
    trust: str
    importance: float | None
    metadata: dict[str, Any]
    incomplete: bool
    key: str | None
    repeats: int
    stored_at: str
    embedded_by: str | None
    stale: list[StaleAnswer]


class StoredEpisodeAnswer(EpisodeAnswer):
    """An episode; `new` is False if it already existed."""

    new: bool


class EpisodePageAnswer(TypedDict):
    """Episodes in order; `after` is None on the last page."""

    episodes: list[EpisodeAnswer]
    after: int | None


class StaleChangeAnswer(TypedDict):
    changed: bool
    stale: list[StaleAnswer]


class HitAnswer(TypedDict):
    id: str
    layer: str
    text: str
    speaker: str | None
    kind: str
    at: str
    session: str | None
    trust: str
    importance: float | None
    score: float
    parts: dict[str, float]
    evidence: list[str]


class HitListAnswer(TypedDict):
    bank: str
    hits: list[HitAnswer]


class ReadyAnswer(TypedDict):
    """A frequent question or subject, with its hits if they are ready."""

    kind: str
    text: str
    filters: dict[str, Any]
    asked: int
    asked_at: str | None
    current: bool
    made_at: str | None
    hits: list[HitAnswer]


class ReadyListAnswer(TypedDict):
    """Questions by frequency, then subjects by name."""

    bank: str
    views: list[ReadyAnswer]


class ContextAnswer(TypedDict):
    bank: str
    stable: str
    fitting: str
    blocks: list[str]
    left_out: list[str]
    hits: list[HitAnswer]


class BlockAnswer(TypedDict):
    bank: str
    label: str
    version: int
    parent: int | None
    value: str
    description: str
    limit: int
    pinned: bool
    read_only: bool
    deleted: bool
    by: str
    why: str
    at: str
