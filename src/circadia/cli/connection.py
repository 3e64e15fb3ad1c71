"""The data folder, the server of a remote command and its token, and lists that come page by page."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import urlsplit

import typer

from circadia.client import Client
from circadia.errors import ConfigError, InvalidRequest, Unauthenticated
from circadia.schemas.view import View

DEFAULT_URL: Final = "http://127.0.0.1:4114"
TOKEN_FILE: Final = "admin.token"
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})

DATA_VARIABLE: Final = "CIRCADIA_DATA"
PAGE_ROWS: Final = 1000
ALL_ROWS: Final = 10_000_000
"""Limit of a list that is needed whole."""

T = TypeVar("T")
Page = TypeVar("Page", bound=View)

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
Data = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", envvar=DATA_VARIABLE, help="Data folder; defaults to `~/.local/share/circadia`."
    ),
]


def data_folder(given: Path | None, environment: Mapping[str, str]) -> Path:
    """Return the given folder, or the user's default one (XDG Base Directory Specification 0.8).

    Raises:
        ConfigError: the folder is below the home folder and there is none, as in some containers.
    """
    home = environment.get("XDG_DATA_HOME", "")
    base = Path(home) if home.startswith("/") else Path("~", ".local", "share")
    folder = base / "circadia" if given is None else given
    try:
        return folder.expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"there is no home folder for {str(folder)!r}; name another data folder with --data or {DATA_VARIABLE}"
        ) from error


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
            async with Client(where.url, where.token, max_retries=0) as client:
                return await question(client)

        return asyncio.run(ask_client())

    def list_pages(
        self,
        fetch: Callable[[Client, str | None, int], Awaitable[Page]],
        key: str,
        *,
        limit: int,
        cursor: str = "before",
    ) -> Page:
        """Return up to `limit` entries, as `gather_pages` does. Raises CircadiaError as `ask` does."""
        return self.ask(
            lambda client: gather_pages(
                lambda place, count: fetch(client, place, count), key=key, limit=limit, cursor=cursor
            )
        )


async def gather_pages(
    page: Callable[[str | None, int], Awaitable[Page]], *, key: str, limit: int, cursor: str = "before"
) -> Page:
    """Return the last page's answer with up to `limit` entries of all pages under `key`.

    `page` takes a cursor and a maximum number of entries.
    """
    entries: list[Any] = []
    place: str | None = None
    while True:
        answer = await page(place, min(PAGE_ROWS, limit - len(entries)))
        entries += getattr(answer, key)
        place = getattr(answer, cursor)
        if place is None or len(entries) >= limit:
            return answer.model_copy(update={key: entries})
