"""Results of the two runs, and the comparison of the ledger with the agents' own counts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from circadia.cli.demo.points import missing_points
from circadia.cli.demo.price import ModelListPrice
from circadia.cli.demo.tally import AgentTally


@dataclass(frozen=True, kw_only=True)
class LedgerUsage:
    """One agent's answered calls and their tokens in the server's usage ledger."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class AgentResult:
    """One agent in one run; the counts are its own, except for sleep, which the server reports. See `AgentTally`."""

    agent: str
    work_calls: int
    empty_calls: int
    unknown_calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    waits: int
    empty_waits: int
    tool_calls: int
    jobs: tuple[str, ...]
    errors: tuple[str, ...]
    asleep_seconds: float
    naps: int

    @property
    def model_calls(self) -> int:
        return self.work_calls + self.empty_calls

    @staticmethod
    def from_tally(tally: AgentTally) -> "AgentResult":
        values: dict[str, Any] = {name: getattr(tally, name) for name in AgentResult.__dataclass_fields__}
        values.update(jobs=tuple(tally.jobs), errors=tuple(tally.errors))
        return AgentResult(**values)


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
    agents: Sequence[AgentResult]
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
    usd = run.usd(prices)
    return {
        "name": run.name,
        "finished": run.finished,
        "wall_seconds": round(run.wall_seconds, 1),
        **{name: run.total(name) for name in counts},
        "usd": None if usd is None else float(usd),
        "client_errors": run.client_errors,
        "incidents": {name: None if took is None else round(took, 1) for name, took in run.incidents.items()},
        "ledger_differences": run.differences(),
        "warnings": list(run.warnings),
        "agents": [{**asdict(agent), "asleep_seconds": round(agent.asleep_seconds, 1)} for agent in run.agents],
        "ledger": {name: asdict(used) for name, used in run.ledger.items()},
    }
