"""What Prometheus sees of wakes."""

from pathlib import Path

import pytest

from tests.interaction.live import ADMIN, live


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
