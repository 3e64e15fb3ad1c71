"""`circadia init`: the first configuration, and that of a pair of agents of which one writes the memory."""

import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer
import yaml

from circadia.cli.machine.serve import DEFAULT_CONFIG, config_file, read_config
from circadia.cli.terminal.output import Output, note
from circadia.errors import Conflict, InvalidRequest
from circadia.settings import Settings, load_settings
from circadia.settings.load import parse_yaml, settings_from
from circadia.settings.upstreams import Api

app = typer.Typer()

SUFFIX: Final = "-sleeptime"
BEFORE: Final = ".before"
"""Suffix of the copy of a file that is rewritten."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownProvider:
    """A provider of models, by the address and the variable of its own documentation."""

    base_url: str
    key_env: str | None
    """None: it takes no key."""
    api: Api = "openai"


PROVIDERS: Final[Mapping[str, KnownProvider]] = {
    "openai": KnownProvider(base_url="https://api.openai.com/v1", key_env="OPENAI_API_KEY"),
    "anthropic": KnownProvider(base_url="https://api.anthropic.com", key_env="ANTHROPIC_API_KEY", api="anthropic"),
    "gemini": KnownProvider(
        base_url="https://generativelanguage.googleapis.com", key_env="GEMINI_API_KEY", api="gemini"
    ),
    "openrouter": KnownProvider(base_url="https://openrouter.ai/api/v1", key_env="OPENROUTER_API_KEY"),
    "mistral": KnownProvider(base_url="https://api.mistral.ai/v1", key_env="MISTRAL_API_KEY"),
    "groq": KnownProvider(base_url="https://api.groq.com/openai/v1", key_env="GROQ_API_KEY"),
    "deepseek": KnownProvider(base_url="https://api.deepseek.com/v1", key_env="DEEPSEEK_API_KEY"),
    "xai": KnownProvider(base_url="https://api.x.ai/v1", key_env="XAI_API_KEY"),
    "together": KnownProvider(base_url="https://api.together.xyz/v1", key_env="TOGETHER_API_KEY"),
    "fireworks": KnownProvider(base_url="https://api.fireworks.ai/inference/v1", key_env="FIREWORKS_API_KEY"),
    "cerebras": KnownProvider(base_url="https://api.cerebras.ai/v1", key_env="CEREBRAS_API_KEY"),
    "ollama": KnownProvider(base_url="http://127.0.0.1:11434/v1", key_env=None),
}  # fmt: skip

_HEAD: Final = """\
# Circadia's configuration. `circadia config check` checks it; `circadia serve` reads it, also when it changes.

upstreams:                # Providers of models, each at http://127.0.0.1:4114/llm/NAME.
"""
_TAIL: Final = """
# agents:                 # `circadia agents add helper` adds one without this file.
#   helper:
#     bank: support       # Memory: the agent's talks are remembered, and its prompts get what matches.
#     coordination:
#       wake_guardrails: {max_wakes_per_day: 12}

# sleeptime:              # Passes over the memory while nobody waits, on a cheap model, under a budget.
#   model: {upstream: %s, name: MODEL}
#   fleet_budget: {per_day: {usd: 5}}
"""


@app.callback(
    invoke_without_command=True,
    epilog="Example: circadia init --upstream openai --upstream local=http://127.0.0.1:8000/v1",
)
def init(
    context: typer.Context,
    upstream: Annotated[
        list[str] | None,
        typer.Option(
            "--upstream",
            metavar="NAME",
            help="Provider to name in the file, or NAME=URL for any server that speaks OpenAI's API; repeatable. "
            "Defaults to those whose keys are in the environment.",
        ),
    ] = None,
    file: Annotated[Path, typer.Option("--config", metavar="FILE", help="File to write.")] = DEFAULT_CONFIG,
) -> None:
    """Write a first configuration file, with the providers whose keys are in the environment."""
    if context.invoked_subcommand is not None:
        return
    if file.exists():
        raise Conflict(f"{str(file)!r} already exists; edit it, or name another file with --config")
    found = [name for name, each in PROVIDERS.items() if each.key_env is not None and os.environ.get(each.key_env)]
    names = upstream or found or _ask_for_provider()
    chosen = dict(_parse_provider(name, os.environ) for name in names)
    text = _build_config(chosen, os.environ)
    settings_from(cast("dict[str, Any]", parse_yaml(text)))  # raises unless the result is valid
    try:
        file.write_text(text, "utf-8")
    except OSError as error:
        raise InvalidRequest(f"cannot write {str(file)!r}: {error}") from error
    note(f"wrote {file} with {', '.join(chosen)}")
    option = "" if file == DEFAULT_CONFIG else f" --config {file}"
    unset = [f"{each.key_env}=…" for each in chosen.values() if each.key_env and not os.environ.get(each.key_env)]
    steps = [f"export {' '.join(unset)}"] if unset else []
    for step in (*steps, f"circadia doctor{option}", f"circadia serve{option}", "circadia agents add helper"):
        note(f"  {step}")


def _ask_for_provider() -> list[str]:
    if not sys.stdin.isatty():
        known = ", ".join(PROVIDERS)
        raise InvalidRequest(f"no provider's key is in the environment; name a provider with --upstream: {known}")
    return [typer.prompt(f"Provider ({', '.join(PROVIDERS)})", default="openai", err=True)]


def _parse_provider(text: str, environment: Collection[str]) -> tuple[str, KnownProvider]:
    """Return the name and provider of NAME, or of NAME=URL for any other server that speaks OpenAI's API.

    Raises InvalidRequest: the name is not known, and there is no URL.
    """
    name, _, url = text.partition("=")
    if url:
        variable = f"{name.upper().replace('-', '_')}_API_KEY"
        return name, KnownProvider(base_url=url, key_env=variable if variable in environment else None)
    if name not in PROVIDERS:
        raise InvalidRequest(f"no provider {name!r}; name one of {', '.join(PROVIDERS)}, or give its address: NAME=URL")
    return name, PROVIDERS[name]


def _build_config(chosen: Mapping[str, KnownProvider], environment: Collection[str]) -> str:
    lines: list[str] = []
    for name, each in chosen.items():
        lines += [f"  {name}:", f"    base_url: {each.base_url}"]
        if each.api != "openai":
            lines.append(f"    api: {each.api}")
        if each.key_env is not None:
            hint = "" if each.key_env in environment else "    # Set this variable before you start the server."
            lines.append(f"    key_env: {each.key_env}{hint}")
    return "\n".join([_HEAD.rstrip("\n"), *lines, _TAIL % next(iter(chosen))])


@app.command(epilog="Example: circadia init sleeptime --agent writer --upstream openai --model gpt-5-mini")
def sleeptime(
    agent: Annotated[str, typer.Option("--agent", metavar="AGENT", help="Agent that talks to people.")],
    bank: Annotated[
        str | None, typer.Option("--bank", metavar="BANK", help="Their bank; defaults to the file's or AGENT-memory.")
    ] = None,
    upstream: Annotated[
        str | None, typer.Option("--upstream", metavar="NAME", help="Limit the sleep-time agent to this provider.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Limit the sleep-time agent to this model.")
    ] = None,
    turns: Annotated[
        int, typer.Option("--turns", min=1, max=10_000, metavar="N", help="Completed turns before a memory pass.")
    ] = 5,
    write: Annotated[bool, typer.Option("--write", help="Write the file instead of printing the changes.")] = False,
    file: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Configuration; defaults to `circadia.yaml`.")
    ] = None,
) -> Output:
    """Add a sleep-time agent, which alone may write an agent's memory blocks and works while nobody waits.

    The first agent talks to the person and cannot edit blocks. The sleep-time agent sleeps until a pass has ended,
    and ends its work with memory_finish_edits.
    """
    path = config_file(file)
    settings = load_settings(path)
    known = bank or (settings.agents[agent].bank if agent in settings.agents else None)
    bank = known or f"{agent}-memory"
    added = two_agents(settings, agent, bank, upstream=upstream, model=model, turns=turns)
    whole = merge_config(read_config(path), added)
    settings_from(whole)  # raises unless the result is valid
    if write:
        _write(path or Path("circadia.yaml"), whole)

    def show(_: object) -> None:
        if not write:
            typer.echo(_yaml(added), nl=False)
            note("put this into circadia.yaml, or add --write")
        guessed = "" if known else f"; if {agent} is bound to another one already, name that with --bank"
        note(f"the bank of both is {bank!r}{guessed}")
        note(f"then restart the server; `circadia agents token {agent}{SUFFIX}` prints the sleep-time agent's token")

    return Output(added, show)


def two_agents(
    settings: Settings, agent: str, bank: str, *, upstream: str | None, model: str | None, turns: int
) -> dict[str, Any]:
    """Return the settings to add to the configuration.

    Raises:
        InvalidRequest: there is no such upstream.
        Conflict: the bank lets all its agents write blocks, or has another sleep-time agent.
    """
    if upstream is not None and upstream not in settings.upstreams:
        known = ", ".join(settings.upstreams) or "none"
        raise InvalidRequest(f"the configuration has no upstream {upstream!r}; it has: {known}")
    other = f"{agent}{SUFFIX}"
    stated = settings.banks.get(bank)
    if stated is not None and stated.hot_edits:
        raise Conflict(f"bank {bank!r} has hot_edits, so all its agents may write blocks; remove that setting first")
    if stated is not None and stated.sleeptime.agent not in (None, other):
        raise Conflict(f"bank {bank!r} already has the sleep-time agent {stated.sleeptime.agent!r}")
    second: dict[str, Any] = {
        "description": f"writes what {agent} has learned into its memory blocks while nobody waits",
        "bank": bank,
        "sleeptime_agent": True,
        "capture": False,
        "sleep_events": ["agent_started"],
    }
    if upstream is not None:
        second["upstreams"] = [upstream]
    if model is not None:
        second["models"] = [model]
    passes = {"agent": other, "frequency_turns": turns, "operations": {"rethink": {"enabled": False}}}
    return {"banks": {bank: {"sleeptime": passes}}, "agents": {agent: {"bank": bank}, other: second}}


def merge_config(before: Mapping[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(before)
    for name, value in added.items():
        existing = merged.get(name)
        inner = isinstance(value, Mapping) and isinstance(existing, Mapping)
        merged[name] = (
            merge_config(cast("Mapping[str, Any]", existing), cast("Mapping[str, Any]", value)) if inner else value
        )
    return merged


def _write(path: Path, whole: Mapping[str, Any]) -> None:
    """Write the file; keep the old one beside it, because its comments are lost."""
    copy = path.with_name(path.name + BEFORE)
    try:
        if path.exists():
            if copy.exists():
                raise Conflict(f"{str(copy)!r} already exists; move it away first")
            copy.write_bytes(path.read_bytes())
            note(f"rewrote {path} without its comments; the old file is {copy}")
        else:
            note(f"wrote {path}")
        path.write_text(_yaml(whole), "utf-8")
    except OSError as error:
        raise InvalidRequest(f"cannot write {str(path)!r}: {error}") from error


def _yaml(document: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True)
