"""The guard: what is past its bound fails, and the README tells what it has found."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from benchmarks import beside, doc, guard

pytestmark = pytest.mark.spec("LARGE-09")

DRIFT: Final = 1.5
"""How far the page's ratio, of another run, may be from the committed one."""
HELD: Final = {
    "a call, plain: times the bare relay": 3.0,
    "a call, SSE: times the bare relay": 2.8,
    "a call, plain: in the world, times a new database": 1.15,
    "a call, SSE: in the world, times a new database": 1.15,
    "a call with an unknown history: in the world, times a new database": 1.15,
    "a call with a bank: in the world, times a new database": 1.3,
    "idle in the world: share of a core": 1.0,
}


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_the_committed_figures_keep_the_stated_bounds(database: str) -> None:
    committed = guard.load_committed(database)
    assert {what: committed[what] for what, bound in HELD.items() if committed[what] > bound} == {}


@pytest.mark.parametrize(("kind", "row"), [(guard.PLAIN, "plain, 32"), (guard.STREAMED, "SSE, 32")])
def test_the_page_is_within_one_and_a_half_times_of_the_committed_ratio(kind: str, row: str) -> None:
    page = doc.DOC.read_text("utf-8")
    _, ours = beside.find_cell(page, "proxy", ((row, "Circadia"), beside.CPU))
    _, relay = beside.find_cell(page, "proxy", ((row, "*bare relay*"), beside.CPU))
    ratio = float(ours) / float(relay)
    committed = guard.load_committed("sqlite")[f"{kind}: times the bare relay"]
    assert committed / DRIFT <= ratio <= committed * DRIFT


def test_the_readme_tells_the_committed_ratios() -> None:
    told = re.search(r"times a bare relay's \| ([\d.]+); streamed ([\d.]+) \|", beside.README.read_text("utf-8"))
    assert told, "the README has a line on the guard"
    committed = guard.load_committed("sqlite")
    for kind, ratio in zip((guard.PLAIN, guard.STREAMED), map(float, told.groups()), strict=True):
        assert ratio == pytest.approx(committed[f"{kind}: times the bare relay"], abs=0.05)


def _measuring(figures: Sequence[guard.Figure]) -> Callable[..., object]:
    async def measure(folder: Path, *, is_postgres: bool, say: Callable[[str], None]) -> Sequence[guard.Figure]:
        return figures

    return measure


@pytest.mark.parametrize(("found", "code"), [(3.0, 0), (3.1, 1)])
def test_what_is_past_its_bound_fails(found: float, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = guard.Figure(what="a call, plain: times the bare relay", found=found, unit="×", bound=3.0)
    monkeypatch.setattr(guard, "measure", _measuring([figure]))
    result = CliRunner().invoke(guard.app)
    assert result.exit_code == code
    assert ("worse than allowed" in result.output) == bool(code)


@pytest.mark.parametrize(("times", "code"), [(1.4, 0), (1.6, 1)])
def test_a_ratio_without_a_bound_fails_at_one_and_a_half_times_its_committed_value(
    times: float, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    what = "a release and its call: times a bare relay's call"
    found = times * guard.load_committed("sqlite")[what]
    monkeypatch.setattr(guard, "measure", _measuring([guard.Figure(what=what, found=found, unit="×", bound=0.0)]))
    assert CliRunner().invoke(guard.app).exit_code == code
