"""What the server is built from."""

from dataclasses import dataclass

from circadia.agents.presence import Presence
from circadia.agents.sleep import SleepState
from circadia.agents.threads import Threads
from circadia.agents.waits import Waits
from circadia.clock import Clock
from circadia.memory.tier import Memory
from circadia.settings import Settings
from circadia.sleeptime.tier import Sleeptime
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals
from circadia.wake.tier import WakeTier


@dataclass(frozen=True, kw_only=True, slots=True)
class McpParts:
    """Services and settings that the tools and resources may use."""

    store: Store
    """The database."""
    clock: Clock
    """Time."""
    signals: Signals
    """Hints."""
    threads: Threads
    """Threads and messages."""
    sleep: SleepState
    """The sleep state."""
    waits: Waits
    """Waits for messages."""
    presence: Presence
    """Who is awake."""
    settings: Settings
    """All settings."""
    wake: WakeTier
    """Inbox, wakes, pulses and schedules."""
    memory: Memory
    """Banks, episodes, blocks, searches and contexts."""
    sleeptime: Sleeptime
    """Passes over banks."""
