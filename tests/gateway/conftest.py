"""Calls that wait for memory as long as it takes, where a test is of what they get and not of how long they wait."""

import pytest

PATIENT_SECONDS = 60.0
HASTE = (
    "circadia.gateway.memory.call_memory.LOOK_UP_SECONDS", "circadia.gateway.memory.call_memory.SETTLE_SECONDS",
    "circadia.gateway.memory.injection.AGAIN_SECONDS", "circadia.gateway.answers.judging.TIMEOUT_SECONDS",
    "circadia.answers.lookup.CALL_WAIT_SECONDS",
)  # fmt: skip
"""How long a call waits for what may be slow, until it goes to its model without: a moment, as a rule."""


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no slow disk and no busy machine decide what a call gets."""
    for name in HASTE:
        monkeypatch.setattr(name, PATIENT_SECONDS)
