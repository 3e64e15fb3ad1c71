"""Memory banks in answers, and the results of forgetting and importing."""

from datetime import datetime

from pydantic import Field

from circadia.records.bank import BankPolicy
from circadia.schemas.view import SettingsView, View


class BankView(SettingsView):
    """A bank."""

    id: str = Field(description="Unique id.", examples=["bnk_0cwd…"])
    name: str = Field(description="Unique name.", examples=["support-ann"])
    description: str = Field(description="Purpose.")
    template: str | None = Field(description="Template of the bank.", examples=["support-{user}"])
    end_user: str | None = Field(description="End user of a bank made from a template.")
    policy: BankPolicy = Field(description="Policy of the bank.")
    episodes: int = Field(description="Number of episodes.")
    skipped: dict[str, int] = Field(description="Number of turns that the policy skipped, by reason.")
    created_at: datetime = Field(description="Time of creation.")
    written_at: datetime | None = Field(description="Time of the last new episode.")


class BankList(View):
    """A page of banks."""

    banks: list[BankView] = Field(description="Sorted by name.")
    after: str | None = Field(description="Value of `after` for the next page; null at the end.")


class ForgottenView(View):
    """Number of deleted rows, or of rows to delete."""

    bank: str = Field(description="Name of the bank.")
    episodes: int = Field(description="Number of episodes, with their vectors.")
    notes: int = Field(description="Number of notes based on them or named.")
    versions: int = Field(description="Number of block versions that lost a part.")
    dry_run: bool = Field(description="Whether it was a dry run without changes.")


class ImportedView(View):
    """The result of an import."""

    bank: str = Field(description="Name of the bank.")
    episodes: int = Field(description="Number of new episodes.")
    notes: int = Field(description="Number of new notes.")
    versions: int = Field(description="Number of new block versions.")
    known: int = Field(description="Number of lines that the bank already had.")
