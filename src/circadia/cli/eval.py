"""`circadia eval`: whether sleep-time compute pays off, on generated contexts and your data, and what prompts do."""

import asyncio
import os
import shlex
from collections.abc import Coroutine
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from circadia.cli.machine.serve import Config, config_file
from circadia.cli.terminal.lazy_imports import INTERRUPTED, quick_imports
from circadia.cli.terminal.output import AsJson, console, note, print_json
from circadia.clock import SystemClock
from circadia.errors import CircadiaError, StartError
from circadia.evaluation import judging, models, report
from circadia.evaluation import locomo as locomo_run
from circadia.evaluation import stateful as stateful_run
from circadia.evaluation.memory import run as memory_run
from circadia.evaluation.prompt_cases import run as prompts_run
from circadia.settings import load_settings

SCRIPTED: Final = "scripted"
NOTHING: Final = "none"
ARMS: Final = "none,learned,answers,hints,wrong-hints,both"
MEMORY_ARMS: Final = "nothing,all,bm25,context,recall"
QUESTIONS: Final = "1,2,5,10,20"
EXPECTED: Final = 10
INSTALL_HINT: Final = "pictures need the extra `eval`: run `pip install 'circadia[eval]'`"

app = typer.Typer(name="eval", help="Measure whether sleep-time compute pays off.", no_args_is_help=True)

Model = Annotated[str, typer.Option("--model", help="`scripted`, `local`, a GGUF file, or a model of `--upstream`.")]
Upstream = Annotated[
    str | None,
    typer.Option("--upstream", metavar="NAME", help="Upstream from the configuration; calls to its model cost tokens."),
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Folder for results.json, report.md and the plots.")
]


@app.callback()
def evaluate() -> None:
    """Measure whether sleep-time compute pays off."""


@app.command(epilog="Example: circadia eval stateful --seed 7 --out results")
def stateful(
    model: Model = SCRIPTED,
    upstream: Upstream = None,
    config: Config = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FILE", help="Contexts in JSON Lines, instead of generated ones.")
    ] = None,
    contexts: Annotated[
        int | None, typer.Option("--contexts", min=1, help="Number of contexts: 20, 4 for a real model, or all data.")
    ] = None,
    questions: Annotated[str, typer.Option("--questions", help="Numbers of questions per context.")] = QUESTIONS,
    arms: Annotated[str, typer.Option("--arms", help="Arms to compare.")] = ARMS,
    expected: Annotated[
        int, typer.Option("--expected", min=1, max=100, help="Number of questions per context that are answered ahead.")
    ] = EXPECTED,
    seed: Annotated[int, typer.Option("--seed", help="Seed of generated contexts and of wrong hints.")] = 1,
    at_once: Annotated[
        int, typer.Option("--at-once", min=1, max=64, help="Number of contexts processed at the same time.")
    ] = 4,
    save_data: Annotated[
        Path | None, typer.Option("--save-data", metavar="FILE", help="Write the contexts to this file, in JSON Lines.")
    ] = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Compare ways to answer several questions about one context by tokens, cost and right answers.

    Ctrl-C ends the run; the results so far are printed and written.
    """
    _require_writable(out)
    run = stateful_run.StatefulRun(
        models.ModelChoice(model=model, upstream=upstream), _build_environment(config), data=data,
        contexts_wanted=contexts, questions=questions, arms=arms, expected=expected, seed=seed, at_once=at_once,
    )  # fmt: skip
    if save_data is not None:
        run.save_data(save_data)
    words = ["eval", "stateful", *_model_options(model, upstream, SCRIPTED)]
    words += ["--seed", str(seed), *([] if data is None else ["--data", data.name])]
    words += ["--contexts", str(len(run.cases))]
    for option, value, default in (("--questions", questions, QUESTIONS), ("--arms", arms, ARMS)):
        words += [] if value == default else [option, value]
    words += [] if expected == EXPECTED else ["--expected", str(expected)]
    ended, failure = run_to_end(run.run())
    _report_findings(run.build_findings(shlex.join(["circadia", *words])), out, as_json, ended, failure)


@app.command(epilog="Example: circadia eval locomo talks.json --out results")
def locomo(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Talks and questions in LoCoMo's JSON format.")],
    model: Annotated[
        str, typer.Option("--model", help="`none`, `scripted`, `local`, a GGUF file, or a model of `--upstream`.")
    ] = NOTHING,
    upstream: Upstream = None,
    config: Config = None,
    talks: Annotated[int | None, typer.Option("--talks", min=1, help="Maximum number of talks.")] = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Measure how much of the evidence for questions about long talks is in the context that memory builds.

    Ctrl-C ends the run; the results so far are printed and written.
    """
    _require_writable(out)
    around = _build_environment(config)
    conversations = locomo_run.load_conversations(path)[:talks]
    chosen = SCRIPTED if model == NOTHING and upstream is not None else model
    model_choice = None if chosen == NOTHING else models.ModelChoice(model=chosen, upstream=upstream)
    run = locomo_run.LocomoRun(model_choice, around, conversations)
    words = ["eval", "locomo", path.name, *_model_options(model, upstream, NOTHING)]
    words += [] if talks is None else ["--talks", str(talks)]
    ended, failure = run_to_end(run.run())
    _report_findings(run.build_findings(shlex.join(["circadia", *words])), out, as_json, ended, failure)


@app.command(epilog="Example: circadia eval judge --data pairs.jsonl --upstream openai")
def judge(
    model: Model = SCRIPTED,
    upstream: Upstream = None,
    config: Config = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="FILE", help="JSON Lines file with pairs (a, b and same); defaults to the built-in ones."
        ),
    ] = None,
    error: Annotated[
        float, typer.Option("--error", min=0.0, max=1.0, help="Share of pairs that the scripted judge gets wrong.")
    ] = 0.0,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Maximum number of pairs.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the judge of ready answers: which pairs it would serve, rightly or wrongly, and how fast.

    The scripted judge knows the labels and gets a share of them wrong.
    """
    choice = models.ModelChoice(model=model, upstream=upstream)
    run = judging.JudgeRun(choice, _build_environment(config), data=data, error=error, limit=limit)
    ended, failure = run_to_end(run.run())
    if run.found is not None:
        if as_json:
            print_json(run.document())
        else:
            judging.show(run, console())
    if failure is not None:
        raise failure
    if not ended:
        raise typer.Exit(INTERRUPTED)


@app.command(epilog="Example: circadia eval memory --data talks.json --upstream openai --out results")
def memory(
    data: Annotated[
        Path, typer.Option("--data", metavar="FILE", help="Talks and questions in LoCoMo's or LongMemEval's format.")
    ],
    model: Annotated[
        str, typer.Option("--model", help="Who answers: `none`, `local`, a GGUF file, or a model of `--upstream`.")
    ] = NOTHING,
    judge: Annotated[
        str | None, typer.Option("--judge", help="Who grades what no rule can; the model of `--model` by default.")
    ] = None,
    sleep_model: Annotated[
        str | None, typer.Option("--sleep-model", help="Who works in passes over the talks; by default no pass runs.")
    ] = None,
    upstream: Upstream = None,
    config: Config = None,
    arms: Annotated[str, typer.Option("--arms", help="What to compare.")] = MEMORY_ARMS,
    talks: Annotated[int | None, typer.Option("--talks", min=1, help="Maximum number of talks.")] = None,
    questions: Annotated[
        int | None, typer.Option("--questions", min=1, help="Maximum number of questions a talk.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option("--budget", min=0, metavar="USD", help="Ask nothing more once this much is spent.")
    ] = None,
    at_once: Annotated[
        int, typer.Option("--at-once", min=1, max=64, help="Number of questions asked at the same time.")
    ] = 4,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Measure whether answers about long talks are right: without memory, with all of it, with BM25, with Circadia.

    Ctrl-C ends the run; with --out, the next one goes on where it ended.
    """
    _require_writable(out)
    answering = None if model == NOTHING and upstream is None else _choose_model(model, upstream)
    run = memory_run.MemoryRun(
        _build_environment(config), data=data, answering=answering,
        judging=None if answering is None else _choose_model(judge or model, upstream),
        sleeping=None if sleep_model is None else _choose_model(sleep_model, upstream),
        arms=arms, talks=talks, questions=questions, budget_usd=budget, at_once=at_once, out=out,
    )  # fmt: skip
    words = ["eval", "memory", "--data", data.name, *_model_options(model, upstream, NOTHING)]
    for option, value in (("--judge", judge), ("--sleep-model", sleep_model), ("--talks", talks)):
        words += [] if value is None else [option, str(value)]
    words += [] if questions is None else ["--questions", str(questions)]
    words += [] if arms == MEMORY_ARMS else ["--arms", arms]
    ended, failure = run_to_end(run.run())
    _report_findings(run.build_findings(shlex.join(["circadia", *words])), out, as_json, ended, failure)


@app.command(epilog="Example: circadia eval prompts --upstream openai --out results")
def prompts(
    model: Model = SCRIPTED,
    upstream: Upstream = None,
    config: Config = None,
    prompt: Annotated[
        list[str] | None, typer.Option("--prompt", metavar="NAME", help="Only this prompt; may be repeated.")
    ] = None,
    at_once: Annotated[
        int, typer.Option("--at-once", min=1, max=64, help="Number of questions asked at the same time.")
    ] = 4,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Try each prompt of the passes on made-up cases, and check the answers by rules.

    The scripted model gives the hand-written answers. The status is 1 if a case fails that must hold.
    """
    _require_writable(out)
    choice = models.ModelChoice(model=model, upstream=upstream)
    run = prompts_run.PromptsRun(choice, _build_environment(config), prompts=prompt or (), at_once=at_once)
    words = ["eval", "prompts", *_model_options(model, upstream, SCRIPTED)]
    words += [word for name in prompt or () for word in ("--prompt", name)]
    ended, failure = run_to_end(run.run())
    _report_findings(run.build_findings(shlex.join(["circadia", *words])), out, as_json, ended, failure)
    if run.failures:
        raise typer.Exit(1)


def _choose_model(model: str, upstream: str | None) -> "models.ModelChoice":
    """Return the model of a name; without one, the upstream's cheap one."""
    return models.ModelChoice(model=SCRIPTED if model == NOTHING else model, upstream=upstream)


def _build_environment(config: Path | None) -> "models.EvalEnvironment":
    """Load the evaluation and the configuration. Raises ConfigError."""
    settings = load_settings(config_file(config))
    to = Console(stderr=True, highlight=False, markup=False)
    with quick_imports():
        return models.EvalEnvironment(settings=settings, environment=os.environ, clock=SystemClock(), to=to)


def _model_options(model: str, upstream: str | None, default: str) -> list[str]:
    if upstream is None:
        return ["--model", model]
    return ["--upstream", upstream, *([] if model == default else ["--model", model])]


def run_to_end(run: Coroutine[Any, Any, None]) -> tuple[bool, CircadiaError | None]:
    """Run the coroutine; return False if Ctrl-C ended it, and its error if it failed."""
    try:
        asyncio.run(run)
    except KeyboardInterrupt:
        return False, None
    except CircadiaError as error:
        return True, error
    return True, None


def _require_writable(out: Path | None) -> None:
    """Create the folder for the results. Raises StartError, before any model is asked, if it is not writable."""
    try:
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=out).close()
    except OSError as error:
        raise _unwritable_error(out, error) from error


def _unwritable_error(out: Path | None, error: OSError) -> StartError:
    return StartError(f"{str(out)!r} cannot be written: {error}; name another folder with --out")


def _report_findings(
    findings: "report.Findings | None", out: Path | None, as_json: bool, ended: bool, failure: CircadiaError | None
) -> None:  # fmt: skip
    """Print and write the results; then raise the failure, or Exit if Ctrl-C ended the run."""
    if findings is not None:
        if as_json:
            print_json(findings.document)
        else:
            report.show(findings, console())
        if out is not None:
            try:
                paths = report.save(findings, out)
            except OSError as error:
                raise _unwritable_error(out, error) from error
            note(f"Wrote {', '.join(map(str, paths))}")
            if findings.charts and not any(path.suffix == ".png" for path in paths):
                note(INSTALL_HINT)
    if failure is not None:
        raise failure
    if findings is None and not ended:
        note("No results yet.")
    if not ended:
        raise typer.Exit(INTERRUPTED)
