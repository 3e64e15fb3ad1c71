"""Traces show passes, their steps and model calls, as a tracer provider of the user's records them."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from circadia.llm.chat_model import ModelAnswerError
from circadia.records.sleep_pass import PassStatus
from circadia.stores.base import Store
from circadia.telemetry.traces import Traces, end_call_span, set_up_traces
from circadia.testing.scripted_model import ScriptedChatModel
from tests.interaction.live import CHAT, live
from tests.sleeptime.stand import Stand
from tests.sleeptime.tier_stand import Tier, reading

SECRET = "Ann keeps her key under the mat."
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Recorded:
    """A tracer provider that keeps what it is given."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.traces = Traces(provider.get_tracer("tests"))

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """Return those that have ended, in this order."""
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [each for each in self.spans if each.name == name]


@pytest.fixture
async def stand(sqlite_store: Store) -> Stand:
    """A bank of Ann's."""
    return await Stand.made(sqlite_store)


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def told(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def parent(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def key(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


async def passed(stand: Stand, tier: Tier) -> PassStatus:
    """Return how a pass over some episodes has ended, once its span has."""
    await stand.said(SECRET, "She told me so.", "Nobody else knows.")
    stand.clock.advance(60)
    worker = tier.worker()
    await worker.step()
    (run,) = await tier.ended()
    async with asyncio.timeout(60):
        while worker.running_count:
            await asyncio.sleep(0)
    return run.status


@pytest.mark.spec("SLEEP-60")
async def test_a_pass_is_a_span_with_its_steps_and_their_model_calls_below_it(stand: Stand, recorded: Recorded) -> None:
    mind = ScriptedChatModel(reading)
    assert await passed(stand, Tier(stand, mind, traces=recorded.traces)) is PassStatus.SUCCEEDED
    (whole,) = recorded.named("pass")
    steps, calls = recorded.named("step pairs"), recorded.named(f"chat {mind.name}")
    assert len(recorded.spans) == 1 + len(steps) + len(calls) == 5
    assert parent(whole) is None
    assert [parent(each) for each in steps] == [key(whole)] * 2
    assert [parent(each) for each in calls] == [key(each) for each in steps], "through the step's thread"
    said = told(whole)
    assert said["circadia.bank"] == "ann"
    assert (said["circadia.pass.trigger"], said["circadia.pass.status"]) == ("idle", "succeeded")
    assert said["circadia.pass.counts.add_note"] == 2
    assert [told(each)["circadia.step.episodes"] for each in steps] == [2, 1]
    one = told(calls[0])
    assert (one["gen_ai.operation.name"], one["gen_ai.provider.name"]) == ("chat", mind.upstream)
    assert (one["gen_ai.request.model"], one["gen_ai.response.model"]) == (mind.name, mind.name)
    assert one["gen_ai.usage.input_tokens"] > 0
    assert one["circadia.operation"] == "pairs"
    assert calls[0].kind is trace.SpanKind.CLIENT


@pytest.mark.spec("SLEEP-60")
async def test_spans_say_what_has_failed_and_never_a_word_of_what_was_said(stand: Stand, recorded: Recorded) -> None:
    mind = ScriptedChatModel(lambda _, __: ModelAnswerError(f"the answer is prose: {SECRET}"))
    assert await passed(stand, Tier(stand, mind, traces=recorded.traces)) is PassStatus.FAILED
    (whole,) = recorded.named("pass")
    errors = {each.name: told(each)["error.type"] for each in recorded.spans}
    assert errors == {"pass": "failed", "step pairs": "unusable", f"chat {mind.name}": "incomplete"}
    assert {each.status.status_code for each in recorded.spans} == {trace.StatusCode.ERROR}
    for span in recorded.spans:
        assert "mat" not in f"{span.name} {told(span)} {span.status.description} {span.events}"
        assert "prose" not in f"{told(span)} {span.status.description} {span.events}"
    assert told(whole)["circadia.pass.status"] == "failed"


@pytest.mark.spec("SLEEP-60")
async def test_a_call_at_the_gateway_is_a_span_of_its_callers_trace_with_how_long_it_was_held(
    tmp_path: Path, recorded: Recorded
) -> None:
    async with live(tmp_path, traces=recorded.traces) as at:
        token = await at.agent("ann")
        await at.sleeping(True)
        body = {**CHAT, "messages": [{"role": "user", "content": SECRET}]}
        at.upstream.next(text=SECRET)
        calling = asyncio.ensure_future(at.call(token, body=body, headers={"traceparent": CALLER}).__aenter__())
        await at.held(1)
        await at.sleeping(False)
        async with asyncio.timeout(60):
            response = await calling
            assert response.status == 200
            assert await response.read()
        assert dict(at.upstream.requests[-1].headers)["traceparent"] == CALLER
        at.upstream.next(status=400, body={"error": {"message": SECRET}})
        async with at.call(token, body=body) as response:
            assert response.status == 400
        await at.server.journal.flush()
        assert "traceparent" not in at.upstream.requests[-1].headers
    first, second = recorded.spans
    assert first.name == second.name == f"chat {CHAT['model']}"
    assert first.parent is not None
    assert trace.format_trace_id(first.parent.trace_id) in CALLER
    assert trace.format_span_id(first.parent.span_id) in CALLER
    assert second.parent is None
    one = told(first)
    assert (one["gen_ai.operation.name"], one["gen_ai.provider.name"]) == ("chat", "openai")
    assert (one["gen_ai.request.model"], one["gen_ai.agent.name"]) == (CHAT["model"], "ann")
    assert one["gen_ai.usage.input_tokens"] > 0
    assert one["gen_ai.usage.output_tokens"] > 0
    assert one["circadia.hold_seconds"] > 0
    assert told(second)["error.type"] == "400"
    for span in (first, second):
        assert "mat" not in f"{span.name} {told(span)} {span.status.description} {span.events}"
        assert token not in f"{told(span)}"


@pytest.mark.spec("SLEEP-60")
def test_a_call_that_does_not_go_out_says_so(recorded: Recorded) -> None:
    for endpoint in ("embeddings", "completions", "messages"):
        end_call_span(recorded.traces.start_gateway_span(endpoint, "openai", "small", []), None)
    assert [each.name for each in recorded.spans] == ["embeddings small", "text_completion small", "chat small"]
    assert {told(each)["error.type"] for each in recorded.spans} == {"not_sent"}


def test_without_an_sdk_that_is_told_where_to_send_nothing_is_recorded() -> None:
    for environment in ({}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"}):
        traces = set_up_traces(environment)
        assert not traces.on
        with traces.step_span("dedupe", 3) as span:
            assert not span.is_recording()


@pytest.fixture
def collector() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """An endpoint that takes traces, and what came."""
    came: list[tuple[str, bytes]] = []

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Taking)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", came
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.spec("SLEEP-60")
def test_with_the_extra_and_an_endpoint_in_the_environment_spans_are_sent_there(
    collector: tuple[str, list[tuple[str, bytes]]],
) -> None:
    url, came = collector
    program = (
        "import os\n"
        "from circadia.telemetry.traces import set_up_traces\n"
        "traces = set_up_traces(os.environ)\n"
        "assert traces.on\n"
        "with traces.step_span('dedupe', 3):\n    pass\n"
    )
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": url}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=60)
    ((path, body),) = came
    assert path == "/v1/traces"
    assert b"step dedupe" in body
    assert b"circadia" in body
