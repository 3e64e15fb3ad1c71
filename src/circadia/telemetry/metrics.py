"""Prometheus metrics, counted from records that are written anyway."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from circadia.records.call import Call, CallStatus
from circadia.records.event import Event, EventType

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


_MAX_MODELS = 200
"""Models of an upstream with series of their own: so many known ones, and so many that were answered."""
_OTHER = "other"


class Metrics:
    """One registry per server; nothing global."""

    def __init__(self, known_models: Callable[[], Collection[str]] = tuple) -> None:
        """Calls of `known_models` have series of their own from the first, other models once one is answered."""
        self._known_models = known_models
        self._named_models: defaultdict[tuple[str, bool], set[str]] = defaultdict(set)
        """The models with series of their own, by upstream and whether they are known."""
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._series: dict[tuple[str, str, str], _CallSeries] = {}
        self._events = Counter("circadia_events", "Events by type.", ["type"], registry=self._registry)
        self._calls = Counter(
            "circadia_model_calls", "Model calls by upstream, model and outcome.", ["upstream", "model", "status"],
            registry=self._registry,
        )  # fmt: skip
        self._tokens = Counter(
            "circadia_tokens", "Tokens, as providers report them.", ["upstream", "model", "kind"],
            registry=self._registry,
        )  # fmt: skip
        self._cost = Counter(
            "circadia_cost_usd", "Price in US dollars.", ["upstream", "model"], registry=self._registry
        )
        self._wakes = Counter(
            "circadia_wakes", "Wake requests by source, decision and rule.", ["source", "decision", "rule"],
            registry=self._registry,
        )  # fmt: skip
        self._pulses = Counter("circadia_pulses", "Pulse transitions by status.", ["status"], registry=self._registry)
        self._released = Counter(
            "circadia_wakes_released", "Wakes released because their pulses could not start.", registry=self._registry,
        )  # fmt: skip
        self._routines = Counter(
            "circadia_routines", "Routines that were due, by verdict.", ["verdict"], registry=self._registry
        )
        self._approvals, self._batches = _build_approvals(self._registry), _build_batches(self._registry)
        self._passes = Counter("circadia_passes", "Pass transitions by status.", ["status"], registry=self._registry)
        self._held = Histogram(
            "circadia_hold_seconds", "How long held calls waited.", ["door", "outcome"], registry=self._registry,
            buckets=(0.1, 1, 10, 60, 600, 3600, 21_600, 86_400),
        )  # fmt: skip
        self._first = Histogram(
            "circadia_first_token_seconds", "From admission to the first byte of the answer.", ["upstream"],
            registry=self._registry,
        )  # fmt: skip
        self._answers = Counter(
            "circadia_answers", "Lookups of ready answers by outcome and way.",
            ["outcome", "way"], registry=self._registry,
        )  # fmt: skip
        self._breaks, self._named_events = _build_prefix_breaks(self._registry), _build_named_events(self._registry)
        self._lookups = Histogram(
            "circadia_answer_lookup_seconds", "How long the lookup of a ready answer took.", registry=self._registry,
            buckets=(0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1),
        )  # fmt: skip

    def count_lookup(self, outcome: str, way: str, seconds: float) -> None:
        self._answers.labels(outcome, way).inc()
        self._lookups.observe(seconds)

    def add_counter(self, name: str, description: str, *labels: str) -> Callable[..., None]:
        """Return a function that takes a value for each label, and counts."""
        counter = Counter(name, description, labels, registry=self._registry)
        return lambda *values: counter.labels(*values).inc()

    def count_signal(self, topic: str, data: Mapping[str, object]) -> None:
        """Count a signal: a decision on a wake, a move of a pulse or pass, an event, a routine, or a prefix break."""
        if topic == "wake":
            self._wakes.labels(str(data["source"]), str(data["decision"]), str(data["rule"])).inc()
        elif topic == "pulse":
            self._pulses.labels(str(data["status"])).inc()
            released = data.get("released")
            self._released.inc(released if isinstance(released, int) else 0)
        elif topic == "pass":
            self._passes.labels(str(data["status"])).inc()
        elif topic == "approval":
            self._approvals.labels(str(data["status"]), str(data["rule"])).inc()
        elif topic == "named_event":
            self._named_events.labels(str(data["outcome"])).inc()
        elif topic == "batch":
            self._batches.labels(str(data["outcome"])).inc(float(str(data["count"])))
        elif topic == "prefix_break":
            self._breaks.labels(str(data["reason"])).observe(float(str(data["bytes"])))
        else:
            self._routines.labels(str(data["verdict"])).inc()

    def add_gauge(self, name: str, description: str, value: Callable[[], float]) -> None:
        Gauge(name, description, registry=self._registry).set_function(value)

    def count_line(self, line: object) -> None:
        if isinstance(line, Call):
            self._count_call(line)
        elif isinstance(line, Event):
            self._events.labels(line.type.value).inc()
            waited = line.data.get("waited_seconds")
            if isinstance(waited, float):
                outcome = "admitted" if line.type is EventType.ADMITTED else "dropped"
                self._held.labels(str(line.data.get("door")), outcome).observe(waited)

    def render(self) -> bytes:
        return generate_latest(self._registry)

    def _count_call(self, call: Call) -> None:
        model = self._label_model(call)
        key = (call.upstream, model, call.status.value)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = _CallSeries(
                calls=self._calls.labels(*key),
                input=self._tokens.labels(call.upstream, model, "input"),
                output=self._tokens.labels(call.upstream, model, "output"),
                cached=self._tokens.labels(call.upstream, model, "cached"),
                cost=self._cost.labels(call.upstream, model),
                first=self._first.labels(call.upstream),
            )
        series.count_call(call)

    def _label_model(self, call: Call) -> str:
        """Return the model's name, or `other`: callers choose the names, and made-up ones must displace no other."""
        is_known = call.model in self._known_models()
        named = self._named_models[call.upstream, is_known]
        if call.model in named:
            return call.model
        if len(named) >= _MAX_MODELS or not (is_known or call.status is CallStatus.DONE):
            return _OTHER
        named.add(call.model)
        return call.model


def _build_named_events(registry: CollectorRegistry) -> Counter:
    return Counter(
        "circadia_named_events", "Named events by outcome: delivered, or unheard.", ["outcome"], registry=registry
    )


def _build_approvals(registry: CollectorRegistry) -> Counter:
    return Counter("circadia_approvals", "Approvals by status and rule.", ["status", "rule"], registry=registry)


def _build_batches(registry: CollectorRegistry) -> Counter:
    return Counter(
        "circadia_sleep_batch_questions", "Questions of passes in batches, by outcome.", ["outcome"], registry=registry
    )


def _build_prefix_breaks(registry: CollectorRegistry) -> Histogram:
    return Histogram(
        "circadia_prefix_break_bytes", "Bytes that a provider reads again because memory changed, by reason.",
        ["reason"], registry=registry, buckets=(1_000, 10_000, 100_000, 1_000_000),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class _CallSeries:
    calls: Counter
    input: Counter
    output: Counter
    cached: Counter
    cost: Counter
    first: Histogram

    def count_call(self, call: Call) -> None:
        self.calls.inc()
        for series, count in ((self.input, call.input_tokens), (self.output, call.output_tokens)):
            if count:
                series.inc(count)
        if call.cached_tokens:
            self.cached.inc(call.cached_tokens)
        if call.cost_nanousd:
            self.cost.inc(call.cost_nanousd / 1e9)
        if call.first_token_seconds is not None:
            self.first.observe(call.first_token_seconds)
