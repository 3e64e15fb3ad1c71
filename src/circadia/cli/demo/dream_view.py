"""The display of `circadia demo dream`: the story, the running pass, answers before and after, the diff."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from circadia.cli.demo.dream_story import StoryLine
from circadia.cli.demo.result import ModelListPrice

_KINDS: Final = {
    "add_note": "notes added", "retire_note": "notes retired", "demote_episode": "turns demoted",
    "write_block": "blocks written", "flag": "contradictions flagged", "refused": "refused", "staged": "waiting",
}  # fmt: skip
_COLOURS: Final = {"published": "green", "refused": "red", "staged": "yellow", "undone": "magenta", "proposed": "cyan"}
MAX_TEXT_CHARACTERS: Final = 70


@dataclass(frozen=True, kw_only=True)
class DemoAnswer:
    question: str
    answer: str
    right: bool
    input_tokens: int
    output_tokens: int
    seconds: float
    ready: str = ""
    """Outcome of the ready-answer lookup: `hit`, `hint`, `miss`; empty without a lookup."""


class DreamDisplay:
    def __init__(self, console: Console, prices: ModelListPrice) -> None:
        self.console = console
        self._prices = prices
        self._shown: Mapping[str, Any] = {}
        self._lines = 0
        self._live = Live(get_renderable=self._render, console=console, refresh_per_second=8, transient=True)

    def say(self, text: str = "") -> None:
        self.console.print(text, highlight=False)

    def show_utterance(self, each: StoryLine, *, first: bool) -> None:
        if first:
            self.say(f"  [bold]{each.at:%A, %d %B}[/bold]")
        self.say(f"    [dim]{each.speaker:>6}[/dim]  {each.text}")

    def begin(self) -> None:
        self._shown, self._lines = {}, 0
        if self.console.is_terminal:
            self._live.start(refresh=True)

    def update(self, shown: Mapping[str, Any]) -> None:
        self._shown = shown
        done: Sequence[Mapping[str, Any]] = shown.get("ledger") or ()
        if not self.console.is_terminal and len(done) > self._lines:
            for line in done[self._lines :]:
                self.say(f"    {line['operation']} asks the model …")
            self._lines = len(done)

    def end(self) -> None:
        self._live.stop()
        self.console.print(self._render())

    def _render(self) -> RenderableType:
        state = self._shown
        table = Table(show_edge=False, pad_edge=False)
        for column in ("step", "model calls", "tokens", "seconds"):
            table.add_column(column, justify="left" if column == "step" else "right", min_width=9)
        for line in state.get("ledger") or ():
            table.add_row(line["operation"], str(line["calls"]), f"{line['tokens']:,}", f"{line['seconds']:.1f}")
        spent = state.get("spent") or {"calls": 0, "tokens": 0, "seconds": 0.0}
        table.add_section()
        table.add_row("in all", str(spent["calls"]), f"{spent['tokens']:,}", f"{spent['seconds']:.1f}")
        usd = self._prices.usd(int(spent["tokens"]), 0)
        cost = "" if usd is None else f"    cost as input tokens of {self._prices.title}: ${usd:.6f}"
        return Group(Text(f"    pass: {state.get('status', 'not started')}", "bold"), table, Text(cost))


def describe_counts(counts: Mapping[str, int]) -> str:
    words = [f"{number} {_KINDS.get(kind, kind)}" for kind, number in counts.items()]
    return ", ".join(words) or "nothing"


def changes_table(changes: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(show_edge=False, pad_edge=False)
    for column in ("by", "change", "what", "state"):
        table.add_column(column, overflow="ellipsis", no_wrap=column != "what")
    for row in changes:
        state = str(row["state"])
        after: Mapping[str, Any] = row["after"] or {}
        what = str(after.get("text") or row["why"])
        short = what if len(what) <= MAX_TEXT_CHARACTERS else f"{what[:MAX_TEXT_CHARACTERS]} …"
        table.add_row(str(row["operation"]), str(row["kind"]), Text(short), Text(state, _COLOURS.get(state, "white")))
    return table


def context_diff(before: Mapping[str, str], after: Mapping[str, str]) -> Text:
    text = Text()
    for label in sorted({*before, *after}):
        text.append(f"    block {label}\n", "bold")
        for line in difflib.ndiff(before.get(label, "").splitlines(), after.get(label, "").splitlines()):
            if line[0] != "?":
                text.append(f"    {line}\n", {"+": "green", "-": "red"}.get(line[0], "dim"))
    return text


def comparison_table(columns: Mapping[str, Sequence[DemoAnswer]]) -> Table:
    table = Table(title="The same questions, before and after the sleep", title_justify="left", show_edge=False)
    for column in ("asked", "answer"):
        table.add_column(column, overflow="fold", min_width=17)
    for column in ("right", "tokens in", "out", "seconds"):
        table.add_column(column, justify="right", no_wrap=True)
    for rows in zip(*columns.values(), strict=True):
        for at, (method, row) in enumerate(zip(columns, rows, strict=True)):
            if not at:
                table.add_row("", Text(row.question, "bold"))
            table.add_row(
                method, Text(row.answer[-MAX_TEXT_CHARACTERS:]), "yes" if row.right else "no",
                f"{row.input_tokens:,}", f"{row.output_tokens:,}", f"{row.seconds:.2f}",
                end_section=at == len(columns) - 1,
            )  # fmt: skip
    for method, rows in columns.items():
        table.add_row(
            method, "[dim]mean[/dim]", f"{sum(row.right for row in rows)} of {len(rows)}",
            f"{sum(row.input_tokens for row in rows) / len(rows):,.0f}",
            f"{sum(row.output_tokens for row in rows) / len(rows):,.0f}",
            f"{sum(row.seconds for row in rows) / len(rows):.2f}",
        )  # fmt: skip
    return table


def ready_answers_table(rows: Sequence[DemoAnswer]) -> RenderableType:
    table = Table(show_edge=False, pad_edge=False)
    for column in ("question", "ready answer", "answer", "tokens", "ms"):
        table.add_column(column, justify="right" if column in ("tokens", "ms") else "left")
    for row in rows:
        colour = {"hit": "green", "hint": "yellow"}.get(row.ready, "dim")
        table.add_row(
            row.question, Text(row.ready or "no lookup", colour), row.answer[:MAX_TEXT_CHARACTERS],
            str(row.input_tokens + row.output_tokens), f"{row.seconds * 1000:.0f}",
        )  # fmt: skip
    return Padding(table, (0, 0, 0, 2))
