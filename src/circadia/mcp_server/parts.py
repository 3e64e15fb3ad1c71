"""What the server is built from."""

from dataclasses import dataclass

from circadia.agents.presence import Presence
from circadia.agents.sleep import AgentSleepService
from circadia.agents.threads import ThreadService
from circadia.agents.waits import Waits
from circadia.clock import Clock
from circadia.memory.services import MemoryServices
from circadia.settings import Settings
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals
from circadia.wake.services import WakeServices


@dataclass(frozen=True, kw_only=True, slots=True)
class McpParts:
    """Services and settings that the tools and resources may use."""

    store: Store
    """The database."""
    clock: Clock
    """Time."""
    signals: Signals
    """Hints."""
    threads: ThreadService
    """Threads and messages."""
    sleep: AgentSleepService
    """The sleep state."""
    waits: Waits
    """Waits for messages."""
    presence: Presence
    """Who is awake."""
    settings: Settings
    """All settings."""
    wake: WakeServices
    """Inbox, wakes, pulses and schedules."""
    memory: MemoryServices
    """Banks, episodes, blocks, searches and contexts."""
    sleeptime: SleeptimeService
    """Passes over banks."""
