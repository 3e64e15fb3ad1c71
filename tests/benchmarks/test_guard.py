"""The guard: what is past its bound fails."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import guard

pytestmark = pytest.mark.spec("LARGE-09")
CALL, RELEASE = f"{guard.PLAIN}: times the bare relay", "a release and its call: times a bare relay's call"


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
