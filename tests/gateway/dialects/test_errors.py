"""Errors look like the provider's own, so that the official SDKs raise what their callers catch."""

import gzip
from collections.abc import Callable

import anthropic
import httpx2
import openai
import orjson
import pytest

from circadia.errors import InvalidRequest
from circadia.gateway.dialects.base import Dialect
from circadia.gateway.dialects.errors import SHAPES, is_too_long
from circadia.gateway.payload.fields import load
from tests.gateway.dialects.samples import ALL, ANTHROPIC, CHAT, COMPLETIONS, MESSAGES, OPENAI, RESPONSES

Handler = Callable[[httpx2.Request], httpx2.Response]


def answering(status: int, content: bytes, kind: str) -> httpx2.Client:
    def handler(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, content=content, headers={"content-type": kind})

    return httpx2.Client(transport=httpx2.MockTransport(handler))


def openai_client(status: int, content: bytes, kind: str = "application/json") -> openai.OpenAI:
    client = answering(status, content, kind)
    return openai.OpenAI(api_key="x", base_url="http://x/v1", max_retries=0, http_client=client)


def anthropic_client(status: int, content: bytes, kind: str = "application/json") -> anthropic.Anthropic:
    client = answering(status, content, kind)
    return anthropic.Anthropic(api_key="x", base_url="http://x", max_retries=0, http_client=client)


@pytest.mark.spec("GATE-63")
@pytest.mark.parametrize(
    ("status", "raised", "kind"),
    [
        (400, openai.BadRequestError, "invalid_request_error"),
        (401, openai.AuthenticationError, "authentication_error"),
        (403, openai.PermissionDeniedError, "permission_error"),
        (404, openai.NotFoundError, "invalid_request_error"),
        (429, openai.RateLimitError, "rate_limit_error"),
        (502, openai.InternalServerError, "server_error"),
    ],
)
def test_the_openai_sdk_maps_an_error(status: int, raised: type[openai.APIStatusError], kind: str) -> None:
    client = openai_client(status, CHAT.errors.body(status, "a_code", "what to do"))
    with pytest.raises(raised) as caught:
        client.chat.completions.create(model="m", messages=[])
    assert (caught.value.code, caught.value.type) == ("a_code", kind)
    assert caught.value.body == {"message": "what to do", "type": kind, "param": None, "code": "a_code"}


@pytest.mark.spec("GATE-63")
@pytest.mark.parametrize(
    ("status", "raised", "kind"),
    [
        (400, anthropic.BadRequestError, "invalid_request_error"),
        (401, anthropic.AuthenticationError, "authentication_error"),
        (403, anthropic.PermissionDeniedError, "permission_error"),
        (404, anthropic.NotFoundError, "not_found_error"),
        (413, anthropic.RequestTooLargeError, "request_too_large"),
        (429, anthropic.RateLimitError, "rate_limit_error"),
        (502, anthropic.InternalServerError, "api_error"),
        (503, anthropic.ServiceUnavailableError, "overloaded_error"),
        (504, anthropic.DeadlineExceededError, "timeout_error"),
    ],
)
def test_the_anthropic_sdk_maps_an_error(status: int, raised: type[anthropic.APIStatusError], kind: str) -> None:
    client = anthropic_client(status, MESSAGES.errors.body(status, "a_code", "what to do"))
    with pytest.raises(raised) as caught:
        client.messages.create(model="m", max_tokens=1, messages=[])
    body = {"type": "error", "error": {"type": kind, "message": "what to do"}, "request_id": None}
    assert caught.value.body == body


@pytest.mark.spec("GATE-48", "GATE-50")
def test_the_openai_sdk_raises_an_error_in_the_middle_of_a_chat_or_completion() -> None:
    for dialect in (CHAT, COMPLETIONS):
        content = b": keep-alive\n\n" + dialect.errors.event(503, "still_asleep", "it sleeps")
        client = openai_client(200, content, "text/event-stream")
        with pytest.raises(openai.APIError) as caught:
            list(client.chat.completions.create(model="m", messages=[], stream=True))
        assert (caught.value.message, caught.value.code) == ("it sleeps", "still_asleep")


@pytest.mark.spec("GATE-48", "GATE-50")
def test_the_openai_sdk_raises_an_error_in_the_middle_of_a_response() -> None:
    content = b": keep-alive\n\n" + RESPONSES.errors.event(503, "still_asleep", "it sleeps")
    client = openai_client(200, content, "text/event-stream")
    with pytest.raises(openai.APIError) as caught:
        list(client.responses.create(model="m", input="x", stream=True))
    assert (caught.value.message, caught.value.code) == ("it sleeps", "still_asleep")


@pytest.mark.spec("GATE-48", "GATE-50")
def test_the_anthropic_sdk_raises_an_error_in_the_middle_of_a_message() -> None:
    content = b": keep-alive\n\n" + MESSAGES.errors.event(503, "still_asleep", "it sleeps")
    client = anthropic_client(200, content, "text/event-stream")
    with pytest.raises(anthropic.APIError) as caught:
        list(client.messages.create(model="m", max_tokens=1, messages=[], stream=True))
    assert "it sleeps" in caught.value.message


@pytest.mark.spec("GATE-63")
def test_a_path_of_no_known_shape_has_the_errors_of_its_upstream() -> None:
    assert OPENAI["plain"].errors.body(403, "c", "m") == CHAT.errors.body(403, "c", "m")
    assert ANTHROPIC["plain"].errors.body(403, "c", "m") == MESSAGES.errors.body(403, "c", "m")
    assert OPENAI["plain"].errors.event(403, "c", "m") == CHAT.errors.event(403, "c", "m")
    assert ANTHROPIC["plain"].errors.event(403, "c", "m") == MESSAGES.errors.event(403, "c", "m")


@pytest.mark.spec("GATE-63")
@pytest.mark.parametrize("dialect", ALL, ids=lambda one: one.endpoint)
def test_an_error_event_stays_one_event_whatever_the_message(dialect: Dialect) -> None:
    event = dialect.errors.event(502, "upstream_failed", 'line\n\ndata: x\r"é"')
    is_bare = dialect.errors is SHAPES["gemini"]  # JSON alone, for Google's SDKs
    assert event.endswith(b"}" if is_bare else b"\n\n")
    assert event.count(b"\n\n") == (0 if is_bare else 1)
    assert b"\r" not in event


@pytest.mark.spec("SLEEP-02")
@pytest.mark.parametrize(
    ("status", "body", "long"),
    [
        (
            400,
            {"error": {"message": "too many", "type": "invalid_request_error", "code": "context_length_exceeded"}},
            1,
        ),
        (400, {"error": {"message": "This model's maximum context length is 8192 tokens.", "code": None}}, 1),
        (400, {"object": "error", "message": "This model's maximum context length is 4096 tokens.", "code": 400}, 1),
        (
            400,
            {
                "type": "error",
                "error": {"type": "invalid_request_error", "message": "prompt is too long: 213000 tokens"},
            },
            1,
        ),
        (
            400,
            {"type": "error", "error": {"type": "invalid_request_error", "message": "input exceeds context limit"}},
            1,
        ),
        (413, {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum"}}, 1),
        (400, {"error": {"message": "max_tokens is too large", "type": "invalid_request_error", "code": None}}, 0),
        (429, {"error": {"message": "context length", "code": "context_length_exceeded"}}, 0),
        (400, {"error": "bad"}, 0),
        (400, [1], 0),
        (400, b"<html>", 0),
    ],
)
def test_an_error_that_says_that_the_context_is_too_long_is_known(status: int, body: object, long: int) -> None:
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    assert is_too_long(status, raw) is bool(long)


@pytest.mark.parametrize(
    "body", [gzip.compress(b'{"model": "m"}'), b"\x28\xb5\x2f\xfd\x04X\x81\x00\x00{"], ids=["gzip", "zstd"]
)
def test_of_a_body_that_is_compressed_its_caller_is_told_so(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="is compressed; send it as it is"):
        load(body)
