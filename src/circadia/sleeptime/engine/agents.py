"""Wakes a bank's sleep-time agent after each pass over the bank, and no more often."""

import logging
from typing import Final

from circadia.records.bank import Bank
from circadia.records.session import DEFAULT_SESSION
from circadia.records.sleep_pass import Pass, PassStatus
from circadia.records.wake import WakeSource
from circadia.settings.sleeptime import SleepPolicySettings
from circadia.stores.base import Tx
from circadia.wake.admission.requests import WakeRequests
from circadia.wake.wake_rows import NewWake

_logger = logging.getLogger(__name__)

_WAKES: Final = (PassStatus.SUCCEEDED, PassStatus.NO_CHANGE, PassStatus.PARTIAL)
"""Ends after which the agent has work: the input was processed, whatever the pass made of it."""


class SleeptimeAgents:
    """Requests the wakes; the agent's guardrails and pauses apply to them as to its own schedule."""

    def __init__(self, requests: WakeRequests) -> None:
        self._requests = requests

    async def wake_after_pass(self, tx: Tx, bank: Bank, policy: SleepPolicySettings, run: Pass) -> None:
        """Wake the agent in the bank's policy if it is asleep and the pass was no dry run."""
        if policy.agent is None or run.dry_run or run.status not in _WAKES:
            return
        session_name, _, name = policy.agent.rpartition(":")
        session = await tx.sessions.get_by_name(session_name or DEFAULT_SESSION)
        agent = None if session is None else await tx.agents.get_by_name(session.id, name)
        if agent is None or not agent.enabled:
            _logger.warning(
                "bank %r names the sleep-time agent %r, which does not exist or is disabled", bank.name, policy.agent
            )
            return
        if not agent.asleep:
            return  # awake, it sees new rows by itself
        ask = NewWake(
            target=agent, source=WakeSource.SCHEDULE, by=f"pass {run.id}", reason=f"new in bank {bank.name}",
            key=f"pass {run.id}",
        )  # fmt: skip
        await self._requests.ask(tx, ask)
