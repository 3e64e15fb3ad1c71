"""Sections `memory` and `banks`."""

from pydantic import Field

from circadia.records.bank import BankPolicy, Capture
from circadia.settings.section import Section


class MemorySettings(Section):
    """How banks are searched."""

    question_timeout_seconds: float = Field(
        1.0, gt=0, description="How long a search waits for the vector of its question; then it goes by words alone."
    )
    max_indexed_rows: int = Field(
        1_000_000, ge=1, description="Episodes and notes that are kept in memory to be searched, about 1 KB each."
    )


class BankSettings(Section):
    """A bank, or a template of banks: a name with `{user}` in it."""

    description: str = Field("", description="What it is for.")
    capture: Capture = Field(
        Capture.CONTENT,
        description="What of the conversations that pass the gateway is kept: `all` turns, those with `content`, or "
        "only what is remembered on purpose (`explicit`).",
    )
    capture_tools: bool = Field(False, description="Keep calls of tools and their results too.")
    min_importance: float = Field(0.0, ge=0, le=1, description="Turns that score less are left out and counted.")
    hot_edits: bool = Field(False, description="Agents may write blocks while somebody waits.")
    duplicate_seconds: float = Field(
        3600.0, ge=0, description="An exact repetition within this time is counted on the first, not stored."
    )
    keep_days: float | None = Field(
        None, gt=0, description="Episodes older than this are deleted with what is derived; without it, never."
    )

    def policy(self) -> BankPolicy:
        """Return the record of these settings."""
        return BankPolicy(**{name: getattr(self, name) for name in BankSettings.model_fields if name != "description"})
