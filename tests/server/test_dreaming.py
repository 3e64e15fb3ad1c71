"""Which model the sleep tier has, by what the file says."""

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from circadia.errors import ConfigError
from circadia.server.sleeptime_wiring import build_sleep_models, explain_missing_model
from circadia.settings.load import settings_from
from circadia.testing.clock import ManualClock

OPENAI = {"base_url": "https://api.openai.com", "key_env": "KEY"}
OWN = {"base_url": "http://127.0.0.1:9000"}


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    """What a model would be closed with."""
    async with AsyncExitStack() as made:
        yield made


def mind_of(stack: AsyncExitStack, **settings: Any) -> tuple[str, str] | None:
    """Return upstream and name of the model that these settings give."""
    mind, _ = build_sleep_models(settings_from(settings), {"KEY": "a key"}, ManualClock(), stack)
    return None if mind is None else (mind.upstream, mind.name)


@pytest.mark.spec("SLEEP-41")
async def test_without_a_word_it_is_a_cheap_model_of_the_first_provider_that_is_known(stack: AsyncExitStack) -> None:
    found = mind_of(stack, upstreams={"own": OWN, "openai": OPENAI})
    assert found is not None
    assert found[0] == "openai"
    assert mind_of(stack, upstreams={"own": OWN}) is None
    assert mind_of(stack, upstreams={"openai": {"base_url": "https://api.openai.com"}}) is None, "it has no key"
    assert mind_of(stack, upstreams={"openai": OPENAI}, sleeptime={"model": "none"}) is None
    named = {"model": {"upstream": "own", "name": "small"}}
    assert mind_of(stack, upstreams={"own": OWN}, sleeptime=named) == ("own", "small")


@pytest.mark.spec("SLEEP-41")
def test_what_is_told_of_passes_without_a_model_says_why() -> None:
    assert "no provider with a key" in explain_missing_model(settings_from({"upstreams": {"own": OWN}}))
    none = {"upstreams": {"openai": OPENAI}, "sleeptime": {"model": "none"}}
    assert explain_missing_model(settings_from(none)) == "passes ask no model: so it is set"


@pytest.mark.spec("SLEEP-41")
async def test_a_model_that_cannot_be_asked_is_an_error_that_says_what_to_do(stack: AsyncExitStack) -> None:
    with pytest.raises(ConfigError, match=r"no upstream 'opnai'.*'openai'"):
        mind_of(stack, upstreams={"openai": OPENAI}, sleeptime={"model": "opnai"})
    with pytest.raises(ConfigError, match="name one"):
        mind_of(stack, upstreams={"own": OWN}, sleeptime={"model": "own"})


@pytest.mark.spec("SLEEP-41")
async def test_a_model_that_agents_use_too_is_warned_of(
    stack: AsyncExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    sleeptime = {"model": {"upstream": "openai", "name": "gpt-5-mini"}}
    with caplog.at_level(logging.WARNING):
        mind_of(stack, upstreams={"openai": OPENAI}, sleeptime=sleeptime, defaults={"models": ["gpt-5"]})
        assert not caplog.records
        mind_of(stack, upstreams={"openai": OPENAI}, sleeptime=sleeptime, defaults={"models": ["gpt-5-mini"]})
    assert "is one that agents use" in caplog.text


@pytest.mark.spec("SLEEP-14", "SLEEP-20")
async def test_an_operation_may_have_a_model_of_its_own(stack: AsyncExitStack) -> None:
    _, named = build_sleep_models(
        settings_from({"upstreams": {"openai": OPENAI}}), {"KEY": "a key"}, ManualClock(), stack
    )
    assert named is not None
    assert named("gpt-5").name == "gpt-5"
    assert named("gpt-5") is named("gpt-5"), "opened once"
