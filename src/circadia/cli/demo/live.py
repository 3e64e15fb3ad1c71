"""The display while the demo runs, and the tables at the end."""

from collections.abc import Iterable, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from circadia.cli.demo.result import MONTH_HOURS, PROMPT_TOKENS, AgentTally, DemoSetup, ModelListPrice, RunResult

PATIENCE = (
    "A silent server times out in the Python MCP client after 300 s by default, and in a TypeScript client after 60 s "
    "(--wait-seconds 60), which then loops more often. A client without a timeout has no empty waits."
)
TITLES = {"baseline": "never asleep", "sleeping": "with sleep"}


class LiveDisplay:
    """The display of one run: a live table on a terminal, otherwise a line per event."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._console = console
        self._quiet = quiet
        self._tallies: Sequence[AgentTally] = ()
        self._title = ""
        self._clock = ""
        self._live = Live(get_renderable=self._render, console=console, refresh_per_second=4, transient=True)

    def say(self, text: str) -> None:
        if not self._quiet:
            self._console.print(text, highlight=False, soft_wrap=True)

    def begin(self, title: str, tallies: Iterable[AgentTally]) -> None:
        self._title, self._tallies, self._clock = title, tuple(tallies), ""
        if not self._quiet and self._console.is_terminal:
            self._live.start(refresh=True)

    def tick(self, clock: str) -> None:
        self._clock = clock

    def end(self) -> None:
        self._live.stop()

    def _render(self) -> RenderableType:
        table = Table(show_edge=False, pad_edge=False, expand=False)
        for column, side in (("agent", "left"), ("state", "left"), ("held", "right"), ("activity", "left")):
            table.add_column(column, justify="right" if side == "right" else "left", min_width=6)
        for column in ("model calls", "idle", "tokens in", "out"):
            table.add_column(column, justify="right")
        for tally in self._tallies:
            state = Text("asleep", "blue") if tally.sleeping else Text("awake", "green")
            does = tally.doing
            if tally.sleeping:
                does = "its call is held" if tally.held else "its wait is paused"
            counts = (tally.model_calls, tally.empty_calls, tally.input_tokens, tally.output_tokens)
            table.add_row(tally.agent, state, str(tally.held), f"{does:<38.38}", *(str(count) for count in counts))
        return Group(Text(f"\n{self._title}  ·  {self._clock}", "bold"), table)


def report(console: Console, setting: DemoSetup, runs: Sequence[RunResult], prices: ModelListPrice) -> None:
    console.print()
    console.print(_comparison(runs, prices))
    console.print()
    console.print(_agents(runs))
    console.print()
    for line in notes(setting, runs, prices):
        console.print(line, highlight=False, style="dim")


def _comparison(runs: Sequence[RunResult], prices: ModelListPrice) -> Table:
    table = Table(title="The same hour on call, twice", title_justify="left")
    table.add_column("")
    for run in runs:
        table.add_column(TITLES[run.name], justify="right")
    table.add_column("change", justify="right")
    counts = {
        "model calls": "model_calls",
        "  for work": "work_calls",
        "  after an empty wait": "empty_calls",
        "tokens in": "input_tokens",
        "tokens out": "output_tokens",
    }
    for title, name in counts.items():
        values = [run.total(name) for run in runs]
        table.add_row(title, *(f"{value:,}" for value in values), _change(values))
    usd = [run.usd(prices) for run in runs]
    table.add_row(
        f"price as {prices.title}",
        *("unknown" if cost is None else f"${cost:.5f}" for cost in usd),
        _change([float(cost) for cost in usd if cost is not None]),
    )
    months = [run.month_usd(prices) for run in runs]
    table.add_row(
        f"a month of it, {PROMPT_TOKENS:,} tokens a prompt",
        *("unknown" if cost is None else f"${cost:,.0f}" for cost in months),
        _change([float(cost) for cost in months if cost is not None]),
    )
    table.add_row("wall time", *(f"{run.wall_seconds:.1f} s" for run in runs), "")
    for incident in runs[0].incidents:
        table.add_row(f"{incident} solved in", *(_duration_cell(run, incident) for run in runs), "")
    table.add_row("client errors", *(str(run.client_errors) for run in runs), "")
    table.add_row("ledger = agents' own counts", *("no" if run.differences() else "yes" for run in runs), "")
    return table


def _change(values: Sequence[float]) -> str:
    return f"{values[-1] / values[0] - 1:+.0%}" if len(values) > 1 and values[0] else ""


def _agents(runs: Sequence[RunResult]) -> Table:
    table = Table(title="What each agent did", title_justify="left")
    for column in ("agent", "run"):
        table.add_column(column)
    for column in ("work calls", "idle calls", "tokens", "empty waits", "asleep"):
        table.add_column(column, justify="right")
    table.add_column("solved")
    for rows in zip(*(run.agents for run in runs), strict=True):
        for run, agent in zip(runs, rows, strict=True):
            first = run is runs[0]
            table.add_row(agent.agent if first else "", TITLES[run.name], *_cells(agent, run), end_section=not first)
    return table


def _cells(agent: AgentTally, run: RunResult) -> tuple[str, ...]:
    share = min(1.0, agent.asleep_seconds / run.wall_seconds) if run.wall_seconds else 0.0
    return (
        str(agent.work_calls),
        str(agent.empty_calls),
        f"{agent.input_tokens + agent.output_tokens:,}",
        str(agent.empty_waits),
        f"{share:.0%}",
        ", ".join(agent.jobs) or "–",
    )


def notes(setting: DemoSetup, runs: Sequence[RunResult], prices: ModelListPrice) -> list[str]:
    """Return notes that explain the tables, and the differences, errors and open incidents."""
    lines = [
        f"Model: {setting.model} at {setting.upstream}. The agents' steps are scripted; each call is real.",
        f"Time scale 1:{setting.factor:g}: wait timeout {setting.client_wait_seconds:g} s "
        f"→ {setting.wait_seconds:.3g} s; model calls are not scaled.",
        PATIENCE,
    ]
    if prices.known:
        lines.append(f"Price: list price of {prices.title} (genai-prices), without a discount for cached input.")
        lines.append(f"A month: {MONTH_HOURS} such hours, with prompts as long as those of coding agents.")
    else:
        lines.append(f"Price: unknown for {prices.model!r}; choose a model with --price-as.")
    lines += [f"Differs: {line}" for run in runs for line in run.differences()]
    lines += [
        f"Client error: {agent.agent}: {text}" for run in runs for agent in run.agents for text in agent.errors[:3]
    ]
    lines += [
        f"Left open: {name} ({TITLES[run.name]})"
        for run in runs
        for name, took in run.incidents.items()
        if took is None
    ]
    return lines


def _duration_cell(run: RunResult, incident: str) -> str:
    took = run.incidents[incident]
    return "not solved" if took is None else f"{took:.1f} s"
