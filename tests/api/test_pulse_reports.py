"""The end of a run elsewhere, as it is reported over REST."""

import asyncio
from pathlib import Path

import pytest

from tests.api.service import serving


@pytest.mark.spec("WAKE-50", "WAKE-51")
async def test_a_report_that_was_accepted_is_the_end_of_the_pulse_though_no_process_waits_for_it(
    tmp_path: Path,
) -> None:
    away = {"away": {"kind": "webhook", "url": "https://agents.example/", "secret_env": "HOOK"}}
    async with serving(tmp_path, launchers=away) as service:
        await service.agent("bob", sleep_events=["agent_started"])
        await service.ok("PATCH", "/agents/bob/coordination", {"launcher": "away", "heartbeat_minutes": None})
        asked = await service.ok("POST", "/wakes", {"to": "bob", "reason": "blocker", "message": "m"})
        pulses, store = service.parts.wake.pulses, service.parts.store
        end, done = f"/pulses/{asked['pulse']}/end", {"status": "succeeded", "epoch": 1}
        assert (await service.call("POST", end, done)).code == "conflict"  # nobody has taken it
        async with store.begin_write() as tx:
            now = service.clock.now()
            (pulse,) = await tx.pulses.claim("exe_that_is_killed", ["away"], now=now, until=now, limit=1)
            assert pulse.id == asked["pulse"]
            taken = await pulses.take(tx, pulse)
        assert taken is not None
        assert (await service.call("POST", end, {**done, "epoch": 0}, token=taken.token)).code == "conflict"
        said = {**done, "detail": f"built\0 with {taken.token}"}
        answers = await asyncio.gather(*(service.call("POST", end, said, token=taken.token) for _ in range(5)))
        assert all(answer.status in (401, 409) for answer in answers if answer.status != 202)
        assert sum(answer.status == 202 for answer in answers) == 1
        assert (await service.call("POST", end, said)).code == "conflict"
    async with serving(tmp_path, launchers=away) as service:
        ended = await service.ok("GET", f"/pulses/{asked['pulse']}")
        assert (ended["status"], ended["detail"]) == ("succeeded", "built\ufffd with [redacted]")
        assert (await service.ok("GET", "/agents/bob/inbox"))["counts"]["handled"] == 1
        assert (await service.ok("GET", f"/wakes/{asked['wake']}"))["charge"] == "charged"
        assert await service.asleep("bob")
