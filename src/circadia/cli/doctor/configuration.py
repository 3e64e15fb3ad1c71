"""Checks of what a configuration names: paths and models, and the programs, folders and variables of this machine."""

import importlib.util
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from circadia.cli.doctor.machine import Check, fail, ok
from circadia.errors import ConfigError
from circadia.gateway.calls.paths import parse_rules
from circadia.gateway.wire.base import Origin
from circadia.llm.providers import cheap_model
from circadia.settings import Settings
from circadia.settings.launchers import (
    CallableLauncherSettings,
    ContainerLauncherSettings,
    LauncherSettings,
    SubprocessLauncherSettings,
    WebhookLauncherSettings,
)
from circadia.settings.sleeptime import SleepModelSettings
from circadia.wake.webhook_signatures import signing_key


def find_start_mistakes(settings: Settings) -> Iterator[str]:
    """Yield what the server would refuse at its start on any machine, although the settings are well formed."""
    for name, upstream in settings.upstreams.items():
        try:
            parse_rules(upstream.paths)
        except ConfigError as error:
            yield f"upstreams.{name}.paths: {error.message}"
        try:
            Origin.from_url(upstream.base_url)
        except ValueError as error:
            yield f"upstreams.{name}.base_url {error}"
    model = settings.sleeptime.model
    if isinstance(model, SleepModelSettings) and model.name is None:
        upstream = settings.upstreams.get(model.upstream)
        if upstream is not None and cheap_model(upstream.base_url, upstream.chat_api) is None:
            yield "sleeptime.model.name: no cheap model of this provider is known; name one, or write `model: none`"


def find_variables(settings: Settings) -> dict[str, str | None]:
    """Return the variables that hold tokens of agents, secrets of hooks and the token for metrics, by setting."""
    names = {f"agents.{name}.token_env": agent.token_env for name, agent in settings.agents.items()}
    for name, hook in settings.hooks.items():
        names |= {
            f"hooks.{name}.secret_env": hook.secret_env, f"hooks.{name}.previous_secret_env": hook.previous_secret_env,
        }  # fmt: skip
    names["fleet.alert_webhook_secret_env"] = settings.fleet.alert_webhook_secret_env
    return {**names, "server.metrics_token_env": settings.server.metrics_token_env}


def check_launchers(settings: Settings, environment: Mapping[str, str]) -> list[Check]:
    """Check variables, programs, folders and functions of the launchers, without starting anything."""
    return [
        check
        for name, launcher in settings.launchers.items()
        for check in _check_launcher(f"launcher {name}", launcher, environment)
    ]


def _check_launcher(what: str, launcher: LauncherSettings, environment: Mapping[str, str]) -> list[Check]:
    unset = [name for name in getattr(launcher, "env_from", ()) if name not in environment]
    match launcher:
        case WebhookLauncherSettings():
            secret = environment.get(launcher.secret_env)
            if not secret:
                unset.append(launcher.secret_env)
            checks = _check_secret(what, secret) if secret else []
        case SubprocessLauncherSettings():
            checks = [find_program(what, launcher.command, launcher.cwd, launcher.env, environment)]
        case ContainerLauncherSettings():
            socket = launcher.engine.removeprefix("unix://")
            missing = socket.startswith("/") and not Path(socket).exists()
            remedy = "start Docker or Podman's service, or correct `engine`"
            checks = [fail(what, f"there is no engine at {socket}", remedy)] if missing else []
        case CallableLauncherSettings():
            checks = check_module(what, launcher.function)
        case _:
            checks = []
    if unset:
        message = f"the environment has no {', '.join(unset)}"
        checks.append(fail(what, message, "export it where the server starts"))
    return checks


def _check_secret(what: str, secret: str) -> list[Check]:
    try:
        signing_key(secret)
    except ConfigError as error:
        return [fail(what, error.message, "correct the variable in secret_env")]
    return []


def check_module(what: str, place: str) -> list[Check]:
    """Check that there is a module to import `package.module:name` from; it is not imported, since it may do things."""
    module = place.partition(":")[0]
    try:
        is_there = importlib.util.find_spec(module.partition(".")[0]) is not None
    except (ImportError, ValueError):
        is_there = False
    if not is_there:
        message = f"the module {module!r} of {place!r} is not found"
        return [fail(what, message, "install it where the server runs, or put its folder on PYTHONPATH")]
    return [ok(what, f"the module {module!r} is found")]


def check_folders(settings: Settings) -> list[Check]:
    """Check the folders of dreams, and the modules of own operations."""
    checks: list[Check] = []
    for name, operation in settings.sleeptime.own_operations.items():
        checks += check_module(f"operation {name}", operation)
    for name, dream in settings.dreams.items():
        for key, folder in (("folder", dream.folder), ("transcripts", dream.transcripts)):
            if folder is not None and not Path(folder).expanduser().is_dir():
                message = f"{key} {folder!r} is no folder on this machine"
                checks.append(fail(f"dream {name}", message, "create it, or correct the path"))
    return checks


def find_program(
    what: str, command: Sequence[str], cwd: str | None, stated: Mapping[str, str], environment: Mapping[str, str]
) -> Check:
    """Return where the program is that a command would start with these variables."""
    if cwd is not None and not Path(cwd).is_dir():
        return fail(what, f"the folder {cwd!r} does not exist", "create it, or change cwd")
    program = command[0]
    path = stated.get("PATH", environment.get("PATH", os.defpath))
    executable = shutil.which(str(Path(cwd or ".") / program) if "/" in program else program, path=path)
    if executable is None:
        return fail(what, f"the program {program!r} is not found", "install it, or give its full path in command")
    return ok(what, f"starts {executable}")
