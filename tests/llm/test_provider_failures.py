"""How each failure of a provider's model is told, and what it is counted as; nothing is sent twice."""

import asyncio
import gzip
import logging
import traceback
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest

from circadia.llm.chat_model import ModelAnswerError
from circadia.llm.providers import Api
from circadia.llm.usage import Usage
from tests.fixtures.leap import Leap
from tests.llm.provider_stand import (
    GOOD,
    KEY,
    MAX_TOKENS,
    NAMES,
    SECRET,
    USED,
    Stand,
    answering,
    completion,
    counts,
    cut_while_thinking,
    message,
    standing,
)

LARGEST_BYTES = 4_000_000


@pytest.fixture(params=["openai", "anthropic"])
async def stand(request: pytest.FixtureRequest) -> AsyncGenerator[Stand]:
    async with standing(request.param) as made:
        yield made


FAULTS: Mapping[str, tuple[str, str]] = {
    "prose": (f"I would say {SECRET}, all in all.", "the answer was prose instead of JSON"),
    "bad JSON": ('{"word": ' + SECRET + "}", "the answer was bad JSON"),
    "half JSON": ('{"word": "' + SECRET, "the answer was bad JSON"),
    "another shape": ('{"' + SECRET + '": 1}', "the answer was JSON of another shape (missing)"),
    "an empty body": ("", "the answer was empty"),
    "white space": (" \n ", "the answer was empty"),
}


@pytest.mark.spec("SLEEP-13", "SLEEP-40")
@pytest.mark.parametrize("fault", FAULTS)
async def test_what_is_no_answer_is_told_counted_and_not_asked_again(stand: Stand, fault: str) -> None:
    text, cause = FAULTS[fault]
    stand.up.next(body=answering(stand, text))
    error = await stand.fails()
    assert error.cause == cause
    assert not error.passing
    assert counts(error.used) == USED


@pytest.mark.spec("SLEEP-13", "SLEEP-41")
async def test_an_answer_that_reached_its_limit_is_none_though_it_may_look_whole(stand: Stand) -> None:
    for text in ('{"word": "' + SECRET, GOOD):
        stand.up.next(body=answering(stand, text, cut=True))
        error = await stand.fails()
        assert error.cause == f"the answer was cut off at {MAX_TOKENS} tokens"
        assert error.cut == "answer"
        assert counts(error.used) == USED


@pytest.mark.spec("SLEEP-81")
async def test_an_answer_that_thinking_left_no_room_for_says_so(stand: Stand) -> None:
    stand.up.next(body=cut_while_thinking(stand.api, MAX_TOKENS))
    error = await stand.fails()
    assert (error.cause, error.cut) == (f"the answer was cut off at {MAX_TOKENS} tokens", "thinking")
    assert error.used is not None
    assert error.used.reasoning_tokens == MAX_TOKENS


@pytest.mark.spec("SLEEP-13")
async def test_a_refusal_is_told_and_counted(stand: Stand) -> None:
    bodies = [answering(stand, "", refused=True)]
    if stand.api == "openai":
        bodies.append(completion({"refusal": f"I do not speak of {SECRET}."}))
    for body in bodies:
        stand.up.next(body=body)
        error = await stand.fails()
        assert error.cause == "the model refused to answer"
        assert counts(error.used) == USED


@pytest.mark.spec("SLEEP-41")
async def test_nothing_but_reasoning_is_a_failure_and_what_was_reasoned_is_counted(stand: Stand) -> None:
    if stand.api == "openai":
        usage = {
            "prompt_tokens": 50, "completion_tokens": 20, "total_tokens": 70,
            "prompt_tokens_details": {"cached_tokens": 32}, "completion_tokens_details": {"reasoning_tokens": 20},
        }  # fmt: skip
        stand.up.next(body=completion({"content": "", "reasoning_content": SECRET}, usage=usage))
    else:
        usage = {
            "input_tokens": 18, "cache_read_input_tokens": 32, "cache_creation_input_tokens": 0, "output_tokens": 20,
            "output_tokens_details": {"thinking_tokens": 20},
        }  # fmt: skip
        stand.up.next(body=message({"type": "thinking", "thinking": SECRET, "signature": "s"}, usage=usage))
    error = await stand.fails()
    assert error.cause == "the answer was empty after reasoning"
    assert error.used == Usage(**USED, cached_tokens=32, cache_write_tokens=0, reasoning_tokens=20)


STATUSES: Mapping[int, tuple[str, bool]] = {
    400: ("the provider answered with status 400", False),
    401: ("the provider answered with status 401: check the upstream's key", True),
    402: ("the provider answered with status 402: the account's quota or credit is used up", True),
    404: ("the provider answered with status 404: it does not know the model, or `base_url` is wrong", True),
    409: ("the provider answered with status 409", True),
    413: ("the provider answered with status 413", False),
    429: ("the provider answered with status 429: too many requests", True),
    500: ("the provider answered with status 500", True),
    503: ("the provider answered with status 503", True),
    529: ("the provider answered with status 529", True),
}


@pytest.mark.spec("SLEEP-13", "SLEEP-40")
@pytest.mark.parametrize("status", STATUSES)
async def test_a_status_is_told_as_the_providers_fault_unless_it_may_be_the_questions(
    stand: Stand, status: int
) -> None:
    stand.up.next(status=status)
    error = await stand.fails()
    assert (error.cause, error.passing) == STATUSES[status]
    assert error.used == (Usage(input_tokens=0, output_tokens=0) if status < 500 else None)


@pytest.mark.spec("SLEEP-13")
async def test_how_long_to_wait_is_what_the_provider_says(stand: Stand) -> None:
    stand.up.next(status=429, headers={"retry-after": "7"})
    assert (await stand.fails()).retry_after_seconds == 7
    stand.up.next(status=503)
    assert (await stand.fails()).retry_after_seconds is None


@pytest.mark.spec("SLEEP-13")
async def test_an_account_without_credit_is_not_told_as_too_many_requests() -> None:
    async with standing("openai") as stand:
        stand.up.next(status=429, body={"error": {"message": "pay", "code": "insufficient_quota", "type": "x"}})
        assert "quota or credit" in (await stand.fails()).cause


@pytest.mark.spec("SLEEP-13")
@pytest.mark.parametrize(
    "script",
    [
        {"garbage": True}, {"body": b'{"half": '}, {"body": b"{}"}, {"body": b"[]"}, {"body": b""},
        {"body": b"[" * 200_000 + b"]" * 200_000},
    ],
    ids=["html", "half", "no fields", "no object", "nothing", "a deep nest"],
)  # fmt: skip
async def test_a_body_that_is_none_of_the_api_is_the_providers_fault(stand: Stand, script: dict[str, Any]) -> None:
    stand.up.next(**script)
    error = await stand.fails()
    assert error.cause.startswith(("the provider's answer was not of its API", "the provider's answer could not"))
    assert error.passing


@pytest.mark.spec("SLEEP-13")
async def test_a_connection_that_breaks_off_is_the_providers_fault_and_its_cost_unknown(stand: Stand) -> None:
    scripts: list[dict[str, Any]] = [{"reset": True}, {"die_after_chunks": 0}, {"die_after_chunks": 1}]
    for script in scripts:
        stand.up.next(**script)
        error = await stand.fails()
        assert error.cause == "the connection to the provider broke off"
        assert (error.passing, error.used) == (True, None)


@pytest.mark.spec("SLEEP-13", "SLEEP-40")
async def test_a_provider_that_is_not_there_costs_nothing() -> None:
    for api in NAMES:
        async with standing(api) as stand:
            await stand.up.__aexit__()
            with pytest.raises(ModelAnswerError, match="no connection to the provider") as raised:
                await stand.ask()
            assert raised.value.passing
            assert raised.value.used == Usage(input_tokens=0, output_tokens=0)
            await stand.up.__aenter__()


@pytest.mark.spec("SLEEP-13")
@pytest.mark.parametrize("api", NAMES)
async def test_an_answer_that_does_not_come_is_waited_for_so_long_and_no_longer(api: Api, leap: Leap) -> None:
    async with standing(api, timeout_seconds=30.0) as stand:
        stand.up.next(hang=True)
        failing = asyncio.create_task(stand.fails())
        await stand.up.wait_for_requests(1)
        leap(30.0)
        error = await failing
        assert error.cause == "no answer within 30 s"
        assert (error.passing, error.used) == (True, None)
        await stand.up.wait_for_drops(1)


async def test_neither_the_key_nor_what_was_said_stands_in_an_error_or_a_log(
    stand: Stand, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("openai", "anthropic", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.DEBUG)
    caplog.set_level(logging.DEBUG)
    stand.up.next(status=401, body={"error": {"message": f"wrong key {KEY} for {SECRET}", "type": "x", "code": "y"}})
    stand.up.next(status=500, body={"error": {"message": f"{KEY} {SECRET}"}})
    stand.up.next(body=answering(stand, SECRET))
    stand.up.next(body=f"{SECRET} {KEY}")
    for _ in range(4):
        error = await stand.fails()
        told = f"{error!r} {error.cause} {''.join(traceback.format_exception(error))}"
        assert KEY not in told
        assert SECRET not in told.replace("SECRET", "")
    assert caplog.records, "the libraries were heard"
    assert not [each for each in caplog.records if KEY in f"{each.getMessage()} {each.__dict__}"]


@pytest.mark.spec("SLEEP-13")
@pytest.mark.parametrize("packed", [False, True], ids=["as it is", "packed"])
async def test_an_answer_without_an_end_is_not_read_to_its_end(stand: Stand, packed: bool) -> None:
    body = answering(stand, GOOD + " " * LARGEST_BYTES)
    headers = {"content-encoding": "gzip"} if packed else {}
    stand.up.next(body=gzip.compress(body) if packed else body, headers=headers)
    error = await stand.fails()
    assert error.cause == f"the answer was larger than {LARGEST_BYTES} bytes"
    assert (error.passing, error.used) == (False, None), "it may be the question's fault, and its price is not known"
    stand.up.next(body=gzip.compress(answering(stand, GOOD)), headers={"content-encoding": "gzip"})
    assert (await stand.ask())[0].word == "one", "a packed answer of a right size is one"
