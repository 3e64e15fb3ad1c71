"""Blocks of a bank: read and write them, see their history, undo, and put them back to a time."""

from datetime import datetime
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field, StrictBool, StrictInt

from circadia.agents.access import require_operator
from circadia.api.bodies import Body
from circadia.api.memory.banks import User
from circadia.api.parts import Parts, Who, noun_router
from circadia.api.policies import MOST_COUNTED
from circadia.api.references import Instant
from circadia.errors import InvalidRequest, NotFound
from circadia.memory.blocks import BlockUpdate, writer_of
from circadia.records.block import Block

router = noun_router("blocks")

Version = Annotated[StrictInt, Field(ge=0, le=MOST_COUNTED)]


class BlockBody(Body):
    """A new version of a block; what is left out, or null, stays as it was."""

    value: str | None = Field(None, description="The text.", examples=["Ann lives in Porto."])
    description: str | None = Field(None, max_length=2000, description="What it is for; whoever writes it reads this.")
    limit: StrictInt | None = Field(
        None, ge=1, le=MOST_COUNTED, description="Characters that it may have, up to 100,000; 5,000 at first."
    )
    pinned: StrictBool | None = Field(
        None, description="Whether it is always in the context, and not only where it fits the question; true at first."
    )
    read_only: StrictBool | None = Field(None, description="Whether only people may write it.")
    expected_version: Version | None = Field(
        None, description="The version that you have read, 0 for none; if it is another now, nothing is changed (409)."
    )
    why: str = Field("", max_length=2000, description="What for.")


class UndoBody(Body):
    """How far to go back."""

    to: Version | None = Field(None, description="This version; by default the one before the present one.")
    expected_version: Version | None = Field(
        None, description="The version that you have read; if it is another now, nothing is changed (409)."
    )


class RestoreBody(Body):
    """When to go back to."""

    at: Instant = Field(description="A date or a time.", examples=["2026-01-31T12:00:00Z"])


class BlockView(BaseModel):
    """One version of a block."""

    bank: str = Field(description="The bank's name.")
    label: str = Field(description="Its name in the bank.", examples=["human"])
    version: int = Field(description="1 for the first; each write makes another.")
    parent: int | None = Field(description="The version that it was made from.")
    value: str = Field(description="The text.")
    description: str = Field(description="What it is for.")
    limit: int = Field(description="Characters that it may have.")
    pinned: bool = Field(description="Whether it is always in the context.")
    read_only: bool = Field(description="Whether only people may write it.")
    deleted: bool = Field(description="Whether this version says that there is no block any more.")
    by: str = Field(description="Who wrote it.", examples=["operator"])
    why: str = Field(description="What for.")
    at: datetime = Field(description="When.")


class BlockList(BaseModel):
    """Blocks, or versions of one."""

    bank: str = Field(description="The bank's name.")
    blocks: list[BlockView] = Field(description="By label; versions of one from the oldest on.")


def block_view(bank: str, block: Block) -> BlockView:
    """Return the version as it is shown."""
    return BlockView(
        bank=bank,
        label=block.label,
        version=block.version,
        parent=block.parent,
        value=block.value,
        description=block.description,
        limit=block.limit,
        pinned=block.pinned,
        read_only=block.read_only,
        deleted=block.deleted,
        by=block.by,
        why=block.why,
        at=block.at,
    )


@router.get("/banks/{b}/blocks")
async def list_blocks(b: str, who: Who, parts: Parts, user: User = None) -> BlockList:
    """List the blocks of a bank. The operator, and agents that may open it."""
    async with parts.store.begin_read() as tx:
        bank = await parts.memory.banks.open_bank(tx, who, b, user=user)
        return BlockList(
            bank=bank.name, blocks=[block_view(bank.name, each) for each in await tx.blocks.find_all(bank.id)]
        )


@router.get("/banks/{b}/blocks/{label}")
async def show_block(b: str, label: str, who: Who, parts: Parts, user: User = None) -> BlockView:
    """Show a block. The operator, and agents that may open the bank."""
    async with parts.store.begin_read() as tx:
        bank = await parts.memory.banks.open_bank(tx, who, b, user=user)
        return block_view(bank.name, await parts.memory.blocks.get(tx, bank, label))


@router.put("/banks/{b}/blocks/{label}")
async def write_block(b: str, label: str, body: BlockBody, who: Who, parts: Parts, user: User = None) -> BlockView:
    """Write a version of a block, the first one too.

    The operator; and agents that may write to the bank, where its policy has `hot_edits` or theirs `sleeptime`, but
    read-only blocks.
    """
    edit = BlockUpdate(
        value=body.value,
        description=body.description,
        limit=body.limit,
        pinned=body.pinned,
        read_only=body.read_only,
        expected_version=body.expected_version,
        why=body.why,
    )
    async with parts.store.begin_write() as tx:
        bank = await parts.memory.banks.open_bank(tx, who, b, write=True, user=user)
        made = await parts.memory.blocks.write(tx, bank, label, edit, writer=writer_of(who), by=who.name)
    return block_view(bank.name, made)


@router.delete("/banks/{b}/blocks/{label}")
async def delete_block(
    b: str,
    label: str,
    who: Who,
    parts: Parts,
    user: User = None,
    why: Annotated[str, Query(max_length=2000, description="What for.")] = "",
    expected_version: Annotated[
        int | None,
        Query(ge=0, le=MOST_COUNTED, description="The version that you have read; if it is another now, 409."),
    ] = None,
) -> BlockView:
    """Delete a block: a version that says so; `undo` brings it back. Those who may write it."""
    async with parts.store.begin_write() as tx:
        bank = await parts.memory.banks.open_bank(tx, who, b, write=True, user=user)
        gone = await parts.memory.blocks.delete(
            tx, bank, label, writer=writer_of(who), by=who.name, why=why, expected=expected_version
        )
    return block_view(bank.name, gone)


@router.get("/banks/{b}/blocks/{label}/history")
async def list_versions(b: str, label: str, who: Who, parts: Parts, user: User = None) -> BlockList:
    """List all versions of a block, deleted ones too. The operator, and agents that may open the bank."""
    async with parts.store.begin_read() as tx:
        bank = await parts.memory.banks.open_bank(tx, who, b, user=user)
        history = await tx.blocks.history(bank.id, label)
    if not history:
        raise NotFound(f"no block {label!r} in bank {bank.name!r} ever")
    return BlockList(bank=bank.name, blocks=[block_view(bank.name, each) for each in history])


@router.post("/banks/{b}/blocks/{label}/undo")
async def undo_block(
    b: str, label: str, who: Who, parts: Parts, body: UndoBody | None = None, user: User = None
) -> BlockView:
    """Make the version before the present one, or the version `to`, the present one again.

    What was undone stays in the history. The operator only.
    """
    require_operator(who)
    to, expected = (body.to, body.expected_version) if body else (None, None)
    async with parts.store.begin_write() as tx:
        bank = await parts.memory.banks.get(tx, b, user)
        made = await parts.memory.blocks.undo(tx, bank, label, to=to, by=who.name, expected=expected)
    return block_view(bank.name, made)


@router.post("/banks/{b}/restore")
async def restore_blocks(b: str, body: RestoreBody, who: Who, parts: Parts, user: User = None) -> BlockList:
    """Make all blocks of a bank what they were at a time; the answer has those that were different.

    The operator only.
    """
    require_operator(who)
    if body.at is None:
        raise InvalidRequest("body.at: say when to go back to")
    async with parts.store.begin_write() as tx:
        bank = await parts.memory.banks.get(tx, b, user)
        made = await parts.memory.blocks.restore(tx, bank, body.at, by=who.name)
    return BlockList(bank=bank.name, blocks=[block_view(bank.name, each) for each in made])
