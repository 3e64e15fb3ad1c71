"""The guard: what is past its bound fails, and the README tells what it has found."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from benchmarks import beside, doc, guard

pytestmark = pytest.mark.spec("LARGE-09")
CALL, RELEASE = f"{guard.PLAIN}: times the bare relay", "a release and its call: times a bare relay's call"


DRIFT: Final = 1.5
"""How far the page's ratio, of another run, may be from the committed one."""
HELD: Final = {
    "a call, plain: times the bare relay": 3.0,
    "a call, SSE: times the bare relay": 2.8,
    "a call, plain: in the world, times a new database": 1.15,
    "a call, SSE: in the world, times a new database": 1.15,
    "a call with an unknown history: in the world, times a new database": 1.15,
    "a call with a bank: in the world, times a new database": 1.3,
    "idle in the world: times a new database": 2.0,
}


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_the_committed_figures_keep_the_stated_bounds(database: str) -> None:
    committed = guard.load_committed(database)
    assert {what: committed[what] for what, bound in HELD.items() if committed[what] > bound} == {}


@pytest.mark.parametrize(("kind", "row"), [(guard.PLAIN, "plain, 32"), (guard.STREAMED, "SSE, 32")])
def test_the_page_is_within_one_and_a_half_times_of_the_committed_ratio(kind: str, row: str) -> None:
    page = doc.DOC.read_text("utf-8")
    _, ours = beside.find_cell(page, "proxy", ((row, "Circadia"), beside.CPU))
    _, relay = beside.find_cell(page, "proxy", ((row, "bare relay*"), beside.CPU))
    ratio = float(ours) / float(relay)
    committed = guard.load_committed("sqlite")[f"{kind}: times the bare relay"]
    assert committed / DRIFT <= ratio <= committed * DRIFT


def test_the_readme_tells_the_committed_ratios() -> None:
    told = re.search(r"times a bare relay's \| ([\d.]+); streamed ([\d.]+) \|", beside.README.read_text("utf-8"))
    assert told, "the README has a line on the guard"
    committed = guard.load_committed("sqlite")
    for kind, ratio in zip((guard.PLAIN, guard.STREAMED), map(float, told.groups()), strict=True):
        assert ratio == pytest.approx(committed[f"{kind}: times the bare relay"], abs=0.051)


def run_guard(monkeypatch: pytest.MonkeyPatch, *figures: guard.Figure) -> tuple[int, str]:
    """Return exit status and output of a run that finds these figures."""

    async def measure(folder: Path, *, is_postgres: bool, say: Callable[[str], None]) -> Sequence[guard.Figure]:
        return figures

    def load_committed(database: str) -> dict[str, float]:
        return {RELEASE: 4.0, guard.RELAY: 0.1}

    monkeypatch.setattr(guard, "measure", measure)
    monkeypatch.setattr(guard, "load_committed", load_committed)
    result = CliRunner().invoke(guard.app)
    return result.exit_code, result.output


@pytest.mark.parametrize(("found", "code"), [(3.0, 0), (3.1, 1)])
def test_what_is_past_its_bound_fails(found: float, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = guard.OF_RELAY[guard.PLAIN]
    status, output = run_guard(monkeypatch, guard.Figure(what=CALL, found=found, unit="×", bound=bound))
    assert status == code
    assert ("worse than allowed" in output) == bool(code)


@pytest.mark.parametrize(("found", "code"), [(6.0, 0), (6.1, 1)])
def test_a_ratio_without_a_bound_fails_at_one_and_a_half_times_its_committed_value(
    found: float, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_guard(monkeypatch, guard.Figure(what=RELEASE, found=found, unit="×", bound=0.0))[0] == code


def test_milliseconds_are_told_and_fail_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_guard(monkeypatch, guard.Figure(what="from the wake to the first call", found=9e9, unit="ms"))[0] == 0


@pytest.mark.parametrize(("found", "code"), [(12.0, 0), (12.1, 1)])
def test_where_the_relay_takes_twice_as_long_ratios_have_four_times_the_room(
    found: float, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay = guard.Figure(what=guard.RELAY, found=0.2, unit="ms")
    call = guard.Figure(what=CALL, found=found, unit="×", bound=guard.OF_RELAY[guard.PLAIN])
    assert run_guard(monkeypatch, relay, call)[0] == code
