"""Asks a provider's model through pydantic-ai: exactly one request per question (SLEEP-13, SLEEP-41).

The sleep tier retries, since each retry costs money; pydantic-ai and the SDK beneath it never do. Errors are described
without quoting a provider's error, which can hold conversation text or a key.
"""

import asyncio
import json
import logging
import re
import ssl
from collections.abc import Sequence
from typing import Final, TypeVar, cast

import httpx2
from pydantic import BaseModel, ValidationError
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelTimeoutError,
)
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ThinkingPart, ToolCallPart, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles import ModelProfile, merge_profile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from circadia.clock import Clock
from circadia.llm.chat_model import ModelAnswerError, Prompt
from circadia.llm.models import ModelSpec
from circadia.llm.prices import PriceList
from circadia.llm.schemas import answer_schema
from circadia.llm.usage import Usage
from circadia.settings import build_key_header

_logger = logging.getLogger(__name__)

MAX_RESPONSE_BYTES: Final = 4_000_000
"""Size of an unpacked response: many times the longest expected answer, reasoning included."""
_OF_THE_WIRE: Final = frozenset(("content-encoding", "content-length", "transfer-encoding"))


class ResponseTooLarge(httpx2.TransportError):
    """A response is larger than any expected one."""


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Reads whole responses of at most `MAX_RESPONSE_BYTES`."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response, read and unpacked. Raises ResponseTooLarge, and closes the connection."""
        answer = await self._inner.handle_async_request(request)
        read = bytearray()
        try:
            async for part in answer.aiter_bytes():
                read += part
                if len(read) > MAX_RESPONSE_BYTES:
                    raise ResponseTooLarge(f"the answer is larger than {MAX_RESPONSE_BYTES} bytes")
        finally:
            await answer.aclose()
        headers = [(name, value) for name, value in answer.headers.multi_items() if name not in _OF_THE_WIRE]
        return httpx2.Response(answer.status_code, headers=headers, content=bytes(read), extensions=answer.extensions)

    async def aclose(self) -> None:
        await self._inner.aclose()


T = TypeVar("T", bound=BaseModel)

PLACEHOLDER: Final = "unused"
"""The key that an SDK gets: requests are signed as they go out, so its errors and logs cannot hold the real one."""
_TOOL: Final = "answer"
_OBJECT: Final = re.compile(r'\{\s*["}]')
"""The beginning of a JSON object."""
_DECODER: Final = json.JSONDecoder()
_THINKING_END: Final = "</think>"
"""Behind it is the answer, if the provider does not separate the two."""
_MALFORMED_ANSWER_ERRORS: Final = (AttributeError, LookupError, TypeError, ValueError, RecursionError)
"""What the library raises over an answer that lacks an expected part, such as a choice or the usage."""
_MAX_CREDIBLE_TOKENS: Final = 10**12
"""More than any call can use: a larger count is wrong."""
_CREDENTIALS: Final = ("authorization", "x-api-key", "openai-organization", "openai-project")
"""Headers that an SDK takes from the environment or from its placeholder."""
_CONNECTIONS: Final = 16
"""One for each running pass, plus those of preempted passes."""


def build_http_client(at: ModelSpec) -> httpx2.AsyncClient:
    """Return a model's HTTP client; it reads certificates (`SSL_CERT_FILE` counts), so call it in a thread.

    It follows no redirect, which would carry the key to another host, and uses the proxy of `at` alone.
    """

    async def sign(request: httpx2.Request) -> None:
        for name in _CREDENTIALS:
            request.headers.pop(name, None)
        if at.key is not None:
            header, value = build_key_header(at.key, api=at.api, header=at.key_header)
            request.headers[header] = value

    wire = httpx2.AsyncHTTPTransport(
        verify=ssl.create_default_context(),
        limits=httpx2.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS),
        trust_env=False,
        proxy=str(at.proxy) if at.proxy is not None else None,
    )
    return httpx2.AsyncClient(
        transport=BoundedTransport(wire), follow_redirects=False, trust_env=False, event_hooks={"request": [sign]}
    )


def build_timeout(at: ModelSpec) -> httpx2.Timeout:
    """Return an SDK's connect timeout; `ProviderModel` limits the wait for an answer."""
    return httpx2.Timeout(None, connect=at.connect_timeout_seconds)


def prefer_json_schema(default: ModelProfile) -> ModelProfile:
    """Make the model keep to the schema natively if it can, else by a tool call, else by the prompt alone."""
    if default.get("supports_json_schema_output", False):
        mode = "native"
    else:
        mode = "tool" if default.get("supports_tools", True) else "prompted"
    return merge_profile(default, ModelProfile(default_structured_output_mode=mode))


class ProviderModel:
    """A model of a provider; see `ChatModel`."""

    def __init__(self, at: ModelSpec, model: Model, prices: PriceList, clock: Clock) -> None:
        self.name = at.model
        self.upstream = at.upstream
        self.thinking_tokens = at.thinking_tokens
        self._at = at
        self._model = model
        self._prices = prices
        self._clock = clock

    async def ask(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> tuple[T, Usage]:
        """Return the answer and its usage. Raises ModelAnswerError."""
        question = ModelRequest(parts=[UserPromptPart(prompt.data)], instructions=prompt.rules)
        try:
            async with asyncio.timeout(self._at.timeout_seconds):
                answer = await model_request(
                    self._model,
                    [question],
                    model_settings=self._build_settings(most_tokens),
                    model_request_parameters=_build_parameters(output),
                    instrument=False,
                )
        except TimeoutError:
            raise ModelAnswerError(f"no answer within {self._at.timeout_seconds:g} s", passing=True) from None
        except AgentRunError as error:
            raise build_answer_error(error) from None
        except _MALFORMED_ANSWER_ERRORS as error:
            raise ModelAnswerError(
                f"the provider's answer was not of its API ({type(error).__name__})", passing=True
            ) from None
        used = _convert_usage(answer.usage)
        return _parse_answer(answer, output, used, most_tokens), used or Usage()

    def price(self, used: Usage) -> int | None:
        return self._prices.price(self.name, used, self._clock.now())

    def worst_price(self, input_tokens: int, output_tokens: int) -> int | None:
        return self._prices.worst_price(self.name, input_tokens, output_tokens, self._clock.now())

    def _build_settings(self, most_tokens: int) -> ModelSettings:
        """Return the limits of an answer and of the thinking before it."""
        settings = ModelSettings(max_tokens=most_tokens, max_retries=0)
        by_effort = self._at.api != "anthropic" or self._model.profile.get(
            "anthropic_supports_adaptive_thinking", False
        )
        if self._at.reasoning == "off" or (not by_effort and most_tokens <= self.thinking_tokens):
            return {**settings, "thinking": False}
        if by_effort:
            return {**settings, "thinking": self._at.reasoning}
        budget = {"type": "enabled", "budget_tokens": self.thinking_tokens}
        return cast("ModelSettings", {**settings, "anthropic_thinking": budget})


def _build_parameters(output: type[BaseModel]) -> ModelRequestParameters:
    """Return the schema in each form that a model may take; its profile picks one."""
    schema = answer_schema(output)
    return ModelRequestParameters(
        output_mode="auto",
        output_object=OutputObjectDefinition(json_schema=schema, name=output.__name__, strict=True),
        output_tools=[
            ToolDefinition(name=_TOOL, description="Give the answer.", parameters_json_schema=schema, kind="output")
        ],
    )


def _parse_answer(answer: ModelResponse, output: type[T], used: Usage | None, most_tokens: int) -> T:
    """Return the parsed answer. Raises ModelAnswerError."""
    called = [part for part in answer.parts if isinstance(part, ToolCallPart) and part.tool_name == _TOOL]
    texts = [part.content for part in answer.parts if isinstance(part, TextPart)]
    text = (called[0].args_as_json_str() if called else "".join(texts)).strip("\ufeff \t\r\n")
    thought = any(isinstance(part, ThinkingPart) for part in answer.parts) or (used and used.reasoning_tokens)
    if answer.finish_reason == "length":
        cut = "thinking" if thought or not text else "answer"
        raise ModelAnswerError(f"the answer was cut off at {most_tokens} tokens", used=used, cut=cut)
    if answer.finish_reason == "content_filter":
        raise ModelAnswerError("the model refused to answer", used=used)
    if not text:
        raise ModelAnswerError("the answer was empty" + (" after reasoning" if thought else ""), used=used)
    try:
        return _validate_answer(_find_object(text), output)
    except ValidationError as error:
        raise ModelAnswerError(_describe_misfit(text, error), used=used) from None


def _find_object(text: str) -> str:
    """Return the only JSON object in a text, whatever words, fence or thinking are around it; else the text."""
    for part in (text, text.rpartition(_THINKING_END)[2]):
        found = _find_objects(part)
        if len(found) == 1:
            return found[0]
    return text


def _find_objects(text: str) -> Sequence[str]:
    """Return the JSON objects in a text, none if one of them is broken."""
    found: list[str] = []
    end = 0
    for match in _OBJECT.finditer(text):
        if match.start() >= end:
            try:
                _, end = _DECODER.raw_decode(text, match.start())
            except (ValueError, RecursionError):
                return ()
            found.append(text[match.start() : end])
    return found


def _validate_answer(text: str, output: type[T]) -> T:
    """Return the answer without the rows of another shape (SLEEP-83). Raises ValidationError: nothing is left of it."""
    try:
        return output.model_validate_json(text)
    except ValidationError as error:
        rest = _drop_bad_rows(text, error)
        if rest is None:
            raise
    return _validate_answer(rest, output)


def _drop_bad_rows(text: str, error: ValidationError) -> str | None:
    """Return a JSON object without its invalid rows; None if nothing would be left of a list, or more is invalid."""
    bad: dict[str, set[int]] = {}
    for fault in error.errors(include_url=False):
        match fault["loc"]:
            case (str(field), int(row), *_):
                bad.setdefault(field, set()).add(row)
            case (str(field),) if fault["type"] == "too_long":
                bad.setdefault(field, set()).update(range(fault.get("ctx", {})["max_length"], len(fault["input"])))
            case _:
                return None
    answer: dict[str, list[object]] = json.loads(text)
    for field, numbers in bad.items():
        rows = answer[field]
        answer[field] = [row for number, row in enumerate(rows) if number not in numbers]
        if not answer[field]:
            return None
        _logger.warning("%d of %d rows of a model's answer have another shape or are too many", len(numbers), len(rows))
    return json.dumps(answer)


def _describe_misfit(said: str, error: ValidationError) -> str:
    """Return why an answer is invalid, without quoting it."""
    kinds = sorted(
        {fault["type"] for fault in error.errors(include_url=False, include_context=False, include_input=False)}
    )
    if kinds == ["json_invalid"]:
        return "the answer was bad JSON" if said.startswith(("{", "[")) else "the answer was prose instead of JSON"
    return f"the answer was JSON of another shape ({', '.join(kinds)})"


def _convert_usage(usage: RequestUsage) -> Usage | None:
    """Return the provider's counts; none without any, in which case the library reports an input of 0."""
    details = usage.details
    thought = details.get("reasoning_tokens", details.get("thinking_tokens"))
    counted = (usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens, thought or 0)
    if not usage.input_tokens or max(usage.input_tokens, *counted) > _MAX_CREDIBLE_TOKENS:
        return None
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        reasoning_tokens=thought,
    )


_QUESTION_STATUSES: Final = frozenset({400, 413, 422})
"""Statuses that are the question's fault; all others would have met any question."""
_NO_TOKENS: Final = Usage(input_tokens=0, output_tokens=0)


def build_answer_error(error: AgentRunError) -> ModelAnswerError:
    """Return the error to raise instead of `error`.

    A refused or unsent request costs nothing; the cost is unknown if the answer was lost on the way or broke off.
    """
    if _is_too_large(error):
        return ModelAnswerError(f"the answer was larger than {MAX_RESPONSE_BYTES} bytes")
    if isinstance(error, ModelHTTPError):
        status = error.status_code
        cause = f"the provider answered with status {status}{_advice(error)}"
        return ModelAnswerError(
            cause, used=_NO_TOKENS if 400 <= status < 500 else None, passing=status not in _QUESTION_STATUSES,
            retry_after_seconds=error.retry_after,
        )  # fmt: skip
    if isinstance(error, ModelConnectionError):
        slow = isinstance(error, ModelTimeoutError)
        if error.phase in ("pool", "connect"):
            return ModelAnswerError(f"no connection to the provider{' in time' * slow}", used=_NO_TOKENS, passing=True)
        return ModelAnswerError(
            "no answer in time" if slow else "the connection to the provider broke off", passing=True
        )
    if isinstance(error, ModelAPIError):
        return ModelAnswerError("the provider's answer was not of its API", passing=True)
    return ModelAnswerError("the provider's answer could not be read", passing=True)


def _is_too_large(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ResponseTooLarge):
        error = error.__cause__
    return error is not None


def _advice(error: ModelHTTPError) -> str:
    if isinstance(error, ModelQuotaExceededError):
        return ": the account's quota or credit is used up"
    if isinstance(error, ModelRateLimitError):
        return ": too many requests"
    if isinstance(error, ModelAuthenticationError):
        return ": check the upstream's key"
    if isinstance(error, ModelNotFoundError):
        return ": it does not know the model, or `base_url` is wrong"
    if isinstance(error, ModelContextWindowExceededError):
        return ": the question is longer than the model can read"
    return ""
