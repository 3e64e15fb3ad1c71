"""Banks: makes, finds, changes and deletes them, and says which an agent may open (MEM-12)."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from circadia.clock import Clock
from circadia.errors import Conflict, Forbidden, InvalidRequest, NotFound
from circadia.ids import BankId, IdSource
from circadia.records.agent import AgentPolicy
from circadia.records.bank import NAME, Bank, BankPolicy
from circadia.records.event import Event, EventType
from circadia.records.principal import Principal
from circadia.stores.base import Tx
from circadia.suggestions import did_you_mean

USER: Final = "{user}"
"""Stands for the end user in a template."""
PLAIN_USER: Final = re.compile(r"[a-z0-9][a-z0-9_.@-]{0,62}")
"""End users whose name becomes part of their bank's name; others are named by a hash, so that no two meet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewBank:
    """What a bank is made from."""

    name: str
    """Unique."""
    description: str = ""
    """What it is for."""
    policy: BankPolicy = field(default_factory=BankPolicy)
    """How it is written to."""
    template: str | None = None
    """The template whose bank it is, where it is brought from elsewhere."""
    end_user: str | None = None
    """The person whom it belongs to, then."""


class BankService:
    """The only writer of banks."""

    def __init__(self, clock: Clock, ids: IdSource, policies: dict[str, BankPolicy]) -> None:
        """`policies` are those of the file, by name or template of the bank; others have the default."""
        self._clock = clock
        self._ids = ids
        self._policies = policies

    async def create(self, tx: Tx, new: NewBank, *, by: str) -> Bank:
        """Make a bank.

        Raises:
            InvalidRequest: a bad name. Conflict: there is one of this name, which was not made by itself.
        """
        _require_name(new.name)
        found = await tx.banks.get_by_name(new.name)
        if found is not None and found.automatic and new.template is None:
            return await self.change(tx, found, by=by, description=new.description, policy=new.policy)
        more = {"description": new.description, "template": new.template, "end_user": new.end_user}
        return await self._add(tx, new.name, new.policy, by, **more)

    async def get(self, tx: Tx, name: str, user: str | None = None) -> Bank:
        """Return the bank of this name, or the end user's that was made from the template of this name.

        Raises:
            NotFound: there is none. InvalidRequest: a template without a user, or a user without a template.
        """
        if USER in name:
            if not user:
                raise InvalidRequest(f"bank {name!r} takes an end user: say whose with `user`")
            found = await tx.banks.get_by_end_user(name, user)
            if found is None:
                raise NotFound(f"bank {name!r} of {user!r} holds nothing yet")
            return found
        if user is not None:
            raise InvalidRequest(f"bank {name!r} is no template, so it takes no end user; leave `user` out")
        bank = await tx.banks.get_by_name(name)
        if bank is None:
            raise NotFound(f"no bank {name!r}{did_you_mean(name, await tx.banks.names_near(name))}")
        return bank

    async def resolve_bound_bank(
        self, tx: Tx, policy: AgentPolicy, user: str | None, *, make: bool = False
    ) -> Bank | None:
        """Return the bank that an agent's turn goes to; none if none is bound, or it takes an end user who is unknown.

        `make` makes it where it is not there; else an absent one is none too. Nobody is called "". A person's bank that
        has the wanted name only since the person is called so is not meant, and gets another name.
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
            await self._record(tx, EventType.BANK_CHANGED, yielding, "circadia", {"was": bank.name})
            bank = None
        if bank is not None or not make:
            return bank
        return await self._add(tx, policy.bank, self._policy(policy.bank), "circadia", automatic=True)

    async def open_bank(
        self, tx: Tx, principal: Principal, name: str | None, *, write: bool = False, user: str | None = None
    ) -> Bank:
        """Return the bank that a principal asks for; an agent's bound one if no name is given.

        `name` may be a template, one that the agent has; `user` then says whose bank is meant.

        Raises:
            NotFound: there is none. Forbidden: the principal may not open it, or not write.
            InvalidRequest: it takes a name, or an end user, that is not given.
        """
        if principal.agent is None:
            if name is None:
                raise InvalidRequest("name a bank")
            return await self.get(tx, name, user)
        policy = principal.agent.policy
        wanted = name or policy.bank
        if wanted is None:
            raise InvalidRequest(f"agent {principal.agent.reference!r} has no bank; its policy names one with `bank`")
        rule, bank = await self._find_allowed(tx, policy, wanted, user, make=write)
        if rule is None:
            raise Forbidden(f"bank {wanted!r} is not one of {principal.agent.reference!r}")
        if write and rule in policy.read_banks:
            raise Forbidden(f"{principal.agent.reference!r} may only read bank {wanted!r}")
        if bank is None:
            raise NotFound(f"bank {wanted!r} holds nothing yet")
        return bank

    async def list_banks(
        self, tx: Tx, principal: Principal, *, template: str | None = None, after: str = "", limit: int | None = None
    ) -> Sequence[Bank]:
        """Return the banks that a principal may open, by name: so many at most, behind the name `after`."""
        named = None if principal.agent is None else _bank_names(principal.agent.policy)
        return await tx.banks.find_all(template=template, named=named, after=after, limit=limit)

    async def change(
        self, tx: Tx, bank: Bank, *, by: str, name: str | None = None, description: str | None = None,
        policy: BankPolicy | None = None,
    ) -> Bank:  # fmt: skip
        """Rename it, or change what it is for or how it is written to.

        Raises:
            InvalidRequest: a bad name. Conflict: there is one of this name.
        """
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
        await self._record(tx, EventType.BANK_CHANGED, changed, by, {"was": bank.name} if name else {})
        return changed

    async def delete(self, tx: Tx, bank: Bank, *, by: str) -> None:
        """Delete it with all that it holds."""
        await tx.banks.remove(bank.id)
        await self._record(tx, EventType.BANK_DELETED, bank, by, {})

    async def _find_allowed(
        self, tx: Tx, policy: AgentPolicy, wanted: str, user: str | None, *, make: bool
    ) -> tuple[str | None, Bank | None]:
        """Return which of the agent's names or templates opens the bank, and the bank if there is one."""
        own = _bank_names(policy)
        if wanted in own:
            if USER in wanted:
                if not user:
                    raise InvalidRequest(f"bank {wanted!r} takes an end user: say whose with `user`")
                return wanted, await self._resolve_user_bank(
                    tx, wanted, user, make=make and wanted not in policy.read_banks
                )
            return wanted, await self.resolve_bound_bank(tx, AgentPolicy(bank=wanted), None, make=make)
        bank = await tx.banks.get_by_name(wanted)
        if bank is not None and bank.template in own:
            return bank.template, bank
        return None, None

    async def _resolve_user_bank(self, tx: Tx, template: str, user: str, *, make: bool) -> Bank | None:
        bank = await tx.banks.get_by_end_user(template, user)
        if bank is not None or not make:
            return bank
        name = template.replace(USER, user) if PLAIN_USER.fullmatch(user) else _hashed_name(template, user)
        if await tx.banks.get_by_name(name) is not None:
            name = _hashed_name(template, user)
        return await self._add(tx, name, self._policy(template), "circadia", template=template, end_user=user)

    def _policy(self, name: str) -> BankPolicy:
        return self._policies.get(name, BankPolicy())

    async def _add(self, tx: Tx, name: str, policy: BankPolicy, by: str, **more: Any) -> Bank:
        bank = Bank(id=BankId(self._ids.new("bnk")), name=name, policy=policy, created_at=self._clock.now(), **more)
        await tx.banks.add(bank)
        await self._record(tx, EventType.BANK_CREATED, bank, by, {})
        return bank

    async def _record(self, tx: Tx, kind: EventType, bank: Bank, by: str, data: dict[str, object]) -> None:
        event = Event(type=kind, at=self._clock.now(), data={"bank": bank.name, "by": by, **data})
        await tx.events.add([event])


def is_stranger(policy: AgentPolicy, user: str | None) -> bool:
    """Return whether nobody knows for whom a call is, where that must be known (MEM-12)."""
    return user is None and policy.bank is not None and (policy.multi_user or USER in policy.bank)


def _hashed_name(template: str, user: str) -> str:
    """Return a name for a person's bank that no other bank has."""
    digest = hashlib.sha256(f"{template}\0{user}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return template.replace(USER, f"~{digest}")


def _is_named_by_chance(bank: Bank) -> bool:
    """Return whether it is called so only since its person is: who else means this name means another bank."""
    return bank.template is not None and bank.name == bank.template.replace(USER, bank.end_user or "")


def _bank_names(policy: AgentPolicy) -> Sequence[str]:
    """Return the names and templates of banks that an agent may open."""
    return [each for each in (policy.bank, *policy.banks, *policy.read_banks) if each is not None]


def _require_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise InvalidRequest(f"bank name {name!r} must match {NAME.pattern}; one for each end user is a template")
