"""What every test may count on; fixtures live beside the tests that use them."""

import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from circadia.cli.terminal.lazy_imports import quick_imports

pytest_plugins = [
    "tests.fixtures.ahead", "tests.fixtures.heap", "tests.fixtures.leap", "tests.fixtures.postgres",
    "tests.fixtures.redis", "tests.fixtures.stores",
]  # fmt: skip

TESTS = Path(__file__).parent
SLOW_TIMEOUT_SECONDS = 30 * 60

FIRST = ("cli/test_demo_team.py", "benchmarks", "durability", "distribution", "dashboard", "cli", "clients")
"""What starts programs and takes longest, the longest single test first: at the end of a run it would keep one worker
busy while the others have nothing to do."""
IN_BROWSER = "tests/dashboard/"
MIDDLE = IN_BROWSER + "test_q"
"""Two workers run the tests in a browser, one those before and one those behind the middle of the alphabet: a browser
with its server keeps one core busy, and with more of them at once pages would miss the times that they have."""

# The tests run on all cores at once, beside servers that they start: an example may take as long as a test, and making
# examples may be slow. Each run has the same ones: a change fails for what it does. `make test-slow` looks for others.
settings.register_profile("circadia", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", settings.get_profile("circadia"), derandomize=False, max_examples=1000)
settings.load_profile("circadia")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--spec", metavar="ID", help="run only the tests that show this promise, such as GATE-42")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import the tests, and all that they import."""
    with quick_imports():
        return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted: str | None = config.getoption("--spec")
    if wanted is not None:
        chosen = [item for item in items if any(wanted in mark.args for mark in item.iter_markers("spec"))]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen
    items.sort(key=_place)
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_SECONDS))


class TwoBrowsersScheduling(LoadFileScheduling):
    """Gives each worker whole files, and the tests in a browser to two."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(IN_BROWSER):
            return IN_BROWSER if nodeid < MIDDLE else MIDDLE
        return super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> TwoBrowsersScheduling:
    return TwoBrowsersScheduling(config, log)


def _place(item: pytest.Item) -> int:
    """Return which of `FIRST` the test belongs to; all others come after them."""
    path = item.path.relative_to(TESTS)
    return next((place for place, first in enumerate(FIRST) if path.is_relative_to(first)), len(FIRST))


def pytest_sessionstart() -> None:
    """Let the programs that tests start hear Ctrl-C, also where this run was started in the background.

    A shell has background jobs ignore SIGINT, which their children inherit; a handler is not inherited.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def signal_handlers() -> Generator[None]:
    """Fail the test that leaves another handler of SIGTERM behind, not a later one."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    assert signal.getsignal(signal.SIGTERM) == before
