"""The command `circadia`: its list of commands, and how it reports errors."""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, ClassVar

import typer

from circadia.cli.terminal.groups import LazyGroup
from circadia.cli.terminal.lazy_imports import INTERRUPTED
from circadia.cli.terminal.output import display_text, escape_unencodable
from circadia.errors import EXIT_STATUS, CircadiaError


class CommandList(LazyGroup):
    """All commands, in the order and below the headings of `circadia --help`."""

    sections: ClassVar = {
        "Start": {
            "serve": (
                "machine.serve",
                "Run the server until Ctrl-C or SIGTERM. The first start prints the operator's token once.",
            ),
            "init": (
                "machine.init",
                "Write a first configuration file, with the providers whose keys are in the environment.",
            ),
            "doctor": (
                "doctor.command",
                "Check what a server on this machine needs. Each finding is ok, warn or fail, with what to do.",
            ),
            "demo": (
                "demo",
                "Run a team of five agents through one story hour, with and without sleep, and compare the cost.",
            ),
        },
        "Agents": {
            "agents": ("agents.agents", "List the agents of a session with their state."),
            "sessions": ("agents.sessions", "List the sessions: groups of agents with their threads."),
            "tokens": ("agents.tokens", "List the tokens of people: operators and viewers."),
            "sleep": ("agents.sleep", "Put agents to sleep. Their next calls are held until they wake."),
            "wake": ("agents.sleep", "Wake agents. Held calls continue in order; launchers start a pulse."),
        },
        "Waking": {
            "send": (
                "waking.inbox",
                "Send a message to an agent's inbox. With --wake, also request to wake the agent.",
            ),
            "inbox": (
                "waking.inbox",
                "List the messages in an agent's inbox and count them by state. "
                "The operator's token marks none as seen.",
            ),
            "messages": (
                "waking.messages",
                "List messages that nobody has handled, in all inboxes; dead letters by default.",
            ),
            "hooks": (
                "waking.hooks",
                "List the inbound webhooks: who signs them, and which agent gets their messages.",
            ),
            "wakes": ("waking.wakes", "List wake requests with their decision and its reason, newest first."),
            "approvals": ("waking.approvals", "List the calls that wait for a person's approval, newest first."),
            "alarms": ("waking.alarms", "List the alarms and routines that agents set for themselves."),
            "pulses": ("waking.pulses", "List the pulses of an agent, or of all agents in a session, newest first."),
        },
        "Memory": {
            "banks": ("memory.banks", "List memory banks by name, with their size and policy."),
            "episodes": ("memory.episodes", "List the episodes of a bank, newest first."),
            "blocks": (
                "memory.blocks",
                "List the blocks of a bank: what its agents have learned and see in their context.",
            ),
        },
        "Sleep-time": {
            "passes": ("sleeptime.passes", "List the passes over a bank, newest first."),
            "answers": ("answers", "List the ready answers of a bank: expected questions, answered ahead."),
            "dream": (
                "machine.dream",
                "Consolidate a coding agent's Markdown memory from its sessions. The first dream of a folder proposes.",
            ),
        },
        "Watch": {
            "ui": ("monitoring.servers", "Open the dashboard in a browser, signed in."),
            "top": ("monitoring.top", "Show agents, held calls, tokens and events live. Press q or Ctrl-C to quit."),
            "holds": ("monitoring.holds", "List the calls that are held now, longest first."),
            "cluster": ("monitoring.servers", "List the live servers that share a PostgreSQL database, oldest first."),
            "events": (
                "monitoring.events",
                "Print events, oldest first. With --follow and --json, one event per line.",
            ),
            "calls": ("monitoring.calls", "List model calls, newest first: tokens, cost, time held, why they stopped."),
            "usage": ("monitoring.usage", "Sum up the ended model calls: tokens, cost at list prices, time held."),
            "savings": ("monitoring.usage", "Estimate what sleeping and dreaming saved, by day."),
        },
        "Machine": {
            "config": ("doctor.config", "Check and show the configuration."),
            "model": ("machine.model", "Manage the weights of small local models."),
            "migrate": (
                "machine.database",
                "Migrate the database to the schema of this version, and list the migrations that ran.",
            ),
            "backup": ("machine.database", "Copy the SQLite database into a file, while the server may run and write."),
            "restore": (
                "machine.database",
                "Put a file in the place of the SQLite database of a stopped server, and keep the replaced database.",
            ),
            "export": (
                "machine.database",
                "Write the whole database, SQLite or PostgreSQL, into a file for `circadia import` or "
                "`circadia restore`.",
            ),
            "import": (
                "machine.import_command",
                "Read a backup or an export into an empty PostgreSQL database; or import another system's "
                "configuration.",
            ),
            "eval": ("eval", "Measure whether sleep-time compute pays off."),
        },
    }


app = typer.Typer(name="circadia", cls=CommandList, no_args_is_help=True, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("circadia"))
        raise typer.Exit


@app.callback(epilog="Example: circadia serve, and in another terminal: circadia agents add helper")
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
