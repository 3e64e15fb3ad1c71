"""`circadia eval`: whether sleep-time compute pays, measured on made-up contexts, on data of one's own, on long talks."""

import asyncio
import os
import shlex
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from circadia.cli.output import AsJson, console, note, print_json
from circadia.cli.serve import Config, config_file
from circadia.clock import Clock, SystemClock
from circadia.errors import CircadiaError, InvalidRequest, StartError
from circadia.evaluation import conversations, dataset, locomo, plot
from circadia.evaluation.arms import Arm, Preparing
from circadia.evaluation.asker import Asker
from circadia.evaluation.contexts import contexts
from circadia.evaluation.dataset import Case
from circadia.evaluation.measure import SIZES, Measuring
from circadia.evaluation.models import SCRIPTED, Chosen, asked
from circadia.evaluation.report import Findings, save, show
from circadia.evaluation.scripted import reading
from circadia.evaluation.stateful import Run, findings
from circadia.llm.mind import Mind
from circadia.memory.answers.likeness import fitted
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.settings import Settings, load_settings
from circadia.testing.dreamer import Dreamer

INTERRUPTED: Final = 130
CONTEXTS: Final = 20
"""Of the generator, for the scripted model."""
FEWER_CONTEXTS: Final = 4
"""For models that take time or money."""
AT_ONCE: Final = 4
NOTHING: Final = "none"

app = typer.Typer(name="eval", help="Measure whether sleep-time compute pays.", no_args_is_help=True)

Upstream = Annotated[
    str | None, typer.Option("--upstream", help="Upstream of the configuration whose model is asked; it costs tokens.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Write results.json, report.md and the pictures of the plots here."),
]


@app.callback()
def evaluate() -> None:
    """Measure whether sleep-time compute pays."""


@app.command(epilog="Example: circadia eval stateful --seed 7 --out results")
def stateful(
    model: Annotated[
        str,
        typer.Option("--model", help="`scripted`, `local`, the path of a GGUF file, or a model of `--upstream`."),
    ] = SCRIPTED,
    upstream: Upstream = None,
    config: Config = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FILE", help="Contexts in JSON Lines, in place of the generator.")
    ] = None,
    count: Annotated[
        int | None, typer.Option("--contexts", min=1, help="How many contexts; by default 20, or 4 for real models.")
    ] = None,
    questions: Annotated[str, typer.Option("--questions", help="Numbers of questions a context.")] = ",".join(
        map(str, SIZES)
    ),
    arms: Annotated[str, typer.Option("--arms", help="Arms to compare.")] = ",".join(Arm),
    expected: Annotated[
        int, typer.Option("--expected", min=1, max=100, help="Questions of a context that are answered ahead.")
    ] = 10,
    seed: Annotated[int, typer.Option("--seed", help="Of the generator.")] = 1,
    at_once: Annotated[
        int, typer.Option("--at-once", min=1, max=64, help="Contexts that are worked on at the same time.")
    ] = AT_ONCE,
    written: Annotated[
        Path | None, typer.Option("--save-data", metavar="FILE", help="Write the contexts to this file, in JSON Lines.")
    ] = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Compare ways to answer several questions about one context: tokens hot and asleep, cost, right answers.

    Ctrl-C ends it, and what was measured until then is told and written.
    """
    chosen, sizes, compared = Chosen(model=model, upstream=upstream), _sizes(questions), _arms(arms)
    settings, clock = load_settings(config_file(config)), SystemClock()
    wanted = count or (CONTEXTS if chosen.is_scripted else FEWER_CONTEXTS)
    cases = contexts(seed, wanted, max(sizes)) if data is None else _cut(dataset.load(data), count, max(sizes))
    if written is not None:
        _write(written, dataset.saved(cases))
    words = ["circadia", "eval", "stateful", "--model", model, *([] if upstream is None else ["--upstream", upstream])]
    words += ["--seed", str(seed)] if data is None else ["--data", data.name]
    words += ["--contexts", str(len(cases)), "--questions", questions, "--expected", str(expected), "--arms", arms]
    command = shlex.join(words)
    stand = Stateful(chosen, settings, clock, cases, compared, sizes, expected=expected, seed=seed, at_once=at_once)
    ended, failure = _to_end(stand.run())
    _tell(stand.found(command, generated=data is None), out, as_json, ended, failure)


class Stateful:
    """One run of `circadia eval stateful`."""

    def __init__(
        self, chosen: Chosen, settings: Settings, clock: Clock, cases: Sequence[Case], arms: Sequence[Arm],
        sizes: Sequence[int], *, expected: int, seed: int, at_once: int,
    ) -> None:  # fmt: skip
        self._chosen = chosen
        self._settings = settings
        self._clock = clock
        self._cases = cases
        self._arms = arms
        self._sizes = sizes
        self._expected = expected
        self._seed = seed
        self._at_once = at_once
        self._measuring: Measuring | None = None
        self._asker: Asker | None = None

    async def run(self) -> None:
        """Measure. Raises CircadiaError."""
        words = await BundledEmbedder().word_vectors()
        async with asked(self._chosen, self._settings, os.environ, self._clock) as mind:
            self._asker = Asker(mind, self._clock)
            preparing = Preparing(self._asker, self._arms, self._expected, words, fitted())
            self._measuring = Measuring(
                self._asker, preparing, self._cases, self._arms, seed=self._seed, at_once=self._at_once
            )
            if not self._chosen.is_scripted:
                note(f"{mind.name!r} of {mind.upstream!r} is asked up to {self._measuring.calls:,} times.")
            with _progress() as bar:
                task = bar.add_task("questions", total=self._measuring.steps)
                await self._measuring.run(lambda: bar.advance(task))

    def found(self, command: str, *, generated: bool) -> Findings | None:
        """Return what was measured; none if nothing was."""
        if self._measuring is None or self._asker is None or not self._measuring.tally.trials:
            return None
        scripted = self._chosen.is_scripted
        unread = sum(reading(case.context) is None for case in self._cases) if scripted else 0
        return findings(
            Run(
                measuring=self._measuring, asker=self._asker, cases=self._cases, arms=self._arms, sizes=self._sizes,
                scripted=scripted, generated=generated, unread=unread, command=command, at=self._clock.now(),
            )
        )  # fmt: skip


@app.command(name="locomo", epilog="Example: circadia eval locomo talks.json --out results")
def long_talks(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Talks with questions, as JSON in LoCoMo's format.")],
    model: Annotated[
        str,
        typer.Option("--model", help="`none`, `scripted`, `local`, the path of a GGUF file, or one of `--upstream`."),
    ] = NOTHING,
    upstream: Upstream = None,
    config: Config = None,
    count: Annotated[int | None, typer.Option("--talks", min=1, help="Only the first talks.")] = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Measure how much of the evidence for questions about long talks stands in the context that memory makes.

    Ctrl-C ends it, and what was measured until then is told and written.
    """
    settings, clock = load_settings(config_file(config)), SystemClock()
    talks = conversations.load(path)[:count]
    to, names = locomo.Measured(), list[Mind]()
    named = SCRIPTED if model == NOTHING and upstream is not None else model  # an upstream's cheap one

    async def measure(mind: Mind | None) -> None:
        if mind is not None:
            names.append(mind)
        with _progress() as bar:
            task = bar.add_task("sittings and questions", total=locomo.steps(talks))
            await locomo.measure(talks, mind, clock, to, lambda: bar.advance(task))

    async def run() -> None:
        chosen = Chosen(model=named, upstream=upstream)
        if named == NOTHING:
            await measure(None)
        elif chosen.is_scripted:
            await measure(Dreamer())
        else:
            async with asked(chosen, settings, os.environ, clock) as mind:
                turns = sum(len(talk.turns) for talk in talks)
                note(f"{mind.name!r} of {mind.upstream!r} is asked about {turns * locomo.CALLS_A_TURN:,.0f} times.")
                await measure(mind)

    words = ["circadia", "eval", "locomo", path.name, "--model", named]
    command = shlex.join([*words, *([] if upstream is None else ["--upstream", upstream])])
    ended, failure = _to_end(run())
    found = locomo.findings(to, names[0] if names else None, command, clock.now()) if to.passes else None
    _tell(found, out, as_json, ended, failure)


def _to_end(run: Coroutine[Any, Any, None]) -> tuple[bool, CircadiaError | None]:
    """Run; return whether it was not broken off by Ctrl-C, and what it failed with."""
    try:
        asyncio.run(run)
    except KeyboardInterrupt:
        return False, None
    except CircadiaError as error:
        return True, error
    return True, None


def _tell(found: Findings | None, out: Path | None, as_json: bool, ended: bool, failure: CircadiaError | None) -> None:
    """Print and write what was measured. Raises CircadiaError: the failure, afterwards. Exit: it was broken off."""
    if found is not None:
        if as_json:
            print_json(found.document)
        else:
            show(found, console())
        if out is not None:
            _save(found, out)
    if failure is not None:
        raise failure
    if not ended:
        raise typer.Exit(INTERRUPTED)


def _save(found: Findings, folder: Path) -> None:
    try:
        paths = save(found, folder)
    except OSError as error:
        raise StartError(f"{str(folder)!r} cannot be written: {error}; name another folder with --out") from error
    note(f"Written: {', '.join(map(str, paths))}")
    if not plot.installed():
        note(plot.INSTALL_HINT)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise StartError(f"{str(path)!r} cannot be written: {error}; name another file with --save-data") from error


def _progress() -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    to = Console(stderr=True)
    return Progress(*columns, TimeRemainingColumn(), console=to, transient=True, disable=not sys.stderr.isatty())


def _cut(cases: Sequence[Case], count: int | None, questions: int) -> list[Case]:
    return [Case(name=case.name, context=case.context, questions=case.questions[:questions]) for case in cases[:count]]


def _sizes(given: str) -> list[int]:
    try:
        sizes = sorted({int(each) for each in given.split(",")})
    except ValueError:
        sizes = [0]
    if sizes[0] < 1 or sizes[-1] > 100:
        raise InvalidRequest(f"--questions must be numbers from 1 to 100 with commas between them, not {given!r}")
    return sizes


def _arms(given: str) -> list[Arm]:
    named = [each.strip() for each in given.split(",")]
    unknown = [each for each in named if each not in set(Arm)]
    if unknown:
        raise InvalidRequest(f"there is no arm {unknown[0]!r}; known: {', '.join(Arm)}")
    return [arm for arm in Arm if arm in named]
