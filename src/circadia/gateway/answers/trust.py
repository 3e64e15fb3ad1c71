"""Whether an agent's ready answers are right often enough to be served (ANS-07)."""

from dataclasses import dataclass
from typing import Final

from circadia.answers.services import are_answers_trusted, judged_use_limit
from circadia.bounded_dict import BoundedDict
from circadia.clock import Clock
from circadia.ids import AgentId, BankId
from circadia.records.agent import Agent
from circadia.records.bank import Bank
from circadia.records.event import EventType
from circadia.records.event_data import AnswerTrust
from circadia.settings.answers import AnswersSettings
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog

MAX_TRUST_ENTRIES: Final = 10_000
"""Cached banks and agents, about 200 bytes each."""
TRUST_EVENTS: Final = (EventType.ANSWERS_FELL_BACK, EventType.ANSWERS_TRUSTED)


@dataclass(frozen=True, kw_only=True, slots=True)
class _TrustEntry:
    answers: int
    """The bank's change counter of answers; a wrong answer is dropped, which moves it."""
    trusted: bool


class AnswerAccuracy:
    def __init__(self, clock: Clock, events: EventLog, settings: AnswersSettings) -> None:
        self._clock = clock
        self._events = events
        self._settings = settings
        self._known: BoundedDict[tuple[BankId, AgentId], _TrustEntry] = BoundedDict(MAX_TRUST_ENTRIES)
        self._told: BoundedDict[tuple[BankId, AgentId], bool] = BoundedDict(MAX_TRUST_ENTRIES)

    def forget(self) -> None:
        """Drop what is known, so that it is loaded again."""
        self._known.clear()
        self._told.clear()

    async def is_trusted(self, tx: Tx, bank: Bank, agent: AgentId) -> bool:
        """Return whether answers are served, in any transaction; reloaded only if the bank's answers changed."""
        known = self._known.get((bank.id, agent))
        if known is None or known.answers != bank.answers:
            known = await self._load_trust(tx, bank, agent)
        return known.trusted

    async def update_trust(self, tx: Tx, bank: Bank, agent: Agent) -> None:
        """Reload the trust in a write transaction; a change is recorded as one event for all processes."""
        now = (await self._load_trust(tx, bank, agent.id)).trusted
        key = (bank.id, agent.id)
        if self._told.get(key) is now:
            return
        await tx.agents.get(agent.id)
        if await self._last_reported(tx, bank, agent) is not now:
            kind = EventType.ANSWERS_TRUSTED if now else EventType.ANSWERS_FELL_BACK
            least_precision = self._settings.least_precision
            data = AnswerTrust(bank=bank.name, bank_id=bank.id, least_precision=least_precision)
            await self._events.record(tx, kind, data, session=agent.session, agent=agent.name)
        tx.after_commit(lambda: self._told.update({key: now}))

    async def _load_trust(self, tx: Tx, bank: Bank, agent: AgentId) -> _TrustEntry:
        uses = await tx.answers.find_uses(
            bank.id, agent_id=agent, judged=True, upto=self._clock.now(), limit=judged_use_limit(self._settings)
        )
        known = _TrustEntry(answers=bank.answers, trusted=are_answers_trusted(uses, self._settings))
        self._known[bank.id, agent] = known
        return known

    async def _last_reported(self, tx: Tx, bank: Bank, agent: Agent) -> bool:
        """Return the last reported trust; answers are trusted if nothing was reported."""
        for event in await tx.events.find_newest(session=agent.session, agent=agent.name, types=TRUST_EVENTS):
            if event.data.get("bank_id") == bank.id:
                return event.type is EventType.ANSWERS_TRUSTED
        return True
