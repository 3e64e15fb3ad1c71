"""The services that endpoints call. The wiring collects them before it loads the endpoints."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from circadia.agents.approvals import ApprovalService
from circadia.agents.identity import AccessTokenService, Identity
from circadia.agents.presence import Presence
from circadia.agents.registry import AgentRegistry
from circadia.agents.sessions import SessionService
from circadia.agents.sign_in import SignIn
from circadia.agents.sleep_confirmation import SleepConfirmer
from circadia.agents.threads import ThreadService
from circadia.agents.waits import Waits
from circadia.answers.lookup import AnswerLookup
from circadia.clock import Clock
from circadia.gateway.answers.judging import JudgeLimits
from circadia.gateway.model_call.hold import HoldView
from circadia.gateway.model_call.resume import ResumableAnswers
from circadia.ids import AgentId, HoldId, MemberId
from circadia.jobs.event_sequencer import EventSequencer
from circadia.memory.services import MemoryServices
from circadia.settings import Settings
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.sleeptime.markdown.dream_status import MemoryFolders
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals
from circadia.wake.services import WakeServices


class HoldRegistry(Protocol):
    """Lists and drops the calls held now; the gate implements it."""

    def list_holds(
        self, *, session: str | None = None, agent: str | None = None, limit: int = 1000
    ) -> tuple[Sequence[HoldView], int]:
        """Return the held calls, longest first and up to `limit`, and their total number."""
        ...

    def count_held(self, agent_id: AgentId) -> int: ...

    def find_hold(self, hold: HoldId) -> HoldView | None: ...

    def drop(self, hold: HoldId, *, by: str) -> HoldView:
        """End a held call; return it as it was. Raises NotFound."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiContext:
    """The services that endpoints call."""

    store: Store
    clock: Clock
    signals: Signals
    identity: Identity
    sign_in: SignIn
    registry: AgentRegistry
    sessions: SessionService
    threads: ThreadService
    tokens: AccessTokenService
    confirmer: SleepConfirmer
    waits: Waits
    presence: Presence
    """Knows when the server is stopping."""
    settings: Settings
    holds: HoldRegistry
    wake: WakeServices
    memory: MemoryServices
    sleeptime: SleeptimeService
    approvals: ApprovalService
    resumable: ResumableAnswers
    """Streamed answers that this server keeps for callers whose connection broke."""
    folders: MemoryFolders
    lookup: AnswerLookup
    judge: JudgeLimits | None = None
    """Decides whether similar questions ask the same; None without a judge."""
    member_id: MemberId | None = None
    """This process in the cluster; None on SQLite."""
    sequencer: EventSequencer | None = None
    """Numbers events; None if the database does so in the order of its commits."""
