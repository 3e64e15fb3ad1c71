"""When a bank's passes begin, as it is set and shown over REST."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.api.service import Service

Json = Any


@pytest.mark.spec("SLEEP-05")
async def test_only_at_night_is_shown_and_holds_though_all_agents_sleep(service: Service) -> None:
    bound = {"name": "ann", "policy": {"bank": "talk"}}
    await service.ok("POST", "/sessions/default/agents", bound)
    await service.ok("POST", "/banks", {"name": "talk", "policy": {"sleeptime": {"when": "nightly"}}})
    await service.ok("POST", "/banks/talk/episodes", {"text": "Ann lives in Porto.", "speaker": "ann"})
    await service.ok("PUT", "/sessions/default/agents/ann/sleeping", {"sleeping": True})

    async def stand(stated: Mapping[str, object]) -> Json:
        await service.ok("PATCH", "/banks/talk", {"policy": {"sleeptime": dict(stated)}})
        return await service.ok("GET", "/banks/talk/sleeptime")

    shown = await stand({})
    assert (shown["policy"]["when"], shown["verdict"]["gate"]) == ("nightly", "not_yet")
    assert shown["begins"] == {"schedule": "`0 3 * * *` (UTC), for 3 h"}
    assert shown["verdict"]["at"] == "2026-01-01T03:00:00Z"
    await service.ok("PATCH", "/agents/ann/coordination", {"zone": "Asia/Tokyo"})
    assert (await stand({}))["verdict"]["at"] == "2026-01-01T18:00:00Z", "three at night where its agent is"
    assert (await stand({"zone": "Europe/Berlin"}))["verdict"]["at"] == "2026-01-01T02:00:00Z"
    shown = await stand({"when": "manual"})
    assert (shown["begins"], shown["verdict"]["at"], shown["verdict"]["due"]) == ({}, None, False)
    assert "only when asked for" in shown["verdict"]["why"]
    shown = await stand({"when": "coding", "asleep": False})
    assert (shown["begins"]["idle"], shown["verdict"]["due"]) == ("nothing was said for 600 s", False)
    assert "asleep" not in shown["begins"]
    shown = await stand({"asleep": None, "idle_seconds": False})
    assert (shown["verdict"]["trigger"], "idle" in shown["begins"]) == ("asleep", False)


@pytest.mark.spec("SLEEP-01", "SLEEP-05")
async def test_the_preset_for_coding_waits_ten_minutes_in_the_older_words_too(service: Service) -> None:
    for name, stated in (("new", {"when": "coding"}), ("old", {"preset": "coding"})):
        await service.ok("POST", "/banks", {"name": name, "policy": {"sleeptime": stated}})
        await service.ok("POST", f"/banks/{name}/episodes", {"text": "Ann lives in Porto.", "speaker": "ann"})
        service.clock.advance(599)
        assert (await service.ok("GET", f"/banks/{name}/sleeptime"))["verdict"]["gate"] == "not_yet"
        service.clock.advance(1)
        assert (await service.ok("GET", f"/banks/{name}/sleeptime"))["verdict"]["trigger"] == "idle"
    answer = await service.call("PATCH", "/banks/new", {"policy": {"sleeptime": {"when": "nightli"}}})
    assert (answer.status, "'nightly'" in answer.body["detail"]) == (422, True)
    answer = await service.call("PATCH", "/banks/new", {"policy": {"sleeptime": {"zone": "Europe/Berln"}}})
    assert (answer.status, "did you mean 'Europe/Berlin'" in answer.body["detail"]) == (422, True)
