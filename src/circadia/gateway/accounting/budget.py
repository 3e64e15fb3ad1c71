"""Model allow-lists and daily budgets (GATE-66).

Call counts are exact: a budgeted call is recorded, in the counting transaction, before it goes upstream. Tokens and
money are reserved by estimate and settled by the provider's figures, so an agent can exceed a limit only by the
estimation error of its calls in flight. The day is the UTC day.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from circadia.clock import Clock
from circadia.errors import CircadiaError, Forbidden, LimitReached
from circadia.gateway.calls.paths import Route
from circadia.gateway.dialects.base import ModelRequest
from circadia.ids import CallId
from circadia.records.agent import Agent, AgentPolicy
from circadia.records.call import AgentSpend, Call
from circadia.records.event import BudgetAlert, EventType
from circadia.records.overview import BUDGET_SHARE
from circadia.stores.base import Store, Tx
from circadia.stores.event_log import EventLog
from circadia.stores.locks import agent_key
from circadia.stores.time_limit import limit_wait

_logger = logging.getLogger(__name__)

DEFAULT_OUTPUT_TOKENS = 4096
"""Output tokens reserved for a call that sets no limit: the usual default of providers."""
RESERVE_SECONDS: Final = 10.0
"""Longest wait for a reservation; calls of one agent make theirs one after the other."""
_NANOUSD: Final = 10**9
"""Billionths of a US dollar, the ledger's unit."""


def require_model(agent: Agent, request: ModelRequest, route: Route) -> None:
    """Raise Forbidden if the agent may not use a model in body or path, or names none although it is restricted."""
    models = agent.policy.models
    if models is None:
        return
    named = (*(() if request.model is None else (request.model,)), *request.fallback_models)
    wrong = next((model for model in named if model not in models), None)
    if wrong is not None:
        raise Forbidden(f"{agent.reference!r} may not use model {wrong!r}; it may use {', '.join(models)}")
    if not named and route.generates and route.dialect != "plain":
        raise Forbidden(f"the call names no model; {agent.reference!r} may use {', '.join(models)}")


def has_budget(policy: AgentPolicy) -> bool:
    return (policy.max_calls_per_day, policy.max_tokens_per_day, policy.max_usd_per_day) != (None, None, None)


class CallBudgetGuard:
    def __init__(self, clock: Clock, store: Store, events: EventLog) -> None:
        self._clock = clock
        self._store = store
        self._events = events
        self._releases: dict[CallId, asyncio.Task[None]] = {}

    async def check(self, agent: Agent, *, waiting: int, tokens: int, nanousd: int) -> None:
        """Raise LimitReached if the day has no room for a call of this size after `waiting` held calls."""
        async with limit_wait(), self._store.begin_read() as tx:
            spent = await tx.calls.sum_day(agent, self._clock.now())
        self._require(agent, spent, waiting=waiting, tokens=tokens, nanousd=nanousd)

    async def reserve(self, agent: Agent, call: Call) -> Call:
        """Record the call as reserved if the day has room for it, and return it with the time of the reservation.

        An alert is recorded when the call reaches the last fifth of a budget (WAKE-76).

        Raises:
            LimitReached: the day has no room. StorageUnavailable: the database does not answer in time.
        """
        async with limit_wait(RESERVE_SECONDS):
            if (release := self._releases.get(call.id)) is not None:  # it was held again: that must not end this one
                await asyncio.shield(release)
            async with self._store.begin_write() as tx:
                return await self._add(tx, agent, call)

    async def _add(self, tx: Tx, agent: Agent, call: Call) -> Call:
        call = replace(call, at=self._clock.now())  # the day that it is checked against
        spent = await tx.calls.sum_day(agent, self._clock.now())
        self._require(agent, spent, waiting=0, tokens=call.reserved_tokens, nanousd=call.reserved_nanousd)
        await tx.calls.add([call])
        amounts = _nearly_used_budgets(agent.policy, spent, call)
        if amounts:
            data = BudgetAlert.model_validate({"cause": "budget", **amounts})
            await self._events.record(tx, EventType.ALERT, data, session=agent.session, agent=agent.name, at=call.at)
        return call

    def release(self, agent: Agent, call_id: CallId) -> None:
        task = self._releases[call_id] = asyncio.create_task(self._remove(agent, call_id))
        task.add_done_callback(lambda _: self._releases.pop(call_id, None))

    async def _remove(self, agent: Agent, call_id: CallId) -> None:
        try:
            # If its caller left during the commit of the reservation, the key is free when that has ended.
            async with self._store.begin_write(agent_key(agent.id)) as tx:
                await tx.calls.remove(call_id)
        except CircadiaError as error:
            _logger.warning("an unused reservation stays for the day: %s", error)

    def _today(self) -> datetime:
        return self._clock.now().replace(hour=0, minute=0, second=0, microsecond=0)

    def _require(self, agent: Agent, spent: AgentSpend, *, waiting: int, tokens: int, nanousd: int) -> None:
        more = (1 + waiting, max(tokens, 1), max(nanousd, 1))
        for (name, limit, used), size in zip(_limits(agent.policy, spent), more, strict=True):
            if limit is not None and used + size > limit:
                limit_text = f"{limit / _NANOUSD:g} US dollars" if name == "max_usd_per_day" else f"{limit}"
                wait = (self._today() + timedelta(days=1) - self._clock.now()).total_seconds()
                raise LimitReached(
                    f"{agent.reference!r} has used its {name} ({limit_text}); it resets at 00:00 UTC, or the operator "
                    "can raise it",
                    retry_after_seconds=wait,
                )


def _limits(policy: AgentPolicy, spent: AgentSpend) -> Sequence[tuple[str, int | None, int]]:
    """Return setting, limit and use of calls, tokens and billionths of a US dollar."""
    usd = None if policy.max_usd_per_day is None else int(policy.max_usd_per_day * _NANOUSD)
    return (
        ("max_calls_per_day", policy.max_calls_per_day, spent.calls),
        ("max_tokens_per_day", policy.max_tokens_per_day, spent.tokens),
        ("max_usd_per_day", usd, spent.nanousd),
    )


def _nearly_used_budgets(policy: AgentPolicy, spent: AgentSpend, call: Call) -> Mapping[str, float]:
    """Return the budgets whose last fifth this call is the first to reach, with use and reservation."""
    budgets: dict[str, float] = {}
    more = (1, call.reserved_tokens, call.reserved_nanousd)
    for (name, limit, used), size in zip(_limits(policy, spent), more, strict=True):
        if limit and used < BUDGET_SHARE * limit <= used + size:
            both = (used + size, limit)
            amounts = [amount / _NANOUSD for amount in both] if name == "max_usd_per_day" else both
            budgets |= zip((name.replace("max_", "").replace("per_day", "today"), name), amounts, strict=True)
    return budgets
