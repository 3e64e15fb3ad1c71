"""The README's table of what Circadia takes beside others, made of the tables of the benchmarks' page."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from benchmarks import doc, guard

README: Final = Path(__file__).parent.parent / "README.md"
Cell = tuple[Sequence[str], str]
"""Patterns of a row's first cells, and a column."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One figure of a benchmark, of Circadia and of others in the same run."""

    what: str
    """What is compared."""
    benchmark: str
    """Whose table has it."""
    unit: str
    """Behind each number."""
    ours: Cell
    """Where Circadia's stands."""
    others: Sequence[tuple[str, Cell]]
    """Where others' stand, by their names."""
    times: bool = True
    """Whether theirs is told as a multiple of ours, too."""


CPU, _MS, _PROMPT = "CPU ms a request", "p50 ms", "prompt tokens a turn"

FIGURES: Final = (
    Figure(
        what="a proxied call of 2 KB, 32 connections: processor time", benchmark="proxy", unit=" ms",
        ours=(("plain, 32", "Circadia"), CPU),
        others=[(name, (("plain, 32", f"{name}*"), CPU)) for name in ("LiteLLM", "Portkey")],
    ),
    Figure(
        what="the same, streamed", benchmark="proxy", unit=" ms", ours=(("SSE, 32", "Circadia"), CPU),
        others=[("LiteLLM", (("SSE, 32", "LiteLLM*"), CPU))],
    ),
    Figure(
        what="to remember a turn, beside a model that takes 300 ms", benchmark="remember_peers", unit=" ms",
        ours=(("Circadia*",), _MS), others=[(name, ((f"{name}*",), _MS)) for name in ("mem0", "LangMem")],
    ),
    Figure(
        what="prompt tokens a turn to make memories of talk", benchmark="dream_cost", unit="",
        ours=(("Circadia*: the first 100 turns",), _PROMPT),
        others=[(name, ((f"{name}*",), _PROMPT)) for name in ("mem0", "LangMem")],
    ),
    Figure(
        what="a search among 10,000 episodes, embedding aside", benchmark="search_peers", unit=" ms",
        ours=(("10,000, Circadia",), _MS),
        others=[("mem0", (("10,000, mem0*",), _MS)), ("Chroma", (("10,000, Chroma*",), _MS))],
    ),
    Figure(
        what="evidence found within 10 hits, LoCoMo", benchmark="recall", unit=" %", times=False,
        ours=(("Circadia",), "R@10"),
        others=[("stemmed BM25", (("*BM25 (SQLite*",), "R@10")), ("vectors alone", (("vectors alone",), "R@10"))],
    ),
    Figure(
        what="candidates for a judge among 10,000 ready answers", benchmark="answers_lookup", unit=" ms",
        ours=(("10,000, Circadia, candidates for a judge",), _MS),
        others=[("GPTCache", (("10,000, GPTCache*candidates for a judge",), _MS))],
    ),
)  # fmt: skip


def write(page: Path = doc.DOC, readme: Path = README) -> Path:
    """Replace the README's table by that of the page; return its path. Raises ValueError: the page lacks a figure."""
    text = doc.replaced(readme.read_text("utf-8"), "beside", table(page.read_text("utf-8")))
    readme.write_text(text, "utf-8")
    return readme


def table(page: str) -> str:
    """Return the README's table. Raises ValueError: the page lacks a figure."""
    lines = ["| what | Circadia | others, in the same run |", "| --- | ---: | --- |", _guarded()]
    for figure in FIGURES:
        _, ours = find_cell(page, figure.benchmark, figure.ours)
        told: list[str] = []
        for name, place in figure.others:
            row, theirs = find_cell(page, figure.benchmark, place)
            times = f" ({float(f'{_value(theirs) / _value(ours):.2g}'):g} times)" if figure.times else ""
            told.append(f"{_versioned(name, row)}: {theirs}{figure.unit}{times}")
        lines.append(f"| {figure.what} | {ours}{figure.unit} | {'; '.join(told)} |")
    return "\n".join(lines)


def _guarded() -> str:
    """Return the row of what `make guard` found at its last commit."""
    found = guard.load_committed("sqlite")
    plain, streamed = (found[f"{kind}: times the bare relay"] for kind in guard.OF_RELAY)
    bounds = "; ".join(f"{bound:g}" for bound in guard.OF_RELAY.values())
    told = f"`make guard` allows {bounds}"
    return f"| a proxied call, times a bare relay's | {plain:.1f}; streamed {streamed:.1f} | {told} |"


def find_cell(page: str, benchmark: str, place: Cell) -> tuple[Sequence[str], str]:
    """Return a row of the benchmark's first table and what stands in its column. Raises ValueError: there is none."""
    return _found(_rows(page, benchmark), place)


def _rows(page: str, benchmark: str) -> Sequence[Sequence[str]]:
    """Return the cells of the benchmark's first table, its head first."""
    _, _, rest = page.partition(f"<!-- {benchmark}: begin -->")
    parts = rest.partition(f"<!-- {benchmark}: end -->")[0].split("\n\n")
    found = next((part for part in parts if part.startswith("| ")), "")
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found.splitlines()]


def _found(rows: Sequence[Sequence[str]], place: Cell) -> tuple[Sequence[str], str]:
    """Return a row, and what stands in its column."""
    patterns, column = place
    for row in rows:
        if all(map(fnmatchcase, row, patterns)):
            return row, row[rows[0].index(column)]
    raise ValueError(f"the page has no row {', '.join(patterns)!r}")


def _versioned(name: str, row: Sequence[str]) -> str:
    version = re.search(rf"{re.escape(name)} \d+\.\d+\.\d+", " ".join(row))
    return version[0] if version else name


def _value(cell: str) -> float:
    return float(cell.replace(",", ""))
