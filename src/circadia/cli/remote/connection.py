"""How a remote command finds the server and its token, and what it says when it does not."""

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

Url = Annotated[str, typer.Option("--url", metavar="URL", envvar="CIRCADIA_URL", help="Address of the server.")]
"""The option that names the server."""

Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        envvar=["CIRCADIA_TOKEN", "CIRCADIA_ADMIN_TOKEN"],
        show_envvar=True,
        help="Token to show; by default the one in the data folder, where the server is on this machine.",
    ),
]
"""The option that gives the token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """The server that a command talks to.

    Attributes:
        url: Its address, without a slash at the end.
        token: What the command shows there.
    """

    url: str
    token: str


def resolve_target(url: str, token: str | None, data: Path | None, environment: Mapping[str, str]) -> Target:
    """Return the server and the token that the options, the environment and the data folder give.

    The data folder's token goes to this machine only, or to where a person sends it by naming the folder in the
    command; a variable that stands in the environment is not such a word.

    Raises:
        InvalidRequest: the address is none. Unauthenticated: there is no token, or it cannot be read.
    """
    parsed = urlsplit(url)
    if parsed.scheme not in ("http", "https") or not parsed.hostname:
        raise InvalidRequest(f"{url!r} is no address of a server; write one as in {DEFAULT_URL}")
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
    """The server that a remote command asks: a command that takes one has these fields as options."""

    url: Url = DEFAULT_URL
    token: Token = None
    data: Data = None

    def ask(self, question: Callable[[Client], Awaitable[T]]) -> T:
        """Connect, put the question and return the answer.

        Raises:
            CircadiaError: there is no server or no token, or the server refuses.
        """
        where = resolve_target(self.url, self.token, self.data, os.environ)

        async def ask_client() -> T:
            async with Client(where.url, where.token) as client:
                return await question(client)

        return asyncio.run(ask_client())
