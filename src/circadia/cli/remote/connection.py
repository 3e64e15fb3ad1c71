"""How a remote command finds the server and its token."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TypeVar
from urllib.parse import urlsplit

import typer

from circadia.cli.remote.folder import DATA_VARIABLE, Data, data_folder
from circadia.client import Client
from circadia.errors import InvalidRequest, Unauthenticated

DEFAULT_URL: Final = "http://127.0.0.1:4114"
TOKEN_FILE: Final = "admin.token"
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})

T = TypeVar("T")

Url = Annotated[str, typer.Option("--url", metavar="URL", envvar="CIRCADIA_URL", help="Server address.")]

Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        envvar=["CIRCADIA_TOKEN", "CIRCADIA_ADMIN_TOKEN"],
        show_envvar=True,
        help="Access token; defaults to the one in the data folder if the server runs on this machine.",
    ),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A server's address, without a trailing slash, and an access token."""

    url: str
    token: str


def resolve_target(url: str, token: str | None, data: Path | None, environment: Mapping[str, str]) -> Target:
    """Return the server and the token from the options, the environment and the data folder.

    The data folder's token is sent to another machine only if the command names the folder; the environment
    variable is not enough.

    Raises:
        InvalidRequest: the address is malformed. Unauthenticated: there is no token, or it cannot be read.
    """
    parsed = urlsplit(url)
    if parsed.scheme not in ("http", "https") or not parsed.hostname:
        raise InvalidRequest(f"{url!r} is no server address; write one such as {DEFAULT_URL}")
    url = url.rstrip("/")
    if token:
        return Target(url=url, token=token.strip())
    named = data is not None and str(data) != environment.get(DATA_VARIABLE)
    if parsed.hostname not in _LOOPBACK and not named:
        raise Unauthenticated(f"no token for {url}; give it with --token or CIRCADIA_TOKEN")
    file = data_folder(data, environment) / TOKEN_FILE
    try:
        return Target(url=url, token=file.read_text("ascii").strip())
    except FileNotFoundError:
        raise Unauthenticated(
            f"no token: {str(file)!r} does not exist; start a server on this machine with `circadia serve`, name its "
            "data folder with --data, or give a token with --token or CIRCADIA_TOKEN"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise Unauthenticated(f"no token: {str(file)!r} cannot be read ({error}); give one with --token") from error


@dataclass(frozen=True, slots=True)
class RemoteServer:
    """The server of a remote command; these fields become options of each command that takes one."""

    url: Url = DEFAULT_URL
    token: Token = None
    data: Data = None

    def ask(self, question: Callable[[Client], Awaitable[T]]) -> T:
        """Run `question` with a connected client. Raises CircadiaError without a server or token, or on refusal."""
        where = resolve_target(self.url, self.token, self.data, os.environ)

        async def ask_client() -> T:
            async with Client(where.url, where.token) as client:
                return await question(client)

        return asyncio.run(ask_client())
