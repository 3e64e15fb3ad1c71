"""Traces with OpenTelemetry: a span for each pass, each of its steps and each model call (SLEEP-60).

Only the API is used, so almost nothing happens unless an SDK has set a tracer provider before the server starts. Names
follow the semantic conventions for generative AI, which are still in development: only this module knows them. No span
holds text of prompts, answers, memory or errors, or the identity of the end user.
"""

import importlib
import logging
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from circadia.records.bank import Bank
from circadia.records.call import Call, CallStatus
from circadia.records.sleep_pass import Pass, PassStatus

_logger = logging.getLogger(__name__)

# https://github.com/open-telemetry/semantic-conventions-genai
OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
AGENT_NAME: Final = "gen_ai.agent.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
RESPONSE_MODEL: Final = "gen_ai.response.model"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
ERROR_TYPE: Final = "error.type"
CHAT: Final = "chat"
_OPERATIONS: Final = {"completions": "text_completion", "embeddings": "embeddings"}
"""Endpoints whose operation is not `chat`."""

# Circadia's own names.
CALL_ID: Final = "circadia.call.id"
HOLD_SECONDS: Final = "circadia.hold_seconds"
COST_USD: Final = "circadia.cost_usd"
OPERATION: Final = "circadia.operation"
BANK: Final = "circadia.bank"
BANK_ID: Final = "circadia.bank.id"
PASS: Final = "circadia.pass."

INCOMPLETE: Final = "incomplete"
"""`error.type` of a call without a complete answer."""
NOT_SENT: Final = "not_sent"
"""`error.type` of a call that was not sent: its budget is used up, or its caller left."""
_NANOUSD: Final = 1e9
_OFF: Final[AbstractContextManager[Span]] = nullcontext(INVALID_SPAN)
_CARRIED: Final = frozenset({b"traceparent", b"tracestate"})
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class Traces:
    """Makes spans; without a tracer none is recorded."""

    def __init__(self, tracer: Tracer | None = None) -> None:
        self._tracer = tracer
        self._propagator = TraceContextTextMapPropagator()
        self.on: Final = tracer is not None
        """Whether spans are recorded; check it before costly work."""

    def pass_span(self, run: Pass, bank: Bank) -> AbstractContextManager[Span]:
        if self._tracer is None:
            return _OFF
        attributes: dict[str, Any] = {
            f"{PASS}id": run.id, f"{PASS}trigger": run.trigger.value, f"{PASS}attempt": run.attempt,
            f"{PASS}full": run.full, f"{PASS}dry_run": run.dry_run, BANK: bank.template or bank.name, BANK_ID: bank.id,
        }  # fmt: skip
        return self._start_current_span("pass", attributes)

    def step_span(self, operation: str, episodes: int) -> AbstractContextManager[Span]:
        """Return the span of one step of a pass, current within the block; `episodes` counts the new ones."""
        if self._tracer is None:
            return _OFF
        return self._start_current_span(f"step {operation}", {OPERATION: operation, "circadia.step.episodes": episodes})

    def start_sleep_call_span(self, line: Call, operation: str) -> Span:
        """Return the span of a call that a pass makes; `end_call_span` ends it."""
        if self._tracer is None:
            return INVALID_SPAN
        attributes = {**_call_attributes(CHAT, line.upstream, line.model), OPERATION: operation}
        return self._tracer.start_span(f"{CHAT} {line.model}", kind=SpanKind.CLIENT, attributes=attributes)

    def start_gateway_span(
        self, endpoint: str, upstream: str, model: str | None, headers: Iterable[tuple[bytes, bytes]]
    ) -> Span:
        """Return the span of a gateway call, a child of the caller's span; `end_call_span` ends it.

        The caller's `traceparent` goes upstream unchanged, so that nobody must trust the gateway with a trace.
        """
        if self._tracer is None:
            return INVALID_SPAN
        carried = {name.decode(): value.decode("latin-1") for name, value in headers if name in _CARRIED}
        operation, named = _OPERATIONS.get(endpoint, CHAT), model or "unknown"
        return self._tracer.start_span(
            f"{operation} {named}", self._propagator.extract(carried), SpanKind.CLIENT,
            _call_attributes(operation, upstream, named),
        )  # fmt: skip

    def _start_current_span(self, name: str, told: Mapping[str, Any]) -> AbstractContextManager[Span]:
        assert self._tracer is not None
        return self._tracer.start_as_current_span(
            name, attributes=told, record_exception=False, set_status_on_exception=False
        )


def end_call_span(span: Span, line: Call | None) -> None:
    """End the span of a model call with the call's record, or as `not_sent` without one."""
    if not span.is_recording():
        return
    if line is None:
        mark_failed(span, NOT_SENT)
        span.end()
        return
    attributes = {
        CALL_ID: line.id, AGENT_NAME: line.agent or None, CONVERSATION_ID: line.conversation,
        REQUEST_STREAM: line.streamed,
        RESPONSE_MODEL: line.model, INPUT_TOKENS: line.input_tokens, OUTPUT_TOKENS: line.output_tokens,
        CACHED_TOKENS: line.cached_tokens, REASONING_TOKENS: line.reasoning_tokens, HOLD_SECONDS: line.held_seconds,
        TIME_TO_FIRST_CHUNK: line.first_token_seconds,
        COST_USD: None if line.cost_nanousd is None else line.cost_nanousd / _NANOUSD,
    }  # fmt: skip
    span.set_attributes({name: value for name, value in attributes.items() if value is not None})
    if line.status is not CallStatus.DONE:
        refused = line.http_status is not None and line.http_status >= 400
        mark_failed(span, str(line.http_status) if refused else INCOMPLETE)
    span.end()


def record_pass_end(span: Span, run: Pass) -> None:
    if not span.is_recording():
        return
    counts = {f"{PASS}counts.{name}": number for name, number in run.counts.items()}
    generation = {} if run.generation_after is None else {f"{PASS}generation": run.generation_after}
    span.set_attributes({f"{PASS}status": run.status.value, f"{PASS}after": run.after, **counts, **generation})
    if run.status is PassStatus.FAILED:
        mark_failed(span, run.status.value)


def mark_failed(span: Span, kind: str) -> None:
    """Mark the span as failed; `kind` is one of a few values."""
    span.set_attribute(ERROR_TYPE, kind)
    span.set_status(Status(StatusCode.ERROR))


def set_up_traces(environment: Mapping[str, str]) -> Traces:
    """Return the span maker for the process's tracer provider; called once, by the serving process.

    If no provider is set (as `opentelemetry-instrument` does) and the environment names an endpoint for traces, the SDK
    of the extra `otel` sends them there, configured by OpenTelemetry's standard variables.
    """
    if _is_provider_unset() and any(environment.get(name) for name in _ENDPOINTS):
        if environment.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
            return Traces()
        try:
            sdk = importlib.import_module("opentelemetry.sdk.trace")
            export = importlib.import_module("opentelemetry.sdk.trace.export")
            resources = importlib.import_module("opentelemetry.sdk.resources")
            otlp = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        except ImportError:
            _logger.warning("traces are sent nowhere: install the extra, pip install 'circadia[otel]'")
            return Traces()
        name = environment.get("OTEL_SERVICE_NAME") or "circadia"
        provider = sdk.TracerProvider(resource=resources.Resource.create({"service.name": name}))
        provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
        trace.set_tracer_provider(provider)
    return Traces() if _is_provider_unset() else Traces(trace.get_tracer("circadia"))


def _is_provider_unset() -> bool:
    return isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider)


def _call_attributes(operation: str, upstream: str, model: str) -> dict[str, Any]:
    return {OPERATION_NAME: operation, PROVIDER_NAME: upstream, REQUEST_MODEL: model}
