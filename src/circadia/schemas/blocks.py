"""Blocks of a bank in answers."""

from datetime import datetime

from pydantic import Field

from circadia.schemas.view import View


class BlockView(View):
    """A version of a block."""

    bank: str = Field(description="Name of the bank.")
    label: str = Field(description="Label, unique in the bank.", examples=["human"])
    version: int = Field(description="Version number, from 1; each write adds one.")
    parent: int | None = Field(description="Version that this one is based on.")
    value: str = Field(description="Text.")
    description: str = Field(description="Purpose.")
    limit: int = Field(description="Maximum length in characters.")
    pinned: bool = Field(description="Whether the context always includes it.")
    read_only: bool = Field(description="Whether only people may write the block.")
    deleted: bool = Field(description="Whether this version deletes the block.")
    by: str = Field(description="Author.", examples=["operator"])
    why: str = Field(description="Reason.")
    at: datetime = Field(description="Time.")


class BlockList(View):
    """Blocks, or versions of a block."""

    bank: str = Field(description="Name of the bank.")
    blocks: list[BlockView] = Field(description="Sorted by label; versions of one block oldest first.")
    next: int | None = Field(
        None, description="`after` of the next page of versions; null in the last one, and in a list of blocks."
    )
