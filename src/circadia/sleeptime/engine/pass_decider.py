"""Decides which banks are due for a pass.

A bank is checked when a row asks for it, when its own time has come, or when a signal of this process names it. So a
round costs what is due, however many banks there are.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from hashlib import blake2b
from importlib.metadata import version
from typing import Final, cast

from circadia.clock import Clock
from circadia.errors import Conflict
from circadia.ids import AgentId, BankId
from circadia.jobs.loops import DueWatch, run_guarded
from circadia.memory.banks import USER
from circadia.records.due_work import AgentsCheck, DueBanks, DueCheck
from circadia.records.pulse import PulseStatus
from circadia.records.sleep_pass import PassBlocker
from circadia.settings.sleeptime import SleeptimeSettings
from circadia.sleeptime.engine.services import SleeptimeService, binding_of
from circadia.sleeptime.triggers.due import ActivityEnd
from circadia.sleeptime.triggers.open_turns import BankBinding
from circadia.sleeptime.triggers.pass_lifecycle import NewPass
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals

LOOK_SECONDS: Final = 10.0
"""Interval between checks of a bank that is due, while a gate is closed or its check fails."""
AT_ONCE: Final = 100
"""Banks of each kind that one step decides on."""
OPENS_UNSEEN: Final = frozenset({PassBlocker.BUSY, PassBlocker.PASSES, PassBlocker.REPLYING})
"""Gates that open without a row that asks for a check."""
EXPANDED: Final = 1_000
"""Banks that one block makes due."""
SET_BACK: Final = timedelta(minutes=1)
"""How far the clock must be set back for all banks to be checked again."""
SETTINGS_CURSOR: Final = "pass_settings"
"""Names the digest of the settings by which all banks were checked."""


class PassDecider:
    """One process at a time decides; `leads` tells whether it is this one."""

    def __init__(
        self, clock: Clock, store: Store, signals: Signals, sleeptime: SleeptimeService, leads: Callable[[], bool],
        due: DueWatch,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._store = store
        self._sleeptime = sleeptime
        self._leads = leads
        self._due = due
        self._replying: dict[BankBinding, BankId] = {}
        """Due banks whose passes wait for an answer under way."""
        self._ends: dict[tuple[AgentId, str | None], ActivityEnd] = {}
        """What has ended since the last step, by agent, and end user of a conversation."""
        self._filled: set[BankBinding] = set()
        """Banks of calls that have filled a model's context since the last step."""
        self._hinted: set[BankId] = set()
        """Banks to check although no row asks for it."""
        self._has_more = False
        """Whether more banks are due than the last step has decided on."""
        self._latest = clock.now()
        self._knows_settings = False
        """Whether all banks were checked by the present settings."""
        signals.listen("context", self._on_context_filled)
        signals.listen("pulse", self._on_pulse_event)
        signals.listen("conversation", self._on_conversation_end)

    def on_turn_end(self, bound: BankBinding) -> None:
        """Check a due bank again that waited for the end of the turn."""
        if (bank_id := self._replying.pop(bound, None)) is not None:
            self._hinted.add(bank_id)

    def _on_context_filled(self, key: str, data: Mapping[str, object]) -> None:
        """Record the share if this process decides on passes, wherever the call was made."""
        bound = key, str(data["user"]) if USER in key else None
        filled = cast("float", data["filled"])
        if self._leads() and filled > self._sleeptime.filled.get(bound, 0.0):
            self._sleeptime.filled[bound] = filled
            self._filled.add(bound)

    def _on_pulse_event(self, _: str, data: Mapping[str, object]) -> None:
        if self._leads() and PulseStatus(str(data["status"])).is_over:
            self._ends[AgentId(str(data["agent"])), None] = ActivityEnd(of="pulse", at=self._clock.now())

    def _on_conversation_end(self, key: str, data: Mapping[str, object]) -> None:
        if self._leads():
            end = ActivityEnd(of="conversation", at=self._clock.now())
            self._ends[AgentId(key), cast("str | None", data.get("user"))] = end

    async def decide(self) -> bool:
        """Request the passes that are due, and record which gate blocks the others; return whether more are due."""
        await self._check_all_after_changes()
        await self._apply_hints()
        if not (self._hinted or self._has_more or (await self._due.look()).checks):
            return False
        hinted, self._hinted = self._hinted, set()
        due = await self._find_due()
        banks: dict[BankId, Sequence[int]] = {**dict.fromkeys(hinted, ()), **due.banks}
        self._has_more = len(due.banks) >= AT_ONCE
        next_checks = [await self._check_bank(bank_id) for bank_id in banks]
        if self._leads():  # else the next leader does it again
            async with self._store.begin_write() as tx:
                await tx.due_checks.settle([number for numbers in banks.values() for number in numbers], next_checks)
        return self._has_more

    async def _find_due(self) -> DueBanks:
        """Return the banks to check; those of agents that fell asleep or changed are among them."""
        due = await self._read_due()
        if due.agents:
            await self._expand_agents(due.agents)
            due = await self._read_due()
        return due

    async def _read_due(self) -> DueBanks:
        async with self._store.begin_read() as tx:
            return await tx.due_checks.find_due(self._clock.now(), limit=AT_ONCE)

    async def _expand_agents(self, agents: Sequence[AgentsCheck]) -> None:
        checks: dict[tuple[str, bool], list[AgentsCheck]] = {}
        for each in agents:
            checks.setdefault((each.bound_name, each.if_asleep), []).append(each)
        for (bound_name, if_asleep), same in checks.items():
            async with self._store.begin_read() as tx:
                is_due = not if_asleep or await tx.sleep_states.are_agents_asleep([bound_name])
            if not (is_due and await self._expand(same[0])):
                async with self._store.begin_write() as tx:
                    await tx.due_checks.settle([each.number for each in same], ())

    async def _expand(self, check: AgentsCheck) -> bool:
        """Make the bound banks due, a page of them; return whether there may be more."""
        async with self._store.begin_write() as tx:
            return await tx.due_checks.expand(check, self._clock.now(), limit=EXPANDED) == EXPANDED

    async def _check_all_after_changes(self) -> None:
        """Check all banks once if the settings, the version, or the clock was changed since that was done."""
        is_set_back = self._clock.now() < self._latest - SET_BACK
        self._latest = self._clock.now() if is_set_back else max(self._latest, self._clock.now())
        if self._knows_settings and not is_set_back:
            return
        digest = compute_digest(self._sleeptime.settings)
        async with self._store.begin_read() as tx:
            if not is_set_back and await tx.cursors.get(SETTINGS_CURSOR) == digest:
                self._knows_settings = True
                return
            ids = [
                *await tx.sleep_states.find_banks_with_backlog(noted=False),
                *await tx.sleep_states.find_banks_with_changes(),
            ]
            after = ""
            while page := await tx.banks.find_all(after=after, limit=EXPANDED):
                ids += [bank.id for bank in page if self._sleeptime.policy(bank).schedules]
                after = page[-1].name
        for begin in range(0, len(ids), EXPANDED):
            async with self._store.begin_write() as tx:
                await tx.due_checks.add(ids[begin : begin + EXPANDED])
        async with self._store.begin_write() as tx:
            await tx.cursors.save(SETTINGS_CURSOR, digest)
        self._knows_settings = self._has_more = True

    async def _apply_hints(self) -> None:
        """Find the banks that signals have named: they are checked although nothing has asked for it."""
        for (agent_id, user), end in tuple(self._ends.items()):
            async with self._store.begin_read() as tx:
                agent = await tx.agents.get(agent_id)
            name = None if agent is None else agent.policy.bank
            if name is not None:
                binding = name, user if USER in name else None
                self._sleeptime.ended[binding] = end
                if USER in name and user is None:
                    await self._expand(AgentsCheck(number=0, bound_name=name, if_asleep=True))
                    self._has_more = True
                else:
                    await self._hint(binding)
            if self._ends[agent_id, user] is end:  # else another signal came meanwhile
                del self._ends[agent_id, user]
        while self._filled:
            await self._hint(self._filled.pop())

    async def _hint(self, binding: BankBinding) -> None:
        name, user = binding
        async with self._store.begin_read() as tx:
            bank = await (tx.banks.get_by_name(name) if user is None else tx.banks.get_by_end_user(name, user))
        if bank is not None:
            self._hinted.add(bank.id)

    async def _check_bank(self, bank_id: BankId) -> DueCheck:
        """Decide on a bank; return when it is checked again. If that fails, the others must not wait for it."""
        later = self._clock.now() + timedelta(seconds=LOOK_SECONDS)
        result = DueCheck(bank_id=bank_id, at=later, has_backlog=True)

        async def decide() -> None:
            nonlocal result
            result = await self._decide_bank(bank_id)

        await run_guarded("a decision on passes", decide)
        return result

    async def _decide_bank(self, bank_id: BankId) -> DueCheck:
        later = self._clock.now() + timedelta(seconds=LOOK_SECONDS)
        async with self._store.begin_read() as tx:
            bank = await tx.banks.get(bank_id)
            if bank is None:
                return DueCheck(bank_id=bank_id, at=None, has_backlog=False)
            status, verdict = await self._sleeptime.evaluate(tx, bank)
        has_backlog = bool(status.backlog.episodes or status.state.leftovers or status.edited_at is not None)
        next_check = DueCheck(bank_id=bank_id, at=verdict.at, has_backlog=has_backlog)
        self._replying.pop(binding_of(bank), None)
        if verdict.trigger is not None:
            self._sleeptime.use_hints(bank)
            with suppress(Conflict):
                async with self._store.begin_write() as tx:
                    new = NewPass(trigger=verdict.trigger, by="circadia", full=verdict.full)
                    await self._sleeptime.request_pass(tx, bank, new)
            return replace(next_check, at=later)
        assert verdict.gate is not None
        is_new = bank.written_at is None and verdict.gate is PassBlocker.EMPTY
        if not is_new and status.state.gate != verdict.gate.value:
            async with self._store.begin_write() as tx:
                await tx.sleep_states.record_gate(bank.id, verdict.gate.value, verdict.detail, self._clock.now())
        if verdict.gate is PassBlocker.REPLYING:
            self._replying[binding_of(bank)] = bank.id
        if verdict.gate in OPENS_UNSEEN:
            return replace(next_check, at=min(verdict.at or later, later))
        return next_check


def compute_digest(settings: SleeptimeSettings) -> int:
    """Return a number that changes with the settings, or with the version that reads them."""
    read = f"{version('circadia')} {settings.model_dump_json()}"
    return int.from_bytes(blake2b(read.encode(), digest_size=7).digest())
