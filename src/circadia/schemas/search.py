"""What a search over names and ids finds, in answers."""

from pydantic import Field

from circadia.records.search_match import SearchKind
from circadia.schemas.banks import HitView
from circadia.schemas.view import View


class SearchMatchView(View):
    """A thing whose name or id meets the text."""

    kind: SearchKind = Field(description="What it is.", examples=["agent"])
    id: str = Field(description="Unique id.", examples=["agt_0cwd…"])
    name: str = Field(description="Name; of a message its sender, of a wake its agent.", examples=["writer"])
    session: str | None = Field(description="Name of its session, where it has one.", examples=["default"])
    about: str = Field(description="Description, status, or the beginning of its text.")
    place: str | None = Field(description="Root of the chain of a message or wake; else null.")


class SearchResult(View):
    """What a search has found."""

    matches: list[SearchMatchView] = Field(
        description="By kind; in each, names that begin with the text, ids that do, then names that have it in them."
    )
    hits: list[HitView] = Field(description="Episodes and notes of the bank, best first; empty without one.")
