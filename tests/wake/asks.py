"""What tests of wakes and pulses do again and again."""

from circadia.ids import WakeId
from circadia.records.agent import Agent
from circadia.records.pulse import Pulse, PulseStatus
from circadia.records.wake import Decision, Wake
from circadia.wake.launchers.base import LaunchResult
from circadia.wake.scheduling.wall_clock import day_bounds
from tests.wake.fleet import Fleet


def rails(**limits: object) -> dict[str, object]:
    return {"wake_guardrails": limits}


async def woken_once(team: Fleet, sender: Agent | None, to: Agent, content: str = "help") -> Decision:
    """Ask, and if there is a pulse let it run to its end."""
    wake = await team.ask(sender, to, content)
    if wake.decision is Decision.ADMITTED:
        await team.run(wake.pulse_id)
    return wake.decision


FAILED = LaunchResult(succeeded=False, detail="exit status 1")


async def running(team: Fleet, to: Agent, sender: Agent | None = None, content: str = "help") -> tuple[Wake, Pulse]:
    """Have a pulse that runs."""
    wake = await team.ask(sender, to, content)
    await team.worker.step()
    return wake, await team.until(wake.pulse_id, PulseStatus.RUNNING)


async def minutes_today(team: Fleet, agent: Agent) -> float:
    """Return what counts against the agent's daily minutes, in seconds."""
    now = team.clock.now()
    async with team.store.begin_read() as tx:
        tally = await tx.wakes.tally(
            agent.id, wake_id=WakeId(""), sender_id=None,
            sender_pulse=None, asked_since=now, root_id="", day=day_bounds("UTC", now)[0], utc_day=now, now=now,
        )  # fmt: skip
    return tally.run_seconds_today
