"""The services of the wake tier, as the entrances use them."""

from dataclasses import dataclass

from circadia.wake.admission.requests import WakeRequests
from circadia.wake.coordination import Coordinations
from circadia.wake.hooks.deliveries import HookReceiver
from circadia.wake.hooks.service import HookService
from circadia.wake.inbox import Inbox
from circadia.wake.launchers.base import PulseReports
from circadia.wake.named_events import NamedEvents
from circadia.wake.own_routines import OwnRoutines
from circadia.wake.own_sleep import OwnSleep
from circadia.wake.pulse_lifecycle import PulseLifecycle
from circadia.wake.pulse_service import PulseService
from circadia.wake.routines import RoutineService
from circadia.wake.sleep_changes import SleepChanges
from circadia.wake.sleep_control import SleepControl


@dataclass(frozen=True, kw_only=True, slots=True)
class WakeServices:
    sleep: SleepChanges
    control: SleepControl
    requests: WakeRequests
    inbox: Inbox
    named_events: NamedEvents
    rows: PulseLifecycle
    pulses: PulseService
    routines: RoutineService
    own_routines: OwnRoutines
    own_sleep: OwnSleep
    coordinations: Coordinations
    reports: PulseReports
    hooks: HookService
    hook_receiver: HookReceiver
