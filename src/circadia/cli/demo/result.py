"""What a demo counts and must show: agents' own counts, the server's ledger, and the cost at a model's list price."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any, Final

import typer
from genai_prices import Usage, calc_price

from circadia.errors import InvalidRequest

UNSHOWN: Final = 1
MONTH_HOURS: Final = 720
PROMPT_TOKENS: Final = 20_000
"""Prompt of a coding agent, for a price of a month; those of the demo have some hundred tokens."""
_NOT_COUNTED: Final = frozenset(("doing", "ready", "ended", "sleeping", "held"))
"""Fields of a tally that are its state."""


def missing_points(points: Mapping[str, bool]) -> Sequence[str]:
    return [point for point, is_shown in points.items() if not is_shown]


def conclude(missing: Sequence[str]) -> None:
    """End the demo; print missing points on standard error and exit with status `UNSHOWN`."""
    for point in missing:
        typer.echo(f"Not shown: {point}", err=True)
    if missing:
        raise typer.Exit(UNSHOWN)


@dataclass(frozen=True, kw_only=True)
class ModelListPrice:
    """The list price of one model; `title` is its full name if `known`, otherwise `model`."""

    model: str
    title: str
    known: bool

    def usd(self, input_tokens: int, output_tokens: int) -> Decimal | None:
        if not self.known:
            return None
        return calc_price(Usage(input_tokens=input_tokens, output_tokens=output_tokens), self.model).total_price

    def month_usd(self, calls: int, output_tokens: int) -> Decimal | None:
        """Return the price of a month of such hours, with the prompts of coding agents."""
        usd = self.usd(calls * PROMPT_TOKENS, output_tokens)
        return None if usd is None else usd * MONTH_HOURS


def price_list(model: str, *, required: bool) -> ModelListPrice:
    """Look up a model's price. Raises InvalidRequest if it is unknown and `required` is set."""
    try:
        price = calc_price(Usage(input_tokens=1, output_tokens=1), model)
    except LookupError:
        if required:
            raise InvalidRequest(
                f"genai-prices knows no price for {model!r}; name another model with --price-as."
            ) from None
        return ModelListPrice(model=model, title=model, known=False)
    return ModelListPrice(model=model, title=price.model.name or price.model.id, known=True)


@dataclass(kw_only=True)
class AgentTally:
    """Counts of one agent in one run; `count_line` writes them, except for the state, which the server reports.

    Attributes:
        work_calls: Model calls for work.
        empty_calls: Model calls after an empty wait.
        unknown_calls: Model calls without usage from the provider.
        cached_tokens: Input tokens from the provider's cache.
        waits: Ended waits, with or without a mention.
        empty_waits: Ended waits without a mention.
        tool_calls: Answered MCP calls.
        jobs: Finished incidents.
        ready: Whether its clients are connected.
        ended: Whether its program ended normally.
        naps: Number of times it fell asleep, including the start.
    """

    agent: str
    doing: str = "starts"
    work_calls: int = 0
    empty_calls: int = 0
    unknown_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    waits: int = 0
    empty_waits: int = 0
    tool_calls: int = 0
    jobs: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])
    ready: bool = False
    ended: bool = False
    sleeping: bool = False
    held: int = 0
    asleep_seconds: float = 0.0
    naps: int = 0

    @property
    def model_calls(self) -> int:
        return self.work_calls + self.empty_calls

    def count_line(self, line: Mapping[str, Any]) -> None:
        """Count one line; ignore unknown events."""
        match line.get("event"):
            case "ready":
                self.ready = True
            case "end":
                self.ended, self.doing = True, "ended"
            case "doing":
                self.doing = str(line["what"])
            case "model":
                self._count_model_call(line)
            case "wait":
                self.waits += 1
                self.empty_waits += bool(line["empty"])
            case "tool":
                self.tool_calls += 1
            case "error":
                self.errors.append(str(line["message"]))
            case "done":
                self.jobs.append(str(line["incident"]))
            case "incident" if line["state"] == "closed":
                self.jobs.append(str(line["incident"]))
            case _:
                pass

    def record_state(self, *, sleeping: bool, held: int, seconds: float) -> None:
        """Record the state from the server, `seconds` after the last one."""
        self.asleep_seconds += seconds if sleeping and self.sleeping else 0.0
        self.naps += sleeping and not self.sleeping
        self.sleeping, self.held = sleeping, held

    def _count_model_call(self, line: Mapping[str, Any]) -> None:
        if line["purpose"] == "empty":
            self.empty_calls += 1
        else:
            self.work_calls += 1
        if line["input"] is None or line["output"] is None:
            self.unknown_calls += 1
            return
        self.input_tokens += int(line["input"])
        self.output_tokens += int(line["output"])
        self.cached_tokens += int(line["cached"])


@dataclass(frozen=True, kw_only=True)
class LedgerUsage:
    """One agent's answered calls and their tokens in the server's usage ledger."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """One run.

    Attributes:
        name: `baseline` or `sleeping`; also the session's name.
        wall_seconds: From the time when all agents were connected to the end of the story.
        incidents: Seconds from page to close of each incident; None if it stayed open.
        warnings: Warnings of the server about the session.
    """

    name: str
    wall_seconds: float
    incidents: Mapping[str, float | None]
    agents: Sequence[AgentTally]
    ledger: Mapping[str, LedgerUsage]
    warnings: Sequence[str]

    @property
    def finished(self) -> bool:
        return all(seconds is not None for seconds in self.incidents.values())

    def total(self, name: str) -> int:
        return sum(int(getattr(agent, name)) for agent in self.agents)

    @property
    def client_errors(self) -> int:
        """Number of errors that the agents' clients reported."""
        return sum(len(agent.errors) for agent in self.agents)

    def usd(self, prices: ModelListPrice) -> Decimal | None:
        return prices.usd(self.total("input_tokens"), self.total("output_tokens"))

    def month_usd(self, prices: ModelListPrice) -> Decimal | None:
        return prices.month_usd(self.total("model_calls"), self.total("output_tokens"))

    def differences(self) -> list[str]:
        """Return a line for each difference between the ledger and the agents' own counts."""
        lines: list[str] = []
        for agent in self.agents:
            used = self.ledger.get(agent.agent, LedgerUsage())
            pairs = (
                ("model calls", agent.model_calls, used.calls),
                ("tokens in", agent.input_tokens, used.input_tokens),
                ("tokens out", agent.output_tokens, used.output_tokens),
            )
            lines.extend(
                f"{self.name}, {agent.agent}: {what}: the agent counted {own}, the ledger {theirs}"
                for what, own, theirs in pairs
                if own != theirs
            )
        return lines


@dataclass(frozen=True, kw_only=True)
class DemoSetup:
    """The settings of both runs; `client_wait_seconds` are story seconds, `wait_seconds` the same in real seconds."""

    model: str
    upstream: str
    run_seconds: float
    factor: float
    client_wait_seconds: float
    wait_seconds: float


def as_json(
    setting: DemoSetup, runs: Sequence[RunResult], prices: ModelListPrice, total_seconds: float
) -> dict[str, Any]:
    return {
        "setting": asdict(setting),
        "price": {"model": prices.model, "title": prices.title, "known": prices.known},
        "total_seconds": round(total_seconds, 1),
        "runs": [_run(run, prices) for run in runs],
        "not_shown": missing(*runs),
    }


def missing(awake: RunResult, sleeping: RunResult) -> Sequence[str]:
    tokens = [run.total("input_tokens") + run.total("output_tokens") for run in (awake, sleeping)]
    return missing_points({
        "each incident solved in both runs": awake.finished and sleeping.finished,
        "agents that sleep": sleeping.total("naps") > 0,
        "the same work with fewer tokens": tokens[1] < tokens[0],
    })  # fmt: skip


def _run(run: RunResult, prices: ModelListPrice) -> dict[str, Any]:
    counts = ("model_calls", "work_calls", "empty_calls", "unknown_calls", "input_tokens", "output_tokens")
    usd, month_usd = run.usd(prices), run.month_usd(prices)
    return {
        "name": run.name,
        "finished": run.finished,
        "wall_seconds": round(run.wall_seconds, 1),
        **{name: run.total(name) for name in counts},
        "usd": None if usd is None else float(usd),
        "month_usd": None if month_usd is None else float(month_usd),
        "client_errors": run.client_errors,
        "incidents": {name: None if took is None else round(took, 1) for name, took in run.incidents.items()},
        "ledger_differences": run.differences(),
        "warnings": list(run.warnings),
        "agents": [
            {name: value for name, value in asdict(agent).items() if name not in _NOT_COUNTED}
            | {"asleep_seconds": round(agent.asleep_seconds, 1)}
            for agent in run.agents
        ],
        "ledger": {name: asdict(used) for name, used in run.ledger.items()},
    }
