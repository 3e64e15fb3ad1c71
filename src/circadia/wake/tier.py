"""The services of the wake tier, as the entrances use them."""

from dataclasses import dataclass

from circadia.agents.sleep import SleepState
from circadia.wake.coordination import Coordinations
from circadia.wake.inbox import Inbox
from circadia.wake.pulse_rows import PulseRows
from circadia.wake.pulses import Pulses
from circadia.wake.reports import PulseReports
from circadia.wake.requests import Requests
from circadia.wake.routines import Routines
from circadia.wake.thread_events import ThreadEvents


@dataclass(frozen=True, kw_only=True, slots=True)
class WakeTier:
    """The services of the wake tier."""

    sleep: SleepState
    """The sleep state, whose changes are pulses."""
    requests: Requests
    """Wake requests."""
    inbox: Inbox
    """Direct messages."""
    rows: PulseRows
    """The rows of pulses."""
    pulses: Pulses
    """Pulses."""
    routines: Routines
    """Schedules."""
    coordinations: Coordinations
    """How agents may be woken."""
    thread_events: ThreadEvents
    """What befalls agents in threads."""
    reports: PulseReports
    """Ends that programs elsewhere report."""
