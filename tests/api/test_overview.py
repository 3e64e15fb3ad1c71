"""What the overview says of passes, disabled agents and commands; `tests/interaction/test_overview.py` has the rest."""

import inspect
import re

import pytest

from circadia.api import needs
from tests.api.service import Service
from tests.cli.terminal import run

pytestmark = pytest.mark.spec("UI-03")


async def test_banks_whose_passes_fall_behind_are_a_problem_and_no_alert(service: Service) -> None:
    async with service.parts.store.begin_write() as tx:
        await tx.alerts.record_alert("red_bank", "bnk_1", service.clock.now())
        await tx.alerts.record_alert("budget", "default:ann", service.clock.now())
    seen = await service.ok("GET", "/overview")
    assert seen["problems"] == ["Banks whose passes fall behind: 1. See why: circadia passes status"]
    assert [(alert["cause"], alert["subject"]) for alert in seen["alerts"]] == [("budget", "default:ann")]


async def test_a_disabled_agent_is_neither_asleep_nor_awake(service: Service) -> None:
    for name in ("ann", "bob"):
        await service.ok("POST", "/sessions/default/agents", {"name": name})
    await service.ok("PATCH", "/sessions/default/agents/bob", {"enabled": False})
    seen = await service.ok("GET", "/overview")
    assert (seen["asleep"], seen["awake"]) == (0, 1)


async def test_each_command_that_a_problem_names_exists() -> None:
    commands = re.findall(r"circadia ([a-z]+(?: [a-zA-Z-]+)*)\"", inspect.getsource(needs))
    assert len(commands) == 5
    for command in commands:
        result = await run(*command.replace("AGENT", "ann").split(), "--help")
        assert result.status == 0, (command, result.err)
