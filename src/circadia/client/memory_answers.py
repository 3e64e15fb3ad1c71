"""What the client's methods on memory return: the server's answers, typed. Times are strings, ISO 8601 in UTC."""

from typing import Any, TypedDict


class BankAnswer(TypedDict):
    """A bank."""

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
    """Banks by name, and what to send as `after` for the next page; none at the end."""

    banks: list[BankAnswer]
    after: str | None


class ForgottenAnswer(TypedDict):
    """What went, or would go."""

    bank: str
    episodes: int
    notes: int
    versions: int
    dry_run: bool


class StaleAnswer(TypedDict):
    """Why an episode counts less."""

    by: str
    reason: str
    evidence: str
    at: str
    weight: float


class EpisodeAnswer(TypedDict):
    """An episode."""

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
    """An episode, and whether it was stored now."""

    new: bool


class EpisodePageAnswer(TypedDict):
    """Episodes in order, and what to send as `after` for the next page; none at the end."""

    episodes: list[EpisodeAnswer]
    after: int | None


class StaleChangeAnswer(TypedDict):
    """What became of a demotion."""

    changed: bool
    stale: list[StaleAnswer]


class HitAnswer(TypedDict):
    """What was found, and the parts of its score."""

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
    """What a search found, best first."""

    bank: str
    hits: list[HitAnswer]


class ReadyAnswer(TypedDict):
    """What is asked often, with its answer if it is ready."""

    kind: str
    text: str
    filters: dict[str, Any]
    asked: int
    asked_at: str | None
    current: bool
    made_at: str | None
    hits: list[HitAnswer]


class ReadyListAnswer(TypedDict):
    """What a bank has ready: questions, the most asked first, then subjects by name."""

    bank: str
    views: list[ReadyAnswer]


class ContextAnswer(TypedDict):
    """What a bank says in a prompt."""

    bank: str
    stable: str
    fitting: str
    blocks: list[str]
    left_out: list[str]
    hits: list[HitAnswer]


class BlockAnswer(TypedDict):
    """One version of a block."""

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
