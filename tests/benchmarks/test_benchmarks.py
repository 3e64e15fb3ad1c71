"""Each benchmark runs at tiny sizes, tells its goals, and its table lands in the docs."""

import io
import shutil
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import (
    admission,
    answers_lookup,
    answers_pairs,
    answers_stale,
    beside,
    cluster,
    cluster_wakes,
    context,
    dashboard,
    doc,
    dream_cost,
    dream_losses,
    fleet_day,
    grounding,
    holds,
    hooks,
    hot_path,
    idle_fleet,
    inbox,
    pass_overhead,
    passages,
    proxy,
    pulses,
    recall,
    remember,
    remember_peers,
    resume,
    room,
    schedules,
    score,
    search,
    search_peers,
    startup,
    state,
)
from benchmarks.callers import call, good
from benchmarks.report import Goal, Report, load, number, save, show
from benchmarks.requests import body, wire
from benchmarks.tools import fast_upstream, find_compiler
from benchmarks.tools import load as put_load

LIMIT_SECONDS = 300
"""Each starts real servers, and the machine may be busy."""

RUNS: dict[str, Callable[[Path], Awaitable[Report]]] = {
    "proxy": lambda folder: proxy.run(folder, proxy.QUICK),
    "holds": lambda folder: holds.run(folder, holds.QUICK),
    "state": lambda folder: state.run(folder, state.QUICK),
    "admission": lambda folder: admission.run(folder, admission.QUICK),
    "cluster": lambda folder: cluster.run(folder, cluster.QUICK),
    "cluster_wakes": lambda folder: cluster_wakes.run(folder, cluster_wakes.QUICK),
    "fleet_day": lambda folder: fleet_day.run(folder, fleet_day.QUICK),
    "pulses": lambda folder: pulses.run(folder, pulses.QUICK),
    "schedules": lambda folder: schedules.run(folder, schedules.QUICK),
    "hooks": lambda folder: hooks.run(folder, hooks.QUICK),
    "inbox": lambda folder: inbox.run(folder, inbox.QUICK),
    "dashboard": lambda folder: dashboard.run(folder, dashboard.QUICK),
    "idle_fleet": lambda folder: idle_fleet.run(folder, idle_fleet.QUICK),
    "resume": lambda folder: resume.run(folder, resume.QUICK),
    "remember": lambda folder: remember.run(folder, remember.QUICK),
    "remember_peers": lambda folder: remember_peers.run(folder, remember_peers.QUICK),
    "search": lambda folder: search.run(folder, search.QUICK),
    "search_peers": lambda folder: search_peers.run(folder, search_peers.QUICK),
    "passages": lambda folder: passages.run(folder, passages.QUICK),
    "context": lambda folder: context.run(folder, context.QUICK),
    "recall": lambda folder: recall.run(folder, recall.QUICK),
    "room": lambda folder: room.run(folder, room.QUICK),
    "score": lambda folder: score.run(folder, score.QUICK),
    "pass_overhead": lambda folder: pass_overhead.run(folder, pass_overhead.QUICK),
    "dream_cost": lambda folder: dream_cost.run(folder, dream_cost.QUICK),
    "dream_losses": lambda folder: dream_losses.run(folder, dream_losses.QUICK),
    "grounding": grounding.run,
    "startup": lambda folder: startup.run(folder, startup.QUICK),
    "hot_path": lambda folder: hot_path.run(folder, hot_path.QUICK),
    "answers_lookup": lambda folder: answers_lookup.run(folder, answers_lookup.QUICK),
    "answers_pairs": lambda folder: answers_pairs.run(folder, answers_pairs.QUICK),
    "answers_stale": lambda folder: answers_stale.run(folder, answers_stale.QUICK),
}


# Those that take more than some seconds even at their smallest are slow. The guard, which `make test` runs, measures a
# call, a hold, a write, a search and a start.
MARKS = {
    "schedules": pytest.mark.slow,
    "admission": pytest.mark.slow,
    "cluster": pytest.mark.slow,
    "cluster_wakes": (pytest.mark.slow, pytest.mark.spec("CLU-12")),
    "inbox": pytest.mark.slow,
    "state": pytest.mark.slow,
    "fleet_day": (pytest.mark.slow, pytest.mark.spec("CLU-34")),
    "pulses": pytest.mark.slow,
    "proxy": pytest.mark.slow,
    "resume": (pytest.mark.slow, pytest.mark.spec("WAKE-85")),
    "remember_peers": pytest.mark.slow,
    "room": pytest.mark.slow,
    "score": pytest.mark.slow,
    "startup": pytest.mark.slow,
    "remember": (pytest.mark.slow, pytest.mark.spec("MEM-01")),
    "holds": pytest.mark.slow,
    "hooks": (pytest.mark.slow, pytest.mark.spec("WAKE-82")),
    "idle_fleet": pytest.mark.slow,
    "dashboard": (pytest.mark.slow, pytest.mark.spec("UI-13")),
    "search": (pytest.mark.slow, pytest.mark.spec("MEM-07")),
    "passages": pytest.mark.spec("MEM-30"),
    "context": (pytest.mark.slow, pytest.mark.spec("MEM-13", "MEM-15", "MEM-37")),
    "dream_losses": (pytest.mark.slow, pytest.mark.spec("SLEEP-71")),
    "grounding": pytest.mark.spec("SLEEP-33"),
    "answers_lookup": pytest.mark.spec("ANS-09"),
    "answers_pairs": pytest.mark.spec("ANS-09"),
    "answers_stale": pytest.mark.spec("ANS-04"),
    "hot_path": pytest.mark.slow,
    "pass_overhead": pytest.mark.slow,
}


@pytest.mark.timeout(LIMIT_SECONDS)
@pytest.mark.parametrize("name", [pytest.param(each, marks=MARKS.get(each, ())) for each in RUNS])
async def test_a_benchmark_runs_and_its_result_lands_in_the_docs(name: str, tmp_path: Path) -> None:
    report = await RUNS[name](tmp_path)
    show(report, Console(file=io.StringIO(), width=200))
    assert report.name == name
    assert all(len(row) == len(report.columns) for row in report.rows)
    assert all(goal.met for goal in report.goals if goal.limit == 0), "no call is lost and no caller is left"
    assert all(goal.found is not None for goal in report.goals if "LiteLLM" not in goal.what)
    save(report, tmp_path)
    page = Path(shutil.copy(doc.DOC, tmp_path / "page.md"))
    assert doc.write(page, tmp_path) == page
    text = page.read_text("utf-8")
    assert report.title in text
    assert load(name, tmp_path)[0].rows == [list(row) for row in report.rows]
    doc.write(page, tmp_path)
    assert page.read_text("utf-8") == text, "a second time changes nothing"


@pytest.mark.timeout(LIMIT_SECONDS)
@pytest.mark.spec("SLEEP-72")
async def test_who_calls_waits_for_maintenance_inline_and_not_for_passes_in_the_background(tmp_path: Path) -> None:
    report = await hot_path.run(tmp_path, hot_path.QUICK)
    assert {"p50 ms", "p95 ms", "p99 ms"} <= set(report.columns)
    none, background, inline = (figures["ms"] for figures in report.figures.values())
    assert statistics.median(background) < statistics.median(inline)
    assert statistics.median(inline) > statistics.median(none) + 50, "the model of a pass takes 50 ms"
    assert [figures["passes"] > 0 for figures in report.figures.values()] == [False, True, True]


def test_the_readme_tells_what_the_page_has(tmp_path: Path) -> None:
    readme = Path(shutil.copy(beside.README, tmp_path / "README.md"))
    beside.write(doc.DOC, readme)
    assert readme.read_text("utf-8") == beside.README.read_text("utf-8"), "run `python -m benchmarks --doc`"
    with pytest.raises(ValueError, match="no row"):
        beside.table(doc.DOC.read_text("utf-8").replace("| plain, 32 | LiteLLM", "| plain, 32 | another"))


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_SECONDS)
async def test_a_storm_of_four_processes_gets_what_its_budgets_allow_and_slow_disks_are_measured(
    tmp_path: Path,
) -> None:
    size = replace(admission.QUICK, storm=2_000, processes=4, daily=25, slow_ms=(3,))
    report = await admission.run(tmp_path, size)
    storms = [goal for goal in report.goals if goal.limit == 0]
    assert storms
    assert all(goal.met for goal in storms)
    assert all(goal.found is not None for goal in report.goals)
    slowed = [row for row in report.rows if row[0].endswith(admission.SLOWER.format(3))]
    assert len(slowed) == (len(report.rows) // 2 if find_compiler() else 0), "each database is timed on both disks"


@pytest.fixture(params=["python", *(["compiled"] if find_compiler() else [])])
def kind_of_tool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setenv("PATH", "/nowhere")
    return request.param


@pytest.fixture
async def upstream_port(kind_of_tool: str) -> AsyncIterator[int]:
    async with fast_upstream(chunks=7) as port:
        yield port


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_fast_upstream_answers_as_asked(upstream_port: int, streamed: bool) -> None:
    caller = await call(upstream_port, wire(upstream_port, "/v1/chat/completions", body(streamed=streamed), {}))
    answer = await caller.done
    assert good(answer)
    assert answer.count(b"data: {") == (7 if streamed else 0)


@pytest.mark.parametrize("streamed", [False, True])
async def test_load_counts_good_answers_and_bad_ones(upstream_port: int, streamed: bool, tmp_path: Path) -> None:
    request = tmp_path / "request"
    request.write_bytes(wire(upstream_port, "/v1/chat/completions", body(streamed=streamed), {}))
    found = await put_load(upstream_port, 4, 0.1, request, "[DONE]" if streamed else '"usage"')
    assert found.requests >= 4
    assert found.errors == 0
    assert 0 < found.p50 <= found.p90 <= found.p99


async def test_load_that_is_paced_sends_no_sooner_than_it_may(upstream_port: int, tmp_path: Path) -> None:
    request = tmp_path / "request"
    request.write_bytes(wire(upstream_port, "/v1/chat/completions", body(streamed=False), {}))
    found = await put_load(upstream_port, 3, 0.2, request, '"usage"', every_seconds=0.05)
    assert 3 <= found.requests <= 3 * 4
    assert found.errors == 0


def test_a_request_has_the_size_that_was_asked_for() -> None:
    assert {len(body(streamed=streamed, size=size)) for streamed in (False, True) for size in (2048,)} == {2048}


@pytest.mark.parametrize(
    ("bound", "found", "verdict"),
    [
        ("at most", 1.0, "met"),
        ("at most", 1.1, "MISSED"),
        ("at least", 1.0, "met"),
        ("at least", 0.9, "MISSED"),
        ("at most", None, "not measured"),
    ],
)
def test_a_missed_goal_says_so(bound: str, found: float | None, verdict: str) -> None:
    goal = Goal(what="it", limit=1.0, unit="s", found=found, bound="at most" if bound == "at most" else "at least")
    assert goal.verdict == verdict


def test_numbers_are_told_without_false_precision() -> None:
    assert [number(value) for value in (12345.6, 45.67, 1.234)] == ["12,346", "45.7", "1.23"]


def test_a_page_without_markers_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="lacks the markers"):
        doc.replaced("nothing here", "proxy", "x")
