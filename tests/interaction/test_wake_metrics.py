"""What Prometheus sees of wakes."""

from pathlib import Path

import pytest

from tests.interaction.live import ADMIN, live
from tests.interaction.test_wakes import until


@pytest.mark.spec("WAKE-74")
async def test_each_decision_is_counted_with_its_rule(tmp_path: Path) -> None:
    async with live(tmp_path) as server:
        await server.agent("ann")
        await server.sleeping(True)
        coordination = {"wake_guardrails": {"max_wakes_per_day": 1, "cooldown_seconds": 0}}
        assert (await server.rest("PATCH", "/agents/ann/coordination", coordination))[0] == 200
        for _ in range(2):
            status, _ = await server.rest("POST", "/wakes", {"to": "ann", "message": "look", "reason": "blocker"})
            assert status < 300
            await server.sleeping(True)
        headers = {"authorization": f"Bearer {ADMIN}"}
        async with server.http.get(f"{server.url}/metrics", headers=headers) as answer:
            text = await answer.text()
    assert 'circadia_wakes_total{decision="admitted",rule="",source="person"} 1.0' in text
    assert 'circadia_wakes_total{decision="refused",rule="max_wakes_per_day",source="person"} 1.0' in text
    assert 'circadia_pulses_total{status="succeeded"} 1.0' in text
    assert "circadia_wakes_released_total 0.0" in text


@pytest.mark.spec("WAKE-74", "WAKE-14")
async def test_a_wake_whose_pulse_could_not_start_is_counted_as_given_back(tmp_path: Path) -> None:
    missing = {"nowhere": {"kind": "subprocess", "command": ["/nonexistent/agent"]}}
    async with live(tmp_path, launchers=missing) as server:
        await server.agent("ann")
        await server.sleeping(True)
        assert (await server.rest("PATCH", "/agents/ann/coordination", {"launcher": "nowhere"}))[0] == 200
        asked = {"to": "ann", "message": "look", "reason": "blocker"}
        told = (await server.rest("POST", "/wakes", asked))[1]
        assert (await until(server, told["pulse"], "failed"))["run_seconds"] == 0
        # An end is read as soon as it is committed, and counted when it is on the disk, as a later write is then.
        assert (await server.rest("PATCH", "/agents/ann/coordination", {"zone": "Europe/Riga"}))[0] == 200
        headers = {"authorization": f"Bearer {ADMIN}"}
        async with server.http.get(f"{server.url}/metrics", headers=headers) as answer:
            assert "circadia_wakes_released_total 1.0" in await answer.text()
