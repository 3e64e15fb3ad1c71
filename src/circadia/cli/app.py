"""The command `circadia`: all its commands in one place, and how their errors are told."""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from circadia.cli import answers, demo, memory, sleeptime
from circadia.cli import eval as evaluating
from circadia.cli.agents import agent, session, sleep
from circadia.cli.doctor import command as doctor
from circadia.cli.import_djinnbot import command as import_djinnbot
from circadia.cli.machine import config, init, model, serve
from circadia.cli.monitoring import events, holds, top, usage
from circadia.cli.terminal.lazy_commands import add_lazy_commands, command, group
from circadia.cli.terminal.lazy_imports import INTERRUPTED
from circadia.cli.terminal.output import display_text, escape_unencodable
from circadia.cli.waking import chain, coordination, inbox, pulses, schedule, send, wakes
from circadia.errors import EXIT_STATUS, CircadiaError

app = add_lazy_commands(
    typer.Typer(name="circadia", no_args_is_help=True, pretty_exceptions_enable=False),
    command(
        "serve",
        "Run the server until Ctrl-C or SIGTERM; the first start prints the operator's token, once.",
        lambda: serve.app,
    ),
    group("session", "Groups of agents with their threads.", lambda: session.app),
    group("agent", "Identities, their tokens and policies.", lambda: agent.app),
    command("sleep", "Put agents to sleep: their next calls are held until they wake.", lambda: sleep.app),
    command("wake", "Wake agents: their held calls go on, in order of arrival.", lambda: sleep.app),
    command(
        "send", "Put a message into an agent's inbox; with --wake, ask to wake the agent for it.", lambda: send.app
    ),
    command(
        "inbox",
        "List the messages in an agent's inbox and count them by state; a person's look marks nothing.",
        lambda: inbox.app,
    ),
    group("wakes", "List requests to wake agents, the newest first, with what was decided and why.", lambda: wakes.app),
    command(
        "chain",
        "Show a chain of messages, wakes and pulses as a tree: each below what caused it.",
        lambda: chain.app,
    ),
    group(
        "pulses", "List the pulses of an agent, or of all agents of a session, the newest first.", lambda: pulses.app
    ),
    command(
        "schedule",
        "Show an agent's routines, the next occurrences, and its days as a picture, on the clock of its zone.",
        lambda: schedule.app,
    ),
    command(
        "coordination",
        "Show how an agent may be woken and where each setting was made; or change it, from the next decision on.",
        lambda: coordination.app,
    ),
    command("holds", "List the calls that are held now, the longest first.", lambda: holds.app),
    group("memory", "What agents remember: banks with episodes, notes and blocks.", lambda: memory.app),
    group("sleeptime", "Passes over memory while nobody waits: see, explain, run, undo.", lambda: sleeptime.app),
    group("answers", "Questions that are expected next, answered ahead.", lambda: answers.app),
    command(
        "events", "Print what happened, oldest first; with --follow and --json one event a line.", lambda: events.app
    ),
    command("usage", "Sum the ended model calls: tokens, price at list prices, time held.", lambda: usage.app),
    command("top", "Show agents, held calls, tokens and events as they change; q or Ctrl-C ends it.", lambda: top.app),
    group("config", "What the configuration says.", lambda: config.app),
    group("init", "Write configuration.", lambda: init.app),
    command(
        "doctor",
        "Check what a server on this machine needs; each finding is ok, warn or fail, with what to do.",
        lambda: doctor.app,
    ),
    group("eval", "Measure whether sleep-time compute pays.", lambda: evaluating.app),
    group("model", "Weights of small local models.", lambda: model.app),
    group("import", "Take over what another system's configuration says.", lambda: import_djinnbot.app),
    group(
        "demo",
        "Run a team of five agents for an hour of story, without sleep and with it, and compare what they spent.",
        lambda: demo.app,
    ),
)


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
    escape_unencodable()
    try:
        sys.exit(app(arguments, prog_name="circadia", standalone_mode=False) or 0)
    except CircadiaError as error:
        typer.echo(f"error: {display_text(error.message)}", err=True)
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
        typer.echo(f"error: {display_text(told.rstrip('.'))}; `{asked}` tells more", err=True)


def exit_status(error: CircadiaError) -> int:
    """Return the exit status of the error's class, or of the nearest one above it; 1 for none."""
    return next((EXIT_STATUS[kind] for kind in type(error).__mro__ if kind in EXIT_STATUS), 1)
