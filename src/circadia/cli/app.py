"""The command `circadia`: all its commands in one place, and how their errors are told."""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from circadia.cli import (
    agent,
    answers,
    chain,
    config,
    coordination,
    events,
    holds,
    inbox,
    init,
    model,
    pulses,
    schedule,
    send,
    serve,
    session,
    sleep,
    top,
    usage,
    wakes,
)
from circadia.cli.demo import app as demo_app
from circadia.cli.doctor import command as doctor
from circadia.cli.eval import app as eval_app
from circadia.cli.import_djinnbot import command as import_djinnbot
from circadia.cli.loading import INTERRUPTED
from circadia.cli.memory import app as memory_app
from circadia.cli.output import bear_any_text, shown
from circadia.cli.sleeptime import app as sleeptime_app
from circadia.errors import EXIT_STATUS, CircadiaError

app = typer.Typer(name="circadia", no_args_is_help=True, pretty_exceptions_enable=False)
app.add_typer(serve.app)
app.add_typer(session.app, name="session")
app.add_typer(agent.app, name="agent")
app.add_typer(sleep.app)
app.add_typer(send.app)
app.add_typer(inbox.app)
app.add_typer(wakes.app, name="wakes")
app.add_typer(chain.app)
app.add_typer(pulses.app, name="pulses")
app.add_typer(schedule.app)
app.add_typer(coordination.app)
app.add_typer(holds.app)
app.add_typer(memory_app, name="memory")
app.add_typer(sleeptime_app, name="sleeptime")
app.add_typer(answers.app, name="answers")
app.add_typer(events.app)
app.add_typer(usage.app)
app.add_typer(top.app)
app.add_typer(config.app, name="config")
app.add_typer(init.app, name="init")
app.add_typer(doctor.app)
app.add_typer(eval_app, name="eval")
app.add_typer(model.app, name="model")
app.add_typer(import_djinnbot.app, name="import")
app.add_typer(demo_app, name="demo")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("circadia"))
        raise typer.Exit


@app.callback(epilog="Example: circadia serve, and in another terminal: circadia agent add helper")
def circadia(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Agents that sleep cost nothing: one server between agents, their model providers and their tools."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, or the given words; an error is one line on standard error and an exit status."""
    bear_any_text()
    try:
        sys.exit(app(arguments, prog_name="circadia", standalone_mode=False) or 0)
    except CircadiaError as error:
        typer.echo(f"error: {shown(error.message)}", err=True)
        sys.exit(exit_status(error))
    except typer.TyperException as error:
        _tell_usage(error)
        sys.exit(error.exit_code)
    except typer.Abort as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        typer.echo("error: nobody answered the question; --yes answers it", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # Whoever read is gone. What is left in the buffer must not fail again when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _tell_usage(error: typer.TyperException) -> None:
    """Tell what is wrong with the words, in one line; a group without a command has printed its help."""
    told = " ".join(error.format_message().split())
    context: typer.Context | None = getattr(error, "ctx", None)
    if told:
        asked = f"{context.command_path} --help" if context else "circadia --help"
        typer.echo(f"error: {shown(told.rstrip('.'))}; `{asked}` tells more", err=True)


def exit_status(error: CircadiaError) -> int:
    """Return the exit status of the error's class, or of the nearest one above it; 1 for none."""
    return next((EXIT_STATUS[kind] for kind in type(error).__mro__ if kind in EXIT_STATUS), 1)
