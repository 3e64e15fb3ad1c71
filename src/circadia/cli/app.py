"""The command `circadia`: its list of commands, and how it reports errors."""

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
        "Run the server until Ctrl-C or SIGTERM. The first start prints the operator's token once.",
        lambda: serve.app,
    ),
    group("session", "Manage sessions: groups of agents with their threads.", lambda: session.app),
    group("agent", "Manage agents, their tokens and policies.", lambda: agent.app),
    command("sleep", "Put agents to sleep. Their next calls are held until they wake.", lambda: sleep.app),
    command("wake", "Wake agents. Their held calls continue in order of arrival.", lambda: sleep.app),
    command(
        "send", "Send a message to an agent's inbox. With --wake, also request to wake the agent.", lambda: send.app
    ),
    command(
        "inbox",
        "List the messages in an agent's inbox and count them by state. The operator's token marks none as seen.",
        lambda: inbox.app,
    ),
    group("wakes", "List wake requests with their decision and its reason, newest first.", lambda: wakes.app),
    command(
        "chain",
        "Show a chain of messages, wakes and pulses as a tree, each below its cause.",
        lambda: chain.app,
    ),
    group("pulses", "List the pulses of an agent, or of all agents in a session, newest first.", lambda: pulses.app),
    command(
        "schedule",
        "Show an agent's routines, next occurrences and a chart of its days, in its time zone.",
        lambda: schedule.app,
    ),
    command(
        "coordination",
        "Show how an agent may be woken, with the source of each setting, or change it from the next decision on.",
        lambda: coordination.app,
    ),
    command("holds", "List the calls that are held now, longest first.", lambda: holds.app),
    group("memory", "Manage what agents remember: banks with episodes, notes and blocks.", lambda: memory.app),
    group("sleeptime", "Inspect, explain, run and undo passes over memory.", lambda: sleeptime.app),
    group("answers", "Inspect and drop ready answers: expected questions, answered ahead.", lambda: answers.app),
    command("events", "Print events, oldest first. With --follow and --json, one event per line.", lambda: events.app),
    command("usage", "Sum up the ended model calls: tokens, cost at list prices, time held.", lambda: usage.app),
    command("top", "Show agents, held calls, tokens and events live. Press q or Ctrl-C to quit.", lambda: top.app),
    group("config", "Check and show the configuration.", lambda: config.app),
    group("init", "Write configuration.", lambda: init.app),
    command(
        "doctor",
        "Check what a server on this machine needs. Each finding is ok, warn or fail, with what to do.",
        lambda: doctor.app,
    ),
    group("eval", "Measure whether sleep-time compute pays off.", lambda: evaluating.app),
    group("model", "Manage the weights of small local models.", lambda: model.app),
    group("import", "Import the configuration of another system.", lambda: import_djinnbot.app),
    group(
        "demo",
        "Run a team of five agents through one story hour, with and without sleep, and compare the cost.",
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
    """Run the command line and exit; an error is one line on standard error and an exit status."""
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
        typer.echo("error: nobody answered the question; add --yes to skip it", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader is gone; the rest of the buffer must not fail again when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _tell_usage(error: typer.TyperException) -> None:
    message = " ".join(error.format_message().split())
    context: typer.Context | None = getattr(error, "ctx", None)
    if message:  # a group without a command has printed its help instead
        help_command = f"{context.command_path} --help" if context else "circadia --help"
        typer.echo(f"error: {display_text(message.rstrip('.'))}; see `{help_command}`", err=True)


def exit_status(error: CircadiaError) -> int:
    """Return the exit status of the error's class or of its nearest base class; 1 if neither has one."""
    return next((EXIT_STATUS[kind] for kind in type(error).__mro__ if kind in EXIT_STATUS), 1)
