"""Wakes a bank's sleep-time agent when a pass over the bank has ended: so it works as often as passes do, not more."""

import logging
from typing import Final

from circadia.records.bank import Bank
from circadia.records.session import DEFAULT_SESSION
from circadia.records.sleep_pass import Pass, PassStatus
from circadia.records.wake import WakeSource
from circadia.settings.sleeptime import SleepPolicySettings
from circadia.stores.base import Tx
from circadia.wake.admission.requests import NewWake, WakeRequests

_logger = logging.getLogger(__name__)

_WAKES: Final = (PassStatus.SUCCEEDED, PassStatus.NO_CHANGE, PassStatus.PARTIAL)
"""Ends after which the agent has something to do: its input was worked through, whatever the pass made of it."""


class SleeptimeAgents:
    """Asks for the wakes; guardrails and pauses of the agent hold for them as for its own schedule."""

    def __init__(self, requests: WakeRequests) -> None:
        self._requests = requests

    async def wake_after_pass(self, tx: Tx, bank: Bank, policy: SleepPolicySettings, run: Pass) -> None:
        """Wake the agent that the bank's policy names, if it is asleep and the pass was no dry run."""
        if policy.agent is None or run.dry_run or run.status not in _WAKES:
            return
        session_name, _, name = policy.agent.rpartition(":")
        session = await tx.sessions.get_by_name(session_name or DEFAULT_SESSION)
        agent = None if session is None else await tx.agents.get_by_name(session.id, name)
        if agent is None or not agent.enabled:
            _logger.warning("bank %r names the sleep-time agent %r, who is not there", bank.name, policy.agent)
            return
        if not agent.asleep:
            return  # it sees what is new by itself
        ask = NewWake(
            target=agent, source=WakeSource.SCHEDULE, by=f"pass {run.id}", reason=f"new in bank {bank.name}",
            key=f"pass {run.id}",
        )  # fmt: skip
        await self._requests.ask(tx, ask)
