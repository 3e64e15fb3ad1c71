"""The guard: what is past its bound fails."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import guard

pytestmark = pytest.mark.spec("LARGE-09")
CALL, RELEASE = f"{guard.PLAIN}: times the bare relay", "a release and its call: times a bare relay's call"


def run_guard(monkeypatch: pytest.MonkeyPatch, figure: guard.Figure) -> tuple[int, str]:
    """Return exit status and output of a run that finds one figure, beside a committed one of 4."""

    async def measure(folder: Path, *, is_postgres: bool, say: Callable[[str], None]) -> Sequence[guard.Figure]:
        return [figure]

    monkeypatch.setattr(guard, "measure", measure)
    monkeypatch.setattr(guard, "load_committed", lambda database: {RELEASE: 4.0})
    result = CliRunner().invoke(guard.app)
    return result.exit_code, result.output


@pytest.mark.parametrize(("found", "code"), [(3.0, 0), (3.1, 1)])
def test_what_is_past_its_bound_fails(found: float, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = guard.BOUNDS[guard.PLAIN][0]
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
