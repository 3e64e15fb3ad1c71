"""The environment of a launched agent: variables of settings and pulse, never the server's own."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from circadia.errors import ConfigError
from circadia.wake.launchers.base import Launch, LaunchFailed

PULSE: Final = "CIRCADIA_PULSE"
"""Variable with the pulse's id; processes are found by it."""
EPOCH: Final = "CIRCADIA_EPOCH"
_INHERITED: Final = ("PATH", "HOME", "LANG")
_DEFAULT: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/", "LANG": "C.UTF-8"}


def named_environment(
    where: str, own: Mapping[str, str], given: Mapping[str, str], taken: Sequence[str], kept_back: Collection[str] = ()
) -> dict[str, str]:
    """Return `given` and the variables of `own` that `taken` names.

    `where` is the settings path for messages; `kept_back` names variables that no agent may get: the providers' keys,
    the database's address, the operator's token.

    Raises:
        ConfigError: a variable is not set, or is kept back.
    """
    for name in (*given, *taken):
        if name in kept_back:
            raise ConfigError(f"{where}: {name!r} is a secret of this server, which no agent may get; remove it")
    for name in taken:
        if name not in own:
            raise ConfigError(f"{where}.env_from: the environment variable {name!r} is not set; set it or remove it")
    return {**{name: own[name] for name in taken}, **given}


def program_environment(own: Mapping[str, str], named: Mapping[str, str]) -> dict[str, str]:
    """Return the server's PATH, HOME and LANG, overridden by the settings' variables."""
    return {**{name: own.get(name) or _DEFAULT[name] for name in _INHERITED}, **named}


def pulse_environment(basis: Mapping[str, str], launch: Launch) -> dict[str, str]:
    """Return the environment of one start; pulse variables win. Raises LaunchFailed for a bad name or value."""
    whole = {**basis, **launch.environment, PULSE: launch.pulse_id, EPOCH: str(launch.epoch)}
    for name, value in whole.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise LaunchFailed(f"the environment variable {name!r} has a name or value that no program can receive")
    return whole


def prompt_bytes(launch: Launch) -> bytes:
    """Return the encoded prompt. Raises LaunchFailed for a NUL or half a character: some launchers would cut it."""
    if "\0" in launch.prompt:
        raise LaunchFailed("the prompt holds a NUL character; send the message again without it")
    try:
        return launch.prompt.encode()
    except UnicodeEncodeError as error:
        raise LaunchFailed(f"the prompt is not Unicode text ({error.reason}); send the message again") from error
