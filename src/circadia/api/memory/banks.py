"""Banks: make, list, change, delete; forget episodes, and put all blocks back to a time."""

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Final, cast

from fastapi import Query
from pydantic import AfterValidator, BaseModel, Field, StrictBool, StrictFloat, ValidationError, field_validator

from circadia.agents.access import require_operator
from circadia.api.bodies import Body, FirstMistake, Name
from circadia.api.parts import Parts, Who, noun_router
from circadia.api.policies import MOST_MEASURED
from circadia.api.references import Instant
from circadia.errors import InvalidRequest
from circadia.memory.banks import NewBank
from circadia.memory.forgetting import forget
from circadia.records.bank import Bank, BankPolicy, Capture
from circadia.records.end_user import shorten_name
from circadia.records.event import Event, EventType
from circadia.settings.memory import BankSettings
from circadia.settings.sleeptime import SleepPolicySettings
from circadia.settings.validation_messages import describe_mistakes
from circadia.stores.base import Tx
from circadia.suggestions import did_you_mean


def validate_sleep_policy(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys as they are stored, those that are null too.

    Raises:
        ValueError: an unknown key, with the nearest known one, or a bad value.
    """
    stated = {name: value for name, value in given.items() if value is not None}
    try:
        found = SleepPolicySettings.model_validate(stated).model_dump(mode="json", exclude_unset=True)
    except ValidationError as error:
        raise ValueError("; ".join(islice(describe_mistakes(error, stated, SleepPolicySettings), 3))) from None
    _require_measured("", found)
    unknown = [name for name in given if name not in SleepPolicySettings.model_fields]
    if unknown:
        near = did_you_mean(unknown[0], SleepPolicySettings.model_fields)
        raise ValueError(f"unknown key {unknown[0]!r}{near}")
    off = {name: False for name, value in found.items() if value is None}  # null would take the key out
    return {**dict.fromkeys(given), **found, **off}


def _require_measured(path: str, value: object) -> None:
    """Raise ValueError for a number that no clock and no sum can hold."""
    if isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, object]", value).items():
            _require_measured(f"{path}.{name}" if path else name, inner)
    elif isinstance(value, float | int) and not (math.isfinite(value) and abs(value) <= MOST_MEASURED):
        raise ValueError(f"{path}: at most {MOST_MEASURED:g}")


router = noun_router("banks")

MOST_IDS: Final = 10_000
"""Episodes that one call may name."""

User = Annotated[
    str | None,
    Query(max_length=1000, description="The end user, where `{b}` is a template."),
    AfterValidator(shorten_name),
]
"""Whose bank a template means."""


def _setting_description(key: str) -> str:
    """Return how the settings describe the key: it is the same one."""
    return BankSettings.model_fields[key].description or ""


class BankPolicyKeys(BaseModel):
    """How a bank is written to."""

    capture: Capture = Field(Capture.CONTENT, description=_setting_description("capture"))
    capture_tools: StrictBool = Field(False, description=_setting_description("capture_tools"))
    min_importance: StrictFloat = Field(0.0, ge=0, le=1, description=_setting_description("min_importance"))
    tune_importance: StrictBool = Field(False, description=_setting_description("tune_importance"))
    hot_edits: StrictBool = Field(False, description=_setting_description("hot_edits"))
    duplicate_seconds: StrictFloat = Field(
        3600.0, ge=0, le=MOST_MEASURED, description=_setting_description("duplicate_seconds")
    )
    keep_days: StrictFloat | None = Field(None, gt=0, le=MOST_MEASURED, description=_setting_description("keep_days"))
    sleeptime: dict[str, Any] = Field(
        default_factory=dict[str, Any],
        description="What it states of its passes, nested as in the file; the rest is what section `sleeptime` says. A "
        "change replaces the keys that it has, and null takes one out.",
        examples=[{"frequency_turns": 10}],
    )
    own: StrictBool = Field(
        False,
        description="Whether it was set for this bank, so that the file changes it no more; any key that is sent sets "
        "it, and `own: false` gives the bank back to the file.",
    )


class BankPolicyBody(BankPolicyKeys, Body):
    """Keys of a bank's policy; those that are left out stay as they are."""

    @field_validator("sleeptime")
    @classmethod
    def _check_sleeptime(cls, given: dict[str, Any]) -> dict[str, Any]:
        return validate_sleep_policy(given)

    def apply_to(self, before: BankPolicy) -> BankPolicy:
        """Return the policy with what was sent."""
        sent = {name: getattr(self, name) for name in self.model_fields_set}
        if "sleeptime" in sent:
            both = {**before.sleeptime, **self.sleeptime}
            gone = {name for name, value in self.sleeptime.items() if value is None}
            sent["sleeptime"] = {name: value for name, value in both.items() if name not in gone}
        return replace(before, **{"own": bool(sent) or before.own, **sent})


class BankBody(Body):
    """A bank to make."""

    name: Name = Field(description="Unique: `[a-z0-9][a-z0-9_.@~-]{0,127}`.", examples=["support"])
    description: str = Field("", max_length=4000, description="What it is for.")
    policy: BankPolicyBody | None = Field(None, description="How it is written to.")


class BankChange(Body):
    """What of a bank to change; what is left out, or null, stays as it is."""

    name: Name | None = Field(None, description="A new name; agents bind a bank by its name.")
    description: str | None = Field(None, max_length=4000, description="What it is for.")
    policy: BankPolicyBody | None = Field(None, description="How it is written to.")


class BankView(BaseModel):
    """A bank."""

    id: str = Field(description="Key.", examples=["bnk_0cwd…"])
    name: str = Field(description="Unique.", examples=["support-ann"])
    description: str = Field(description="What it is for.")
    template: str | None = Field(description="The template that it was made from.", examples=["support-{user}"])
    end_user: str | None = Field(description="The person whom it belongs to, where it was made from a template.")
    policy: BankPolicyKeys = Field(description="How it is written to.")
    episodes: int = Field(description="How many episodes it holds.")
    tuned_importance: float = Field(
        description="From which importance on turns are kept where `min_importance` is 0, as passes have tuned it."
    )
    skipped: dict[str, int] = Field(description="How many turns its policy has left out, by why.")
    created_at: datetime = Field(description="When it was made.")
    written_at: datetime | None = Field(description="When something was last remembered.")


class BankList(BaseModel):
    """A page of banks."""

    banks: list[BankView] = Field(description="By name.")
    after: str | None = Field(description="What to send as `after` for the next page; null at the end.")


class ForgetBody(Body):
    """What to forget: episodes and notes by id, or all episodes that meet each condition. One key must be given."""

    ids: Annotated[list[Name], FirstMistake()] | None = Field(
        None, max_length=MOST_IDS, description="Episodes and notes; with a condition below, of these episodes only."
    )
    session: Name | None = Field(None, description="Of this conversation.")
    speaker: Name | None = Field(None, description="Said by them.")
    since: Instant = Field(None, description="From this date or time on.")
    until: Instant = Field(None, description="Before this date or time.")
    dry_run: StrictBool = Field(False, description="Tell only what would go.")


class ForgottenView(BaseModel):
    """What went, or would go."""

    bank: str = Field(description="The bank's name.")
    episodes: int = Field(description="Episodes, with their vectors.")
    notes: int = Field(description="Notes that rested on any of them, or were named.")
    versions: int = Field(description="Versions of blocks that lost a part.")
    dry_run: bool = Field(description="Whether nothing was changed.")


async def bank_view(tx: Tx, bank: Bank) -> BankView:
    """Return the bank as it is shown."""
    return BankView(
        id=bank.id,
        name=bank.name,
        description=bank.description,
        template=bank.template,
        end_user=bank.end_user,
        policy=BankPolicyKeys(**{name: getattr(bank.policy, name) for name in BankPolicyKeys.model_fields}),
        tuned_importance=bank.policy.tuned_importance,
        episodes=await tx.episodes.count(bank.id),
        skipped=dict(bank.skipped),
        created_at=bank.created_at,
        written_at=bank.written_at,
    )


@router.post("/banks", status_code=201)
async def create_bank(body: BankBody, who: Who, parts: Parts) -> BankView:
    """Make a bank. The operator only; the banks that an agent is bound to make themselves."""
    require_operator(who)
    policy = body.policy.apply_to(BankPolicy()) if body.policy else BankPolicy()
    async with parts.store.begin_write() as tx:
        new = NewBank(name=body.name, description=body.description, policy=policy)
        return await bank_view(tx, await parts.memory.banks.create(tx, new, by=who.name))


@router.get("/banks")
async def list_banks(
    who: Who,
    parts: Parts,
    template: Annotated[str | None, Query(description="Made from this template only.")] = None,
    after: Annotated[str, Query(description="Name of the last bank of the page before.")] = "",
    limit: Annotated[int, Query(ge=1, le=1000, description="How many at most.")] = 100,
) -> BankList:
    """List banks: all for the operator, for an agent those that it may open."""
    async with parts.store.begin_read() as tx:
        banks = await parts.memory.banks.list_banks(tx, who, template=template, after=after, limit=limit + 1)
        page = [await bank_view(tx, bank) for bank in banks[:limit]]
    return BankList(banks=page, after=page[-1].name if len(banks) > limit else None)


@router.get("/banks/{b}")
async def show_bank(b: str, who: Who, parts: Parts, user: User = None) -> BankView:
    """Show a bank. The operator, and agents that may open it."""
    async with parts.store.begin_read() as tx:
        return await bank_view(tx, await parts.memory.banks.open_bank(tx, who, b, user=user))


@router.patch("/banks/{b}")
async def change_bank(b: str, body: BankChange, who: Who, parts: Parts, user: User = None) -> BankView:
    """Rename a bank, or change what it is for or how it is written to. The operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        bank = await parts.memory.banks.get(tx, b, user)
        policy = body.policy.apply_to(bank.policy) if body.policy else None
        changed = await parts.memory.banks.change(
            tx, bank, by=who.name, name=body.name, description=body.description, policy=policy
        )
        return await bank_view(tx, changed)


@router.delete("/banks/{b}", status_code=204)
async def delete_bank(b: str, who: Who, parts: Parts, user: User = None) -> None:
    """Delete a bank with all that it holds. The operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        await parts.memory.banks.delete(tx, await parts.memory.banks.get(tx, b, user), by=who.name)


@router.post("/banks/{b}/forget")
async def forget_episodes(b: str, body: ForgetBody, who: Who, parts: Parts, user: User = None) -> ForgottenView:
    """Delete episodes with all that rests on them (vectors, notes, parts of blocks in every version), or notes alone.

    The operator only.
    """
    require_operator(who)
    store = parts.store
    async with store.begin_read() if body.dry_run else store.begin_write() as tx:
        bank = await parts.memory.banks.get(tx, b, user)
        ids = await _select_ids(tx, bank, body)
        gone = await forget(tx, bank, ids, dry_run=body.dry_run)
        if not body.dry_run:
            counts = {"episodes": gone.episodes, "notes": gone.notes, "versions": gone.versions}
            data = {"bank": bank.name, "by": who.name, **counts}
            await tx.events.add([Event(type=EventType.FORGOTTEN, at=parts.clock.now(), data=data)])
            parts.memory.retrieval.askings.drop(bank.id)
    return ForgottenView(
        bank=bank.name, episodes=gone.episodes, notes=gone.notes, versions=gone.versions, dry_run=body.dry_run
    )


async def _select_ids(tx: Tx, bank: Bank, body: ForgetBody) -> list[str]:
    """Return the ids of what the body means.

    Raises:
        InvalidRequest: it means none in particular, which must not mean all.
    """
    conditions = (body.session, body.speaker, body.since, body.until)
    if body.ids is None and not any(each is not None for each in conditions):
        raise InvalidRequest("say what to forget: `ids`, `session`, `speaker`, `since` or `until`")
    if body.ids is not None and not any(each is not None for each in conditions):
        return list(dict.fromkeys(body.ids))
    found = await tx.episodes.find_matching_ids(
        bank.id, session=body.session, speaker=body.speaker, since=body.since, until=body.until
    )
    named = None if body.ids is None else frozenset(body.ids)
    return [each for each in found if named is None or each in named]
