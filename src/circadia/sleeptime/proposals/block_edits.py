"""Edits of a block, each judged alone, and the one change that those which stand make together (SLEEP-27, SLEEP-83)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from circadia.ids import EpisodeId
from circadia.memory.blocks import DEFAULT_LIMIT, carry_spans
from circadia.records.block import Block, BlockSpan
from circadia.records.change import Change
from circadia.sleeptime.proposals.changes import block_of, write_block
from circadia.sleeptime.proposals.operation import PageContext

EDIT: Final = "edit"
"""Key of an edit in `Change.after`: `old`, `new`, the `ids` of the episodes that it rests on, the other lines that
`new` says `also`, and whether `old` is only `moved` out, since notes say it."""


def propose_edit(
    view: PageContext, operation: str, block: Block, old: str, new: str, ids: Sequence[str], *, why: str,
    also: Sequence[str] = (), moved: bool = False, context: Mapping[str, str] | None = None, refused: str = "",
    waits: bool = False,
) -> Change:  # fmt: skip
    """Return a change that makes one edit of a block, or that has it on record as refused, with the reason.

    `block` has the earlier edits of the same answer, and the change has this one alone: a person reads it as it is,
    whether it waits or is refused, and no other edit falls with it.
    """
    edited = apply_edit(block, old, new, ids, also)
    if edited is None:
        refused = refused or "what it replaces does not stand in the block once"
    elif len(edited.value) > block.limit:
        refused = refused or f"the block has room for {block.limit} characters, and would have {len(edited.value)}"
    read = block_of(view, block.label) or new_block(view, block.label)
    alone = apply_edit(read, old, new, ids, also) or edited or apply_edit(read, "", new, ids) or read
    change = write_block(
        view, operation, block.label, alone.value, [(span.start, span.end, span.episodes) for span in alone.spans],
        why=why,
    )  # fmt: skip
    edit = {"old": old, "new": new, "ids": list(ids), "also": list(also), "moved": moved}
    extra = {EDIT: edit, "text": new or old, "context": dict(context or {}), "refused": refused, "waits": waits}
    return replace(change, after={**(change.after or {}), **{key: value for key, value in extra.items() if value}})


def edit_key(change: Change) -> tuple[str, str, str] | None:
    """Return the block of an edit with the old and the new words; none of another change."""
    edit = cast("Mapping[str, str]", (change.after or {}).get(EDIT))
    return (change.target, edit["old"], edit["new"]) if edit else None


def fold_edits(
    view: PageContext, changes: Sequence[Change], reasons: Sequence[str]
) -> tuple[Sequence[Change], Sequence[str]]:
    """Return the changes with one for all edits of a block that break no rule, and the reason against each.

    Edits that a rule refuses, or that wait for a person, stay alone.
    """
    folded: list[Change] = []
    why_not: list[str] = []
    blocks: dict[str, Block] = {}
    places: dict[str, int] = {}
    for change, reason in zip(changes, reasons or ("",) * len(changes), strict=True):
        after = change.after or {}
        edit = cast("Mapping[str, Any]", after.get(EDIT) or {})
        if not edit or reason or after.get("waits"):
            folded.append(change)
            why_not.append(reason)
            continue
        block = blocks.get(change.target) or block_of(view, change.target) or new_block(view, change.target)
        edited = apply_edit(block, edit["old"], edit["new"], edit["ids"], edit["also"])
        if edited is None or len(edited.value) > block.limit:
            folded.append(change)
            why_not.append("an earlier edit of this pass has changed these words, or taken the room")
            continue
        blocks[change.target] = edited
        whole = write_block(
            view, change.operation, change.target, edited.value,
            [(span.start, span.end, span.episodes) for span in edited.spans], why=change.why,
        )  # fmt: skip
        if change.target in places:
            folded[places[change.target]] = whole
        else:
            places[change.target] = len(folded)
            folded.append(whole)
            why_not.append("")
    return folded, why_not


def apply_edit(block: Block, old: str, new: str, ids: Sequence[str], also: Sequence[str] = ()) -> Block | None:
    """Return the block with `new` in place of `old`, or at its end, and without the lines that `new` says `also`.

    None if one of them does not stand there once. What is removed takes its line with it, if nothing else is in it.
    """
    for line in also:
        without = apply_edit(block, line, "", ())
        if without is None:
            return None
        block = without
    if old and block.value.count(old) != 1:
        return None
    if old:
        start, end = block.value.index(old), block.value.index(old) + len(old)
        if not new and block.value[start - 1 : start] in ("", "\n") and block.value[end : end + 1] in ("", "\n"):
            start, end = (start, end + 1) if end < len(block.value) else (max(start - 1, 0), end)
        value = block.value[:start] + new + block.value[end:]
    else:
        start = len(block.value) + 1 if block.value else 0
        value = f"{block.value}\n{new}" if block.value else new
    spans = carry_spans(block, value)
    if new:
        span = BlockSpan(start=start, end=start + len(new), episodes=sorted(map(EpisodeId, ids)))
        spans = _add_span(spans, span)
    return replace(block, value=value, spans=spans)


def new_block(view: PageContext, label: str) -> Block:
    """Return the block to write if there is none yet."""
    return Block(
        bank_id=view.bank.id, label=label, version=0, parent=None, value="", limit=DEFAULT_LIMIT,
        description="What was learned so far", by="", at=view.now,
    )  # fmt: skip


def _add_span(spans: Sequence[BlockSpan], new: BlockSpan) -> Sequence[BlockSpan]:
    """Return spans with one more, which absorbs those that it overlaps."""
    separate_spans = [span for span in spans if span.end <= new.start or span.start >= new.end]
    within = [span for span in spans if span not in separate_spans]
    ids = {key for span in (new, *within) for key in span.episodes}
    joined = BlockSpan(
        start=min(span.start for span in (new, *within)), end=max(span.end for span in (new, *within)),
        episodes=sorted(EpisodeId(key) for key in ids),
    )  # fmt: skip
    return sorted([*separate_spans, joined], key=lambda span: span.start)
