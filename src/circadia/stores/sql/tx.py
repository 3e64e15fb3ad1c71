"""A transaction over all nouns."""

from collections.abc import Callable
from datetime import datetime
from typing import Final, Generic, TypeVar

from circadia.ids import SessionId
from circadia.stores.locks import LockKey
from circadia.stores.sql.access_tokens import AccessTokens
from circadia.stores.sql.agents import Agents
from circadia.stores.sql.alert_history import AlertHistory
from circadia.stores.sql.alerts import Alerts
from circadia.stores.sql.answer_frames import AnswerFrames
from circadia.stores.sql.answer_uses import AnswerUses
from circadia.stores.sql.answers import Answers
from circadia.stores.sql.approvals import Approvals
from circadia.stores.sql.banks import Banks
from circadia.stores.sql.blocks import Blocks
from circadia.stores.sql.calls import Calls, ProviderIds
from circadia.stores.sql.conversations import Conversations
from circadia.stores.sql.deliveries import Deliveries
from circadia.stores.sql.dream_jobs import DreamJobs
from circadia.stores.sql.due_checks import DueChecks
from circadia.stores.sql.episodes import Episodes, ForgottenEpisodes
from circadia.stores.sql.event_waits import EventWaits
from circadia.stores.sql.events import Cursors, Events
from circadia.stores.sql.hooks import HookDeliveries, Hooks
from circadia.stores.sql.link import Runner
from circadia.stores.sql.members import HoldPlaceCounts, Members, OpenTurns
from circadia.stores.sql.messages import Messages
from circadia.stores.sql.name_search import NameSearch
from circadia.stores.sql.named_events import RecentEvents
from circadia.stores.sql.needs import Needs
from circadia.stores.sql.notes import Notes
from circadia.stores.sql.overview import DueWorks, Overviews
from circadia.stores.sql.passes import Passes
from circadia.stores.sql.promotions import Promotions
from circadia.stores.sql.provenances import Provenances
from circadia.stores.sql.pulses import Pulses
from circadia.stores.sql.readers import ReadBlock
from circadia.stores.sql.retention import Retention
from circadia.stores.sql.routines import Routines
from circadia.stores.sql.schema import metadata
from circadia.stores.sql.sessions import Sessions
from circadia.stores.sql.sleep_calls import Benefits, SleepCalls
from circadia.stores.sql.sleep_states import SleepStates
from circadia.stores.sql.spans import Spans
from circadia.stores.sql.threads import Threads
from circadia.stores.sql.wakes import Wakes

N = TypeVar("N")
ALL_TABLES: Final = metadata.sorted_tables
"""In the order of their references. Each is declared in a schema or with its noun, all of which are imported here."""
_Keep = Callable[[Callable[[], None]], None]


class _Noun(Generic[N]):
    """A noun of a transaction, made when it is first used: a block uses three of thirty."""

    def __init__(self, build: Callable[[Runner], N]) -> None:
        self._build = build
        self._name = ""

    def __set_name__(self, owner: type["Tx"], name: str) -> None:
        self._name = name

    def __get__(self, tx: "Tx", owner: type["Tx"]) -> N:
        noun = tx.__dict__[self._name] = self._build(tx.runner)
        return noun


class Tx:
    """A transaction over all nouns."""

    agents = _Noun(Agents)
    threads = _Noun(Threads)
    messages = _Noun(Messages)
    deliveries = _Noun(Deliveries)
    events = _Noun(Events)
    calls = _Noun(Calls)
    provider_ids = _Noun(ProviderIds)
    provenances = _Noun(Provenances)
    retention = _Noun(Retention)
    alerts = _Noun(Alerts)
    approvals = _Noun(Approvals)
    alert_history = _Noun(AlertHistory)
    access_tokens = _Noun(AccessTokens)
    names = _Noun(NameSearch)
    dream_jobs = _Noun(DreamJobs)
    overviews = _Noun(Overviews)
    needs = _Noun(Needs)
    cursors = _Noun(Cursors)
    conversations = _Noun(Conversations)
    wakes = _Noun(Wakes)
    pulses = _Noun(Pulses)
    routines = _Noun(Routines)
    event_waits = _Noun(EventWaits)
    recent_events = _Noun(RecentEvents)
    hooks = _Noun(Hooks)
    hook_deliveries = _Noun(HookDeliveries)
    spans = _Noun(Spans)
    episodes = _Noun(Episodes)
    forgotten_episodes = _Noun(ForgottenEpisodes)
    notes = _Noun(Notes)
    promotions = _Noun(Promotions)
    blocks = _Noun(Blocks)
    answers = _Noun(Answers)
    answer_uses = _Noun(AnswerUses)
    answer_frames = _Noun(AnswerFrames)
    passes = _Noun(Passes)
    due_checks = _Noun(DueChecks)
    sleep_states = _Noun(SleepStates)
    sleep_calls = _Noun(SleepCalls)
    benefits = _Noun(Benefits)
    due_work = _Noun(DueWorks)
    members = _Noun(Members)
    hold_places = _Noun(HoldPlaceCounts)
    open_turns = _Noun(OpenTurns)
    banks = _Noun(lambda runner: Banks(runner, steady=isinstance(runner, ReadBlock)))

    def __init__(
        self,
        runner: Runner,
        after_commit: _Keep,
        after_rollback: _Keep,
        note_touch: Callable[[SessionId, datetime], None],
    ) -> None:
        def touch(session_id: SessionId, at: datetime) -> None:
            after_commit(lambda: note_touch(session_id, at))

        self.runner = runner
        self.sessions = Sessions(runner, touch)
        self._hold = runner.hold
        self._after_commit = after_commit
        self._after_rollback = after_rollback

    async def hold(self, *keys: LockKey) -> None:
        """Hold these keys until the end of the block: call it first if more than one is needed (see `locks`)."""
        await self._hold(*keys)

    def after_commit(self, act: Callable[[], None]) -> None:
        """Run `act` in the event loop after the commit is durable, in order; never if the transaction fails.

        Raises RuntimeError in a read block.
        """
        self._after_commit(act)

    def after_rollback(self, act: Callable[[], None]) -> None:
        """Run `act` in the event loop if the transaction failed, or may not be durable.

        Raises RuntimeError in a read block.
        """
        self._after_rollback(act)
