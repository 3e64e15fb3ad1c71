"""`circadia eval`: whether sleep-time compute pays, on made-up contexts, on data of one's own, and on long talks."""

import asyncio
import importlib
import os
import shlex
from collections.abc import Coroutine
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console

from circadia.cli.machine.serve import Config, config_file
from circadia.cli.terminal.lazy_imports import INTERRUPTED, quick_imports
from circadia.cli.terminal.output import AsJson, console, note, print_json
from circadia.clock import SystemClock
from circadia.errors import CircadiaError, StartError
from circadia.settings import load_settings

if TYPE_CHECKING:
    from circadia.evaluation.report import Findings
    from circadia.evaluation.run import EvalEnvironment

SCRIPTED: Final = "scripted"
NOTHING: Final = "none"
ARMS: Final = "none,learned,answers,hints,wrong-hints,both"
QUESTIONS: Final = "1,2,5,10,20"
EXPECTED: Final = 10
INSTALL_HINT: Final = "pictures need the extra `eval`: run `pip install 'circadia[eval]'`"

app = typer.Typer(name="eval", help="Measure whether sleep-time compute pays.", no_args_is_help=True)

Upstream = Annotated[
    str | None,
    typer.Option("--upstream", metavar="NAME", help="Upstream of the configuration; asking its model costs tokens."),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Write results.json, report.md and pictures of the plots here."),
]


@app.callback()
def evaluate() -> None:
    """Measure whether sleep-time compute pays."""


@app.command(epilog="Example: circadia eval stateful --seed 7 --out results")
def stateful(
    model: Annotated[
        str, typer.Option("--model", help="`scripted`, `local`, the path of a GGUF file, or one of `--upstream`.")
    ] = SCRIPTED,
    upstream: Upstream = None,
    config: Config = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FILE", help="Contexts in JSON Lines, in place of made-up ones.")
    ] = None,
    contexts: Annotated[
        int | None, typer.Option("--contexts", min=1, help="How many contexts; 20, or 4 for a real model, or all data.")
    ] = None,
    questions: Annotated[str, typer.Option("--questions", help="Numbers of questions a context.")] = QUESTIONS,
    arms: Annotated[str, typer.Option("--arms", help="Which arms are compared.")] = ARMS,
    expected: Annotated[
        int, typer.Option("--expected", min=1, max=100, help="Questions of a context that are answered ahead.")
    ] = EXPECTED,
    seed: Annotated[int, typer.Option("--seed", help="Of made-up contexts, and of which wrong hint is shown.")] = 1,
    at_once: Annotated[
        int, typer.Option("--at-once", min=1, max=64, help="Contexts that are worked on at the same time.")
    ] = 4,
    save_data: Annotated[
        Path | None, typer.Option("--save-data", metavar="FILE", help="Write the contexts here, in JSON Lines.")
    ] = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Compare ways to answer several questions about one context: tokens hot and asleep, cost, right answers.

    Ctrl-C ends it; what was measured until then is told and written.
    """
    _require_writable(out)
    run, around = _load_evaluation(config)
    stand = run.StatefulRun(
        _choose_model(model, upstream), around, data=data, contexts_wanted=contexts, questions=questions, arms=arms,
        expected=expected, seed=seed, at_once=at_once,
    )  # fmt: skip
    if save_data is not None:
        stand.save_data(save_data)
    words = ["eval", "stateful", *_model_options(model, upstream, SCRIPTED)]
    words += ["--seed", str(seed), *([] if data is None else ["--data", data.name])]
    words += ["--contexts", str(len(stand.cases))]
    for option, value, default in (("--questions", questions, QUESTIONS), ("--arms", arms, ARMS)):
        words += [] if value == default else [option, value]
    words += [] if expected == EXPECTED else ["--expected", str(expected)]
    ended, failure = run_to_end(stand.run())
    _report_findings(stand.build_findings(shlex.join(["circadia", *words])), out, as_json, ended, failure)


@app.command(epilog="Example: circadia eval locomo talks.json --out results")
def locomo(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Talks with questions, as JSON in LoCoMo's format.")],
    model: Annotated[
        str,
        typer.Option("--model", help="`none`, `scripted`, `local`, the path of a GGUF file, or one of `--upstream`."),
    ] = NOTHING,
    upstream: Upstream = None,
    config: Config = None,
    talks: Annotated[int | None, typer.Option("--talks", min=1, help="Only the first so many.")] = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Measure how much of the evidence for questions about long talks stands in the context that memory makes.

    Ctrl-C ends it; what was measured until then is told and written.
    """
    _require_writable(out)
    run, around = _load_evaluation(config)
    found = importlib.import_module("circadia.evaluation.recall.conversations").load_conversations(path)[:talks]
    named = SCRIPTED if model == NOTHING and upstream is not None else model
    stand = run.LocomoRun(None if named == NOTHING else _choose_model(named, upstream), around, found)
    words = ["eval", "locomo", path.name, *_model_options(model, upstream, NOTHING)]
    words += [] if talks is None else ["--talks", str(talks)]
    ended, failure = run_to_end(stand.run())
    _report_findings(stand.build_findings(shlex.join(["circadia", *words])), out, as_json, ended, failure)


@app.command(epilog="Example: circadia eval judge --data pairs.jsonl --upstream openai")
def judge(
    model: Annotated[
        str,
        typer.Option("--model", help="`scripted`, `local`, the path of a GGUF file, or one of `--upstream`."),
    ] = SCRIPTED,
    upstream: Upstream = None,
    config: Config = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="FILE", help="Your pairs, JSON Lines with a, b and same; else the built-in ones."
        ),
    ] = None,
    error: Annotated[
        float, typer.Option("--error", min=0.0, max=1.0, help="Share of pairs that the scripted judge gets wrong.")
    ] = 0.0,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first so many pairs.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the judge of ready answers: which of your pairs would be served, rightly and wrongly, in which time.

    The scripted judge knows the labels and errs on a share of them.
    """
    _, around = _load_evaluation(config)
    judging: Any = importlib.import_module("circadia.evaluation.judge_run")
    stand = judging.JudgeRun(_choose_model(model, upstream), around, data=data, error=error, limit=limit)
    ended, failure = run_to_end(stand.run())
    if stand.found is not None:
        if as_json:
            print_json(stand.document())
        else:
            judging.show(stand, console())
    if failure is not None:
        raise failure
    if not ended:
        raise typer.Exit(INTERRUPTED)


def _load_evaluation(config: Path | None) -> tuple[Any, "EvalEnvironment"]:
    """Load what evaluates, which other commands do not need, and what it runs in. Raises ConfigError."""
    settings = load_settings(config_file(config))
    with quick_imports():
        run: Any = importlib.import_module("circadia.evaluation.run")
    to = Console(stderr=True, highlight=False, markup=False)
    return run, run.EvalEnvironment(settings=settings, environment=os.environ, clock=SystemClock(), to=to)


def _choose_model(model: str, upstream: str | None) -> Any:
    models: Any = importlib.import_module("circadia.evaluation.models")
    return models.ModelChoice(model=model, upstream=upstream)


def _model_options(model: str, upstream: str | None, default: str) -> list[str]:
    """Return the words that name the model; without one of its own an upstream means its cheap one."""
    if upstream is None:
        return ["--model", model]
    return ["--upstream", upstream, *([] if model == default else ["--model", model])]


def run_to_end(run: Coroutine[Any, Any, None]) -> tuple[bool, CircadiaError | None]:
    """Run; return whether it was not broken off by Ctrl-C, and what it failed with."""
    try:
        asyncio.run(run)
    except KeyboardInterrupt:
        return False, None
    except CircadiaError as error:
        return True, error
    return True, None


def _require_writable(out: Path | None) -> None:
    """Make the folder for the results. Raises StartError: it cannot be written, told before a model is asked."""
    try:
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=out).close()
    except OSError as error:
        raise _unwritable_error(out, error) from error


def _unwritable_error(out: Path | None, error: OSError) -> StartError:
    return StartError(f"{str(out)!r} cannot be written: {error}; name another folder with --out")


def _report_findings(
    found: "Findings | None", out: Path | None, as_json: bool, ended: bool, failure: CircadiaError | None
) -> None:  # fmt: skip
    """Print and write what was measured. Raises CircadiaError: the failure, afterwards. Exit: it was broken off."""
    if found is not None:
        report: Any = importlib.import_module("circadia.evaluation.report")
        if as_json:
            print_json(found.document)
        else:
            report.show(found, console())
        if out is not None:
            try:
                paths: list[Path] = report.save(found, out)
            except OSError as error:
                raise _unwritable_error(out, error) from error
            note(f"Written: {', '.join(map(str, paths))}")
            if not any(path.suffix == ".png" for path in paths):
                note(INSTALL_HINT)
    if failure is not None:
        raise failure
    if found is None and not ended:
        note("Nothing was measured yet.")
    if not ended:
        raise typer.Exit(INTERRUPTED)
