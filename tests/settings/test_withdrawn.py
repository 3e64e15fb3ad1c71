"""A setting that was withdrawn does not stop a server that is upgraded; the log says what to do."""

import logging
from pathlib import Path

import pytest

from tests.interaction.live import live


@pytest.mark.spec("SLEEP-86")
async def test_a_withdrawn_setting_is_ignored_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    banks = {"team": {"sleeptime": {"benefit": {"enabled": False}}}}
    with caplog.at_level(logging.WARNING, "circadia.settings"):
        async with live(tmp_path, banks=banks, sleeptime={"benefit": {"window_days": 2}}) as server:
            policy = (await server.rest("GET", "/banks/team/sleeptime"))[1]["policy"]
    assert "benefit" not in policy
    (said,) = [record.getMessage() for record in caplog.records if "does nothing any more" in record.getMessage()]
    assert said == "the setting 'benefit' does nothing any more; remove it from the file"
