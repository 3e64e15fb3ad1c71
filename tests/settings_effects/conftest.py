"""A whole server with the settings that a test's mark states, on a clock that the test can move on.

`@pytest.mark.setting("limits.max_holds", limits={"max_holds": 1})` names the keys that the test shows, and states the
configuration; each key must be stated there with another value than its default. `tests/house/test_settings_shown.py`
checks that no key is left out.
"""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from circadia.settings import settings_from
from circadia.testing.upstream import MockUpstream
from tests.fixtures.leap_clock import LeapClock
from tests.interaction.live import KEY, Live, live
from tests.settings_effects.keys import keys, stated


@pytest.fixture
async def clock() -> LeapClock:
    return LeapClock()


@pytest.fixture
async def provider() -> AsyncGenerator[MockUpstream]:
    async with MockUpstream(key=KEY) as mock:
        yield mock


@pytest.fixture
async def at(
    request: pytest.FixtureRequest, tmp_path: Path, clock: LeapClock, provider: MockUpstream
) -> AsyncGenerator[Live]:
    sections: dict[str, Any] = {}
    for mark in request.node.iter_markers("setting"):
        sections |= mark.kwargs
        given = {key: value for key, value in mark.kwargs.items() if key != "environment"}
        if "upstream" in given:
            given["upstreams"] = {"openai": {"base_url": provider.base_url, **given.pop("upstream")}}
        given.setdefault("upstreams", {"openai": {"base_url": provider.base_url}})
        places = set(stated(settings_from(given)))
        assert not [key for key in mark.args if keys()[key] not in places], "a key is stated as it is by default"
    async with live(tmp_path / "data", clock=clock, provider=provider, **sections) as server:
        yield server
