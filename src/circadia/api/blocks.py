"""Blocks of a bank: read, write, list versions, undo, and restore to a time."""

from typing import Annotated

from fastapi import Query
from pydantic import Field, StrictBool, StrictInt

from circadia.agents.access import require_operator
from circadia.api.banks import User
from circadia.api.bodies import Body, Instant
from circadia.api.context import Context, Limit, Who, fetch_page, noun_router
from circadia.errors import InvalidRequest, NotFound
from circadia.memory.blocks import BlockUpdate, writer_of
from circadia.records.agent import MAX_COUNT
from circadia.schemas.banks import BlockList, BlockView

router = noun_router("blocks")

Version = Annotated[StrictInt, Field(ge=0, le=MAX_COUNT)]


class BlockBody(Body):
    """A new version of a block; keys that are missing or null stay unchanged."""

    value: str | None = Field(None, description="Text.", examples=["Ann lives in Porto."])
    description: str | None = Field(None, max_length=2000, description="Purpose, shown to whoever writes the block.")
    limit: StrictInt | None = Field(
        None, ge=1, le=MAX_COUNT, description="Maximum length in characters, up to 100,000; 5,000 for a new block."
    )
    pinned: StrictBool | None = Field(
        None, description="Always include it in the context, not only when it fits the question; true for a new block."
    )
    read_only: StrictBool | None = Field(None, description="Whether only people may write the block.")
    expected_version: Version | None = Field(
        None, description="Version that you have read, 0 for none; if it has changed, the write fails with 409."
    )
    why: str = Field("", max_length=2000, description="Reason.")


class UndoBody(Body):
    """The version to return to."""

    to: Version | None = Field(None, description="Version to return to; by default the previous one.")
    expected_version: Version | None = Field(
        None, description="Version that you have read; if it has changed, the call fails with 409."
    )


class RestoreBody(Body):
    """The time to return to."""

    at: Instant = Field(description="Date or time to return to.", examples=["2026-01-31T12:00:00Z"])


@router.get("/banks/{bank}/blocks")
async def list_blocks(bank: str, who: Who, context: Context, user: User = None) -> BlockList:
    """List the blocks of a bank. Access: operator, agents with access to the bank."""
    async with context.store.begin_read() as tx:
        found_bank = await context.memory.banks.open_bank(tx, who, bank, user=user)
        return BlockList(
            bank=found_bank.name,
            blocks=[BlockView.of(block, bank=found_bank.name) for block in await tx.blocks.find_all(found_bank.id)],
            next=None,
        )


@router.get("/banks/{bank}/blocks/{label}")
async def show_block(bank: str, label: str, who: Who, context: Context, user: User = None) -> BlockView:
    """Show a block. Access: operator, agents with access to the bank."""
    async with context.store.begin_read() as tx:
        found_bank = await context.memory.banks.open_bank(tx, who, bank, user=user)
        return BlockView.of(await context.memory.blocks.get(tx, found_bank, label), bank=found_bank.name)


@router.put("/banks/{bank}/blocks/{label}")
async def write_block(
    bank: str, label: str, body: BlockBody, who: Who, context: Context, user: User = None
) -> BlockView:
    """Write a version of a block, including the first.

    Access: operator, agents with write access to the bank, if its policy has `hot_edits` or theirs `sleeptime_agent`.
    Agents cannot write read-only blocks.
    """
    async with context.store.begin_write() as tx:
        found_bank = await context.memory.banks.open_bank(tx, who, bank, write=True, user=user)
        written = await context.memory.blocks.write(
            tx, found_bank, label, BlockUpdate(**dict(body)), writer=writer_of(who), by=who.name
        )
    return BlockView.of(written, bank=found_bank.name)


@router.delete("/banks/{bank}/blocks/{label}")
async def delete_block(
    bank: str,
    label: str,
    who: Who,
    context: Context,
    user: User = None,
    why: Annotated[str, Query(max_length=2000, description="Reason.")] = "",
    expected_version: Annotated[
        int | None,
        Query(
            ge=0, le=MAX_COUNT, description="Version that you have read; if it has changed, the call fails with 409."
        ),
    ] = None,
) -> BlockView:
    """Delete a block with a new version; `undo` restores it. Access: the same as for writing it."""
    async with context.store.begin_write() as tx:
        found_bank = await context.memory.banks.open_bank(tx, who, bank, write=True, user=user)
        deleted = await context.memory.blocks.delete(
            tx, found_bank, label, writer=writer_of(who), by=who.name, why=why, expected=expected_version
        )
    return BlockView.of(deleted, bank=found_bank.name)


@router.get("/banks/{bank}/blocks/{label}/history")
async def list_versions(
    bank: str,
    label: str,
    who: Who,
    context: Context,
    user: User = None,
    after: Annotated[int, Query(ge=0, le=MAX_COUNT, description="`next` of the previous page.")] = 0,
    limit: Limit = 1000,
) -> BlockList:
    """List all versions of a block, including deleted ones. Access: operator, agents with access to the bank."""
    async with context.store.begin_read() as tx:
        found_bank = await context.memory.banks.open_bank(tx, who, bank, user=user)
        versions, more = await fetch_page(
            lambda last, most: tx.blocks.history(
                found_bank.id, label, after=after if last is None else last.version, limit=most
            ),
            limit,
        )
    if not versions and not after:
        raise NotFound(f"no block {label!r} in bank {found_bank.name!r} ever")
    return BlockList(
        bank=found_bank.name, blocks=[BlockView.of(version, bank=found_bank.name) for version in versions],
        next=versions[-1].version if more else None,
    )  # fmt: skip


@router.post("/banks/{bank}/blocks/{label}/undo")
async def undo_block(
    bank: str, label: str, who: Who, context: Context, body: UndoBody | None = None, user: User = None
) -> BlockView:
    """Restore the previous version of a block, or the version `to`, as a new version.

    The history keeps all versions. Operator only.
    """
    require_operator(who)
    to, expected = (body.to, body.expected_version) if body else (None, None)
    async with context.store.begin_write() as tx:
        found_bank = await context.memory.banks.get(tx, bank, user)
        restored = await context.memory.blocks.undo(tx, found_bank, label, to=to, by=who.name, expected=expected)
    return BlockView.of(restored, bank=found_bank.name)


@router.post("/banks/{bank}/restore")
async def restore_blocks(bank: str, body: RestoreBody, who: Who, context: Context, user: User = None) -> BlockList:
    """Restore all blocks of a bank to a time; returns the blocks that changed. Operator only."""
    require_operator(who)
    if body.at is None:
        raise InvalidRequest("body.at: say when to go back to")
    async with context.store.begin_write() as tx:
        found_bank = await context.memory.banks.get(tx, bank, user)
        restored = await context.memory.blocks.restore(tx, found_bank, body.at, by=who.name)
    views = [BlockView.of(block, bank=found_bank.name) for block in restored]
    return BlockList(bank=found_bank.name, blocks=views, next=None)
