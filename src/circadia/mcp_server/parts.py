"""Dependencies of the MCP server."""

from dataclasses import dataclass

from circadia.agents.presence import Presence
from circadia.agents.sleep_confirmation import SleepConfirmer
from circadia.agents.threads import ThreadService
from circadia.agents.waits import Waits
from circadia.clock import Clock
from circadia.memory.services import MemoryServices
from circadia.settings import Settings
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.sleeptime.markdown.memory_folders import MemoryFolders
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals
from circadia.wake.services import WakeServices


@dataclass(frozen=True, kw_only=True, slots=True)
class McpParts:
    store: Store
    clock: Clock
    signals: Signals
    threads: ThreadService
    confirmer: SleepConfirmer
    waits: Waits
    presence: Presence
    settings: Settings
    wake: WakeServices
    memory: MemoryServices
    sleeptime: SleeptimeService
    folders: MemoryFolders
