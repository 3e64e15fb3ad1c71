"""Which conversation a request goes on with: what was said decides, not the prompt that leads it (GATE-67)."""

from collections.abc import Callable

import pytest

from tests.gateway.dialects.samples import CHAT, MESSAGES, RESPONSES, body

pytestmark = pytest.mark.spec("GATE-67")

SAID = ({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"})


def in_chat(system: str, *more: object) -> tuple[str, ...]:
    messages = [{"role": "system", "content": system}, {"role": "developer", "content": system}, *SAID, *more]
    return CHAT.parse_request(body({"model": "m", "messages": messages})).chain


def in_items(system: str, *more: object) -> tuple[str, ...]:
    items = [{"role": "system", "content": system}, {"role": "developer", "content": system}, *SAID, *more]
    return RESPONSES.parse_request(body({"model": "m", "instructions": system, "input": items})).chain


def in_parts(system: str, *more: object) -> tuple[str, ...]:
    parts = [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]
    return MESSAGES.parse_request(body({"model": "m", "system": parts, "messages": [*SAID, *more]})).chain


CHAINS = pytest.mark.parametrize("chain", [in_chat, in_items, in_parts])


@CHAINS
def test_a_prompt_that_changes_goes_on_with_its_conversation(chain: Callable[..., tuple[str, ...]]) -> None:
    assert chain("It is noon.") == chain("It is one o'clock, and this was found: Ann lives in Bern.")


@CHAINS
def test_what_is_said_to_the_model_in_between_counts(chain: Callable[..., tuple[str, ...]]) -> None:
    now, then = ({"role": "system", "content": text} for text in ("Be short.", "Be long."))
    assert chain("It is noon.", now)[-1] != chain("It is noon.", then)[-1]


def test_a_request_with_a_prompt_alone_goes_on_with_nothing() -> None:
    assert set(CHAT.parse_request(body({"messages": [{"role": "system", "content": "Tell a tale."}]})).chain) == {""}
    assert set(RESPONSES.parse_request(body({"input": [{"role": "developer", "content": "Tell a tale."}]})).chain) == {
        ""
    }


def test_items_of_a_provider_s_conversation_go_on_with_it() -> None:
    asked = {"input": [{"role": "developer", "content": "Be short."}, {"role": "user", "content": "yes"}]}
    assert (
        RESPONSES.parse_request(body(asked)).chain
        != RESPONSES.parse_request(body({**asked, "conversation": "conv_1"})).chain
    )
