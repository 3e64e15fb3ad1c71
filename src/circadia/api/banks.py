"""Banks: create, list, change, delete, forget episodes, and export and import as JSON Lines (MEM-16)."""

import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from itertools import islice
from tempfile import SpooledTemporaryFile, gettempdir
from typing import Annotated, Any, Final, cast

from fastapi import Query, Request, Response
from pydantic import AfterValidator, ConfigDict, Field, StrictBool, ValidationError, field_validator
from starlette.responses import StreamingResponse

from circadia.agents.access import require_operator
from circadia.api.bodies import (
    TAGGED,
    BankName,
    Body,
    IfMatch,
    Instant,
    drop_defaults,
    entity_tag,
    require_match,
    set_etag,
)
from circadia.api.context import ApiContext, Context, Limit, Who, noun_router
from circadia.errors import InvalidRequest, StorageUnavailable
from circadia.memory.banks import NewBank
from circadia.memory.forgetting import delete_bank_page, forget
from circadia.memory.transfer.importer import read_lines
from circadia.memory.transfer.lines import export_lines
from circadia.records.agent import MAX_AMOUNT, MAX_COUNT, FirstMistake, Name
from circadia.records.bank import Bank, BankPolicy
from circadia.records.conversation import shorten_name
from circadia.records.event import EpisodeDeletion, EventType
from circadia.schemas.banks import BankList, BankView, ForgottenView, ImportedView
from circadia.settings import describe_mistakes
from circadia.settings.sleeptime import SleepPolicySettings
from circadia.stores.base import Tx
from circadia.suggestions import did_you_mean


def validate_sleep_policy(policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys in their stored form, including null ones.

    Raises:
        ValueError: an unknown key, with the nearest known one, or a bad value.
    """
    policy = {name: value for name, value in policy.items() if name not in SleepPolicySettings.withdrawn}
    stated = {name: value for name, value in policy.items() if value is not None}
    try:
        values = SleepPolicySettings.model_validate(stated).model_dump(mode="json", exclude_unset=True)
    except ValidationError as error:
        raise ValueError("; ".join(islice(describe_mistakes(error, stated, SleepPolicySettings), 3))) from None
    _require_measured("", values)
    unknown = [name for name in policy if name not in SleepPolicySettings.model_fields]
    if unknown:
        near = did_you_mean(unknown[0], SleepPolicySettings.model_fields)
        raise ValueError(f"unknown key {unknown[0]!r}{near}")
    off = {name: False for name, value in values.items() if value is None}  # null would remove the key
    return {**dict.fromkeys(policy), **values, **off}


def _require_measured(path: str, value: object) -> None:
    """Raise ValueError for a number that is too large or not finite."""
    if isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, object]", value).items():
            _require_measured(f"{path}.{name}" if path else name, inner)
    elif isinstance(value, float | int) and not (math.isfinite(value) and abs(value) <= MAX_AMOUNT):
        raise ValueError(f"{path}: at most {MAX_AMOUNT:g}")


router = noun_router("banks")

MAX_IDS: Final = 10_000
"""Maximum number of episodes in one call."""

User = Annotated[
    str | None, Query(max_length=1000, description="End user, if `{bank}` is a template."), AfterValidator(shorten_name)
]
"""The end user of a template's bank."""


class BankPolicyBody(BankPolicy, Body):
    """Policy keys of a bank; missing ones stay unchanged."""

    model_config = ConfigDict(json_schema_extra=drop_defaults)

    @field_validator("sleeptime")
    @classmethod
    def _check_sleeptime(cls, value: dict[str, Any]) -> dict[str, Any]:
        return validate_sleep_policy(value)

    def apply_to(self, before: BankPolicy) -> BankPolicy:
        """Return the policy with the keys of the request."""
        sent = {name: getattr(self, name) for name in self.model_fields_set}
        if "sleeptime" in sent:
            both = {**before.sleeptime, **self.sleeptime}
            removed_names = {name for name, value in self.sleeptime.items() if value is None}
            sent["sleeptime"] = {name: value for name, value in both.items() if name not in removed_names}
        return before.model_copy(update={"own": bool(sent) or before.own, **sent})


class BankBody(Body):
    """A new bank."""

    name: BankName = Field(description="Unique name: `[a-z0-9][a-z0-9_.@~-]{0,127}`.", examples=["support"])
    description: str = Field("", max_length=4000, description="Purpose.")
    policy: BankPolicyBody | None = Field(None, description="Policy of the bank.")


class BankChange(Body):
    """Changes to a bank; keys that are missing or null stay unchanged."""

    name: BankName | None = Field(None, description="New name; agents bind a bank by name.")
    description: str | None = Field(None, max_length=4000, description="Purpose.")
    policy: BankPolicyBody | None = Field(None, description="Policy of the bank.")


class ForgetBody(Body):
    """Episodes and notes to forget: ids, or conditions that episodes must all meet. At least one key is required."""

    ids: Annotated[list[Name], FirstMistake()] | None = Field(
        None,
        max_length=MAX_IDS,
        description="Ids of episodes and notes; with a condition below, only the matching episodes.",
    )
    conversation: Name | None = Field(None, description="Episodes of this conversation.")
    speaker: Name | None = Field(None, description="Episodes of this speaker.")
    since: Instant = Field(None, description="At or after this date or time.")
    until: Instant = Field(None, description="Before this date or time.")
    dry_run: StrictBool = Field(False, description="Count without deleting.")


async def bank_view(context: ApiContext, tx: Tx, bank: Bank) -> BankView:
    return BankView.of(bank, episodes=await tx.episodes.count(bank.id), model=context.sleeptime.model_name)


def _tag(bank: Bank) -> str:
    """Return the tag of what people set."""
    return entity_tag(bank.name, bank.description, bank.policy.model_dump())


@router.post("/banks", status_code=201)
async def create_bank(body: BankBody, who: Who, context: Context) -> BankView:
    """Create a bank. Operator only; a bank that an agent is bound to is created automatically."""
    require_operator(who)
    policy = body.policy.apply_to(BankPolicy()) if body.policy else BankPolicy()
    async with context.store.begin_write() as tx:
        new = NewBank(name=body.name, description=body.description, policy=policy)
        return await bank_view(context, tx, await context.memory.banks.create(tx, new, by=who.name))


@router.get("/banks")
async def list_banks(
    who: Who,
    context: Context,
    template: Annotated[str | None, Query(description="Only banks made from this template.")] = None,
    name: Annotated[str, Query(max_length=128, description="Only banks whose name begins with this.")] = "",
    after: Annotated[str, Query(description="Name of the last bank on the previous page.")] = "",
    limit: Limit = 100,
) -> BankList:
    """List banks: all for the operator, and for an agent those that it may access."""
    async with context.store.begin_read() as tx:
        banks = await context.memory.banks.list_banks(
            tx, who, template=template, prefix=name, after=after, limit=limit + 1
        )
        page = [await bank_view(context, tx, bank) for bank in banks[:limit]]
    return BankList(banks=page, after=page[-1].name if len(banks) > limit else None)


@router.get("/banks/{bank}", responses=TAGGED)
async def show_bank(bank: str, response: Response, who: Who, context: Context, user: User = None) -> BankView:
    """Show a bank. Access: operator, agents with access to the bank."""
    async with context.store.begin_read() as tx:
        found_bank = await context.memory.banks.open_bank(tx, who, bank, user=user)
        set_etag(response, _tag(found_bank))
        return await bank_view(context, tx, found_bank)


@router.patch("/banks/{bank}", responses=TAGGED)
async def change_bank(
    bank: str,
    body: BankChange,
    response: Response,
    who: Who,
    context: Context,
    user: User = None,
    if_match: IfMatch = None,
) -> BankView:
    """Change the name, purpose or policy of a bank. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        found_bank = await context.memory.banks.get(tx, bank, user)
        await require_match(tx, if_match, _tag(found_bank), f"bank {found_bank.name!r}")
        policy = body.policy.apply_to(found_bank.policy) if body.policy else None
        changed = await context.memory.banks.change(
            tx, found_bank, by=who.name, name=body.name, description=body.description, policy=policy
        )
        set_etag(response, _tag(changed))
        return await bank_view(context, tx, changed)


@router.delete("/banks/{bank}", status_code=204)
async def delete_bank(bank: str, who: Who, context: Context, user: User = None) -> None:
    """Delete a bank and its contents, a page at a time. Operator only."""
    require_operator(who)
    is_gone = False
    while not is_gone:
        async with context.store.begin_write() as tx:
            found_bank = await context.memory.banks.get(tx, bank, user)
            is_gone = await delete_bank_page(tx, context.memory.banks, found_bank, by=who.name)


@router.post("/banks/{bank}/forget")
async def forget_episodes(bank: str, body: ForgetBody, who: Who, context: Context, user: User = None) -> ForgottenView:
    """Delete episodes with everything derived from them (vectors, notes, block parts in every version), or only notes.

    Operator only.
    """
    require_operator(who)
    store = context.store
    async with store.begin_read() if body.dry_run else store.begin_write() as tx:
        found_bank = await context.memory.banks.get(tx, bank, user)
        ids = await _select_ids(tx, found_bank, body)
        deleted = await forget(tx, found_bank, ids, dry_run=body.dry_run)
        if not body.dry_run:
            data = EpisodeDeletion(
                bank=found_bank.name, by=who.name, episodes=deleted.episodes, notes=deleted.notes,
                versions=deleted.versions,
            )  # fmt: skip
            await context.memory.events.record(tx, EventType.FORGOTTEN, data)
    return ForgottenView.of(deleted, bank=found_bank.name, dry_run=body.dry_run)


async def _select_ids(tx: Tx, bank: Bank, body: ForgetBody) -> list[str]:
    """Return the ids that match the body.

    Raises:
        InvalidRequest: there is no condition, which must not mean all.
    """
    conditions = (body.conversation, body.speaker, body.since, body.until)
    if body.ids is None and not any(condition is not None for condition in conditions):
        raise InvalidRequest("say what to forget: `ids`, `conversation`, `speaker`, `since` or `until`")
    if body.ids is not None and not any(condition is not None for condition in conditions):
        return list(dict.fromkeys(body.ids))
    ids = await tx.episodes.find_matching_ids(
        bank.id, conversation=body.conversation, speaker=body.speaker, since=body.since, until=body.until
    )
    allowed = None if body.ids is None else frozenset(body.ids)
    return [episode_id for episode_id in ids if allowed is None or episode_id in allowed]


transfer_router = noun_router("memory-transfer")

IN_MEMORY: Final = 8 * 2**20
"""Bytes of an export kept in memory for a slow reader; the rest goes to a temporary file."""
CHUNK: Final = 2**16
_LINES: Final = "application/x-ndjson"
_BYTES: Final = "application/octet-stream"
_BYTES_CONTENT: Final = {_BYTES: {"schema": {"type": "string", "format": "binary"}}}


class LinesResponse(StreamingResponse):
    media_type = _LINES


@transfer_router.get(
    "/banks/{bank}/export",
    status_code=200,
    response_class=LinesResponse,
    responses={200: {"content": {_LINES: {"schema": {"type": "string"}}, **_BYTES_CONTENT}}},
)
async def export_bank(bank: str, request: Request, who: Who, context: Context, user: User = None) -> LinesResponse:
    """Export a bank as JSON Lines, in its current state. Operator only.

    The first line is the bank with the format version; then come episodes, notes and all versions of blocks; the last
    line counts them. Vectors are not included. If `Accept` is `application/octet-stream`, so is the media type.
    """
    require_operator(who)
    spooled: SpooledTemporaryFile[bytes] = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115  the stream closes it
    try:
        async with context.store.begin_read() as tx:  # consistent; a slow reader must not keep the transaction open
            found_bank = await context.memory.banks.get(tx, bank, user)
            async with aclosing(export_lines(tx, found_bank, context.clock.now())) as lines:
                async for chunk in lines:
                    spooled.write(chunk)
        spooled.seek(0)  # flushes the buffer
    except BaseException as error:
        with suppress(OSError):  # close flushes again
            spooled.close()
        if isinstance(error, OSError):
            message = f"the export does not fit in {gettempdir()!r}: {error.strerror}; make room there, or set TMPDIR"
            raise StorageUnavailable(message, retry_after_seconds=30) from error
        raise
    return LinesResponse(
        _read_chunks(spooled), media_type=_BYTES if request.headers.get("accept") == _BYTES else _LINES
    )


async def _read_chunks(spooled: "SpooledTemporaryFile[bytes]") -> AsyncGenerator[bytes]:
    with spooled:
        while chunk := spooled.read(CHUNK):
            yield chunk


@transfer_router.post(
    "/banks/{bank}/import",
    openapi_extra={"requestBody": {"required": True, "description": "JSON Lines.", "content": _BYTES_CONTENT}},
)
async def import_lines(
    bank: str,
    request: Request,
    who: Who,
    context: Context,
    first_line: Annotated[
        int, Query(ge=1, le=MAX_COUNT, description="Number of the first line in the source file, for error messages.")
    ] = 1,
) -> ImportedView:
    """Import lines of an export, all or none. Operator only.

    The import skips rows that the bank already has, by id or key. The bank's line creates the bank if it does not
    exist.
    """
    require_operator(who)
    if not (body := await request.body()).strip():
        raise InvalidRequest("the body is empty; send the lines of an export")
    lines = read_lines(body, first_line)
    async with context.store.begin_write() as tx:
        imported = await context.memory.intake.add_lines(tx, bank, lines, by=who.name)
    return ImportedView.of(imported)
