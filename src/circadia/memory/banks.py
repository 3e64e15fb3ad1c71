"""Create, find, change and delete banks, and check which of them an agent may open (MEM-12)."""

import hashlib
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Final

from circadia.clock import Clock
from circadia.errors import Conflict, Forbidden, InvalidRequest, NotFound
from circadia.ids import BankId, IdSource
from circadia.records.agent import Agent, AgentPolicy
from circadia.records.bank import NAME, Bank, BankPolicy, CaptureMode
from circadia.records.event import BankLifecycle, BankUpdate, EventType
from circadia.records.principal import Principal
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog
from circadia.suggestions import did_you_mean

USER: Final = "{user}"
"""Placeholder for the end user in a template."""
PLAIN_USER: Final = re.compile(r"[a-z0-9][a-z0-9_.@-]{0,62}")
"""Users whose name becomes part of their bank's name; any other user gets a hash, so that no two banks collide."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewBank:
    name: str
    description: str = ""
    policy: BankPolicy = field(default_factory=BankPolicy)
    template: str | None = None
    """The template that an imported bank was made from."""
    end_user: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BankLayer:
    """One of several banks that are read together."""

    name: str
    """Its name or template, as the policy or the request has it."""
    bank: Bank


@dataclass(frozen=True, kw_only=True, slots=True)
class BankLayers:
    """The banks that are read for an agent's turn."""

    first: Bank | None
    """Where its turns are stored; None if there is none yet, or its template needs a user who is unknown."""
    layers: Sequence[BankLayer] = ()
    """All of them in order, with the first; empty for an agent with one bank."""
    left_out: Sequence[str] = ()
    """Names of banks that do not exist, or that the agent may not open."""

    @property
    def banks(self) -> Sequence[Bank]:
        if self.layers or self.first is None:
            return [layer.bank for layer in self.layers]
        return (self.first,)

    def find(self, bank_id: str) -> BankLayer | None:
        return next((layer for layer in self.layers if layer.bank.id == bank_id), None)

    @property
    def others(self) -> Sequence[Bank]:
        """Return the banks behind the first."""
        return [bank for bank in self.banks if bank is not self.first]

    def name_of(self, bank_id: BankId) -> str:
        """Return the name of one of the banks."""
        return next(bank.name for bank in self.banks if bank.id == bank_id)


class BankService:
    """The only writer of banks."""

    def __init__(self, clock: Clock, ids: IdSource, events: EventLog, policies: dict[str, BankPolicy]) -> None:
        """`policies` come from the configuration file, by bank name or template; other banks have the default."""
        self._clock = clock
        self._events = events
        self._ids = ids
        self._policies = policies

    async def create(self, tx: Tx, new: NewBank, *, by: str) -> Bank:
        """Create a bank, or take over an automatic one. Raises InvalidRequest: a bad name. Conflict: it is taken."""
        _require_name(new.name)
        existing = await tx.banks.get_by_name(new.name)
        if existing is not None and existing.automatic and new.template is None:
            return await self.change(tx, existing, by=by, description=new.description, policy=new.policy)
        more = {"description": new.description, "template": new.template, "end_user": new.end_user}
        return await self._add(tx, new.name, new.policy, by, **more)

    async def get(self, tx: Tx, name: str, user: str | None = None) -> Bank:
        """Return the bank of a name, or of a template and a user. Raises NotFound, InvalidRequest: wrong `user`."""
        if USER in name:
            if not user:
                raise InvalidRequest(f"bank {name!r} takes an end user; name one with `user`")
            bank = await tx.banks.get_by_end_user(name, user)
            if bank is None:
                raise NotFound(f"bank {name!r} of {user!r} holds nothing yet")
            return bank
        if user is not None:
            raise InvalidRequest(f"bank {name!r} is not a template; leave `user` out")
        bank = await tx.banks.get_by_name(name)
        if bank is None:
            near = did_you_mean(name, await tx.banks.names_near(name))
            raise NotFound(f"no bank {name!r}{near or '; `circadia banks` lists them'}")
        return bank

    async def resolve_bound_bank(
        self, tx: Tx, policy: AgentPolicy, user: str | None, *, make: bool = False
    ) -> Bank | None:
        """Return the bank for an agent's turn; None if none is bound, or its template needs a user who is unknown.

        `make` creates a missing bank. An empty `user` is unknown. A user's bank may have the wanted name by chance,
        because of how that user is called: it is another bank, and is renamed when `make` is set.
        """
        user = user or None
        if policy.bank is None or is_stranger(policy, user):
            return None
        if USER in policy.bank and user is not None:
            return await self._resolve_user_bank(tx, policy.bank, user, make=make)
        bank = await tx.banks.get_by_name(policy.bank)
        if bank is not None and _is_named_by_chance(bank):
            if not make:
                return None
            yielding = replace(bank, name=_hashed_name(bank.template or "", bank.end_user or ""))
            await tx.banks.save(yielding)
            await self._record_change(tx, BankUpdate(bank=yielding.name, by="circadia", was=bank.name))
            bank = None
        if bank is not None or not make:
            return bank
        try:
            return await self._add_bound(tx, policy.bank)
        except Conflict:  # another block has made it at the same moment
            return await self.resolve_bound_bank(tx, policy, user)

    async def resolve_layers(self, tx: Tx, policy: AgentPolicy, user: str | None) -> BankLayers:
        """Return the banks of an agent's turn, in a read block, by one statement (MEM-35).

        Without a known user, templates give nothing, and no bank stores the turn.
        """
        user = user or None
        if not policy.other_banks:
            return BankLayers(first=await self.resolve_bound_bank(tx, policy, user))
        if user is None and policy.multi_user:
            return BankLayers(first=None)
        found = await self._find_layers(tx, policy.banks, user, granted=_bank_names(policy))
        takes_turns = not is_stranger(policy, user)
        first = next((each.bank for each in found.layers if takes_turns and each.name == policy.bank), None)
        return replace(found, first=first)

    async def open_layers(
        self, tx: Tx, principal: Principal, names: Sequence[str], *, user: str | None = None
    ) -> BankLayers:
        """Return those of these banks that exist and that the principal may open; `left_out` names the others."""
        granted = None if principal.agent is None else _bank_names(principal.agent.policy)
        return await self._find_layers(tx, tuple(dict.fromkeys(names)), user or None, granted=granted)

    async def open_bound_layers(
        self, tx: Tx, principal: Principal, name: str | None, *, user: str | None = None
    ) -> BankLayers:
        """Return the bank that `open_bank` does, or without a name the several that are bound to the agent."""
        policy = None if principal.agent is None else principal.agent.policy
        if name is None and policy is not None and policy.other_banks:
            return await self.open_layers(tx, principal, policy.banks, user=user)
        return BankLayers(first=await self.open_bank(tx, principal, name, user=user))

    async def _find_layers(
        self, tx: Tx, names: Sequence[str], user: str | None, *, granted: Collection[str] | None
    ) -> BankLayers:
        templates = [name for name in names if USER in name and user is not None]
        plain = [name for name in names if USER not in name]
        found = await tx.banks.find_layers(plain, templates, user or "") if plain or templates else ()
        by_name = {bank.name: bank for bank in found}
        by_template = {bank.template: bank for bank in found if bank.end_user == user}
        layers: list[BankLayer] = []
        left_out: list[str] = []
        for name in names:
            is_template = USER in name
            bank = by_template.get(name) if is_template else by_name.get(name)
            if bank is not None and (granted is None or _is_granted(name, bank, granted)):
                layers.append(BankLayer(name=name, bank=bank))
            elif not is_template or (granted is not None and name not in granted):  # a user's bank comes with a turn
                left_out.append(name)
        return BankLayers(first=None, layers=layers, left_out=left_out)

    async def make_bound_banks(self, tx: Tx, policies: Sequence[AgentPolicy]) -> None:
        """Create the banks that agents are bound to, where they are missing."""
        names = {policy.bank for policy in policies if policy.bank is not None and not is_stranger(policy, None)}
        names |= {name for policy in policies if policy.other_banks for name in policy.banks if USER not in name}
        present = {bank.name: bank for bank in await tx.banks.find_by_names(names)}
        for name in sorted(names):  # it takes no key of a bank that is there: these would have to be taken in order
            if name not in present:
                with suppress(Conflict):  # another block has made it at the same moment
                    await self._add_bound(tx, name)
            elif _is_named_by_chance(present[name]):
                await self.resolve_bound_bank(tx, AgentPolicy(bank=name), None, make=True)

    async def open_bank(
        self, tx: Tx, principal: Principal, name: str | None, *, write: bool = False, user: str | None = None
    ) -> Bank:
        """Return the bank that a principal asks for; without a name, the agent's bound bank.

        `name` may be one of the agent's templates; `user` then selects the bank.

        Raises:
            NotFound: there is none. Forbidden: the principal may not open it, or not write to it.
            InvalidRequest: a name or an end user is missing.
        """
        if principal.agent is None:
            if name is None:
                raise InvalidRequest("name a bank")
            return await self.get(tx, name, user)
        policy = principal.agent.policy
        bank_name = name or policy.bank
        if bank_name is None:
            raise InvalidRequest(f"agent {principal.agent.reference!r} has no bank; set `bank` in its policy")
        rule, bank = await self._find_allowed(tx, policy, bank_name, user, make=write)
        if rule is None:
            raise Forbidden(f"bank {bank_name!r} is not one of {principal.agent.reference!r}")
        if write and not _may_write(policy, rule):
            raise Forbidden(f"{principal.agent.reference!r} may only read bank {bank_name!r}")
        if bank is None:
            raise NotFound(f"bank {bank_name!r} holds nothing yet")
        return bank

    async def list_banks(
        self, tx: Tx, principal: Principal, *, template: str | None = None, prefix: str = "", after: str = "",
        limit: int | None = None,
    ) -> Sequence[Bank]:  # fmt: skip
        """Return up to `limit` banks that a principal may open, by name, after `after`, that begin with `prefix`."""
        named = None if principal.agent is None else _bank_names(principal.agent.policy)
        banks = await tx.banks.find_all(template=template, named=named, least=prefix, after=after, limit=limit)
        return list(takewhile(lambda bank: bank.name.startswith(prefix), banks))

    async def change(
        self, tx: Tx, bank: Bank, *, by: str, name: str | None = None, description: str | None = None,
        policy: BankPolicy | None = None,
    ) -> Bank:  # fmt: skip
        """Change a bank. Raises InvalidRequest: a bad name. Conflict: it is taken."""
        if name is not None and name != bank.name:
            _require_name(name)
            if await tx.banks.get_by_name(name) is not None:
                raise Conflict(f"there is a bank {name!r} already")
        changed = replace(
            bank,
            name=bank.name if name is None else name,
            description=bank.description if description is None else description,
            policy=bank.policy if policy is None else policy,
            automatic=False,
        )
        await tx.banks.save(changed)
        more = {"was": bank.name} if name else {}
        await self._record_change(tx, BankUpdate.model_validate({"bank": changed.name, "by": by, **more}))
        return changed

    async def delete(self, tx: Tx, bank: Bank, *, by: str) -> bool:
        """Delete a page of the bank's contents, and the bank with the last one; return whether it is gone."""
        is_gone = await tx.banks.remove(bank.id)
        if is_gone:
            await self._events.record(tx, EventType.BANK_DELETED, BankLifecycle(bank=bank.name, by=by))
        return is_gone

    async def _find_allowed(
        self, tx: Tx, policy: AgentPolicy, wanted: str, user: str | None, *, make: bool
    ) -> tuple[str | None, Bank | None]:
        """Return the agent's name or template that grants access to the bank, and the bank if it exists."""
        own = _bank_names(policy)
        if wanted in own:
            if USER in wanted:
                if not user:
                    raise InvalidRequest(f"bank {wanted!r} takes an end user; name one with `user`")
                return wanted, await self._resolve_user_bank(tx, wanted, user, make=make and _may_write(policy, wanted))
            return wanted, await self.resolve_bound_bank(tx, AgentPolicy(bank=wanted), None, make=make)
        bank = await tx.banks.get_by_name(wanted)
        if bank is not None and bank.template in own:
            return bank.template, bank
        return None, None

    async def _resolve_user_bank(self, tx: Tx, template: str, user: str, *, make: bool) -> Bank | None:
        bank = await tx.banks.get_by_end_user(template, user)
        if bank is not None or not make:
            return bank
        plain = [template.replace(USER, user)] if PLAIN_USER.fullmatch(user) else []
        for name in (*plain, _hashed_name(template, user)):
            try:
                return await self._add(tx, name, self._policy(template), "circadia", template=template, end_user=user)
            except Conflict:  # the name is another bank's, or another block has made this bank at the same moment
                bank = await tx.banks.get_by_end_user(template, user)
                if bank is not None:
                    return bank
        raise Conflict(f"another bank has the name that the bank of {user!r} would get; rename that one")

    def _policy(self, name: str) -> BankPolicy:
        return self._policies.get(name, BankPolicy())

    async def _add_bound(self, tx: Tx, name: str) -> Bank:
        return await self._add(tx, name, self._policy(name), "circadia", automatic=True)

    async def _add(self, tx: Tx, name: str, policy: BankPolicy, by: str, **more: Any) -> Bank:
        bank = Bank(id=BankId(self._ids.new("bnk")), name=name, policy=policy, created_at=self._clock.now(), **more)
        await tx.banks.add(bank)
        await self._events.record(tx, EventType.BANK_CREATED, BankLifecycle(bank=bank.name, by=by))
        return bank

    async def _record_change(self, tx: Tx, data: BankUpdate) -> None:
        await self._events.record(tx, EventType.BANK_CHANGED, data)


def is_stranger(policy: AgentPolicy, user: str | None) -> bool:
    """Return whether the policy needs a known end user and this call has none (MEM-12)."""
    return user is None and policy.bank is not None and needs_user(policy)


def needs_user(policy: AgentPolicy) -> bool:
    """Return whether turns without a known end user are not stored: one of the banks is a user's own."""
    return policy.multi_user or any(USER in name for name in (policy.bank or "", *policy.banks))


def has_shared_layers(policy: AgentPolicy) -> bool:
    """Return whether a turn without a known end user gets the context of some of the banks."""
    return not policy.multi_user and any(USER not in name for name in policy.banks)


def _is_granted(name: str, bank: Bank, granted: Collection[str]) -> bool:
    if name in granted and (USER in name or not _is_named_by_chance(bank)):
        return True
    return bank.template in granted


def may_keep_question(bank: Bank, agent: Agent) -> bool:
    """Return whether a question of this agent may be stored, as its turns are."""
    if bank.policy.capture_mode is CaptureMode.EXPLICIT:
        return False
    return agent.policy.capture and {bank.name, bank.template}.isdisjoint(agent.policy.read_banks)


def _hashed_name(template: str, user: str) -> str:
    digest = hashlib.sha256(f"{template}\0{user}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return template.replace(USER, f"~{digest}")


def _is_named_by_chance(bank: Bank) -> bool:
    # Only the user's name gives the bank this name, so whoever asks for the name means another bank.
    return bank.template is not None and bank.name == bank.template.replace(USER, bank.end_user or "")


def _may_write(policy: AgentPolicy, name: str) -> bool:
    """Return whether the agent may write to a bank that its policy names."""
    return name not in policy.read_banks and (name not in policy.other_banks or name in policy.write_banks)


def _bank_names(policy: AgentPolicy) -> Sequence[str]:
    names = (policy.bank, *policy.banks, *policy.write_banks, *policy.read_banks)
    return [name for name in dict.fromkeys(names) if name is not None]


def _require_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise InvalidRequest(f"bank name {name!r} must match {NAME.pattern}; one for each end user is a template")
