"""The base class of all sections: no unknown keys, no change after loading."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, Strict, model_validator

from circadia.records.withdrawn_setting import WithdrawnSettings

HIDDEN: Final = "(hidden)"
_CALL: Final = re.compile(r"/(chat/completions|completions|responses|messages|embeddings)/?$")
_CREDENTIALS: Final = re.compile(r"//[^/@\s]*@")

OsUserName = Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_.-]*|\d+:\d+)$")]
"""An operating-system user: a name, or `uid:gid`."""
USER_DESCRIPTION: Final = (
    "User that runs the program: a name or `uid:gid`; needs a server run by root. By default the server's user, "
    "who can read its files."
)


def require_redis_url(url: str) -> str:
    """Return the URL. Raises ValueError, which does not show it, since it may hold a password."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("redis", "rediss") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ValueError("this is no URL of a Redis server; write redis://host:6379/0, or rediss:// for TLS")
    return url


RedisUrl = Annotated[str, AfterValidator(require_redis_url)]

_LONG: Final = re.compile(r"[\w+/=-]{16,}")


def _hide_secrets(text: str) -> str:
    """Return the text without letters with digits that are too long for a word: perhaps a misplaced key."""

    def hide(match: re.Match[str]) -> str:
        kinds = {letter.isdigit() for letter in match[0] if letter.isalnum()}
        return HIDDEN if len(kinds) == 2 else match[0]

    return _LONG.sub(hide, text)


def show_value(value: object) -> str:
    """Return a value for a message, without what may be a secret in it."""
    return _hide_secrets(_CREDENTIALS.sub(f"//{HIDDEN}@", repr(value)))


def hide_url_secrets(url: str) -> str:
    """Return a URL without its password, its query, and parts of its path that may be a secret."""
    scheme, separator, rest = url.partition("://")
    place, question, _ = rest.partition("?")
    authority, slash, path = place.partition("/")
    user, at, host = authority.rpartition("@")
    name, colon, _ = _hide_secrets(user).partition(":")
    password = f"{colon}{HIDDEN}" if colon else ""
    query = f"?{HIDDEN}" if question else ""
    parts = "/".join(_hide_secrets(part) for part in path.split("/"))
    return f"{scheme}{separator}{name}{password}{at}{host}{slash}{parts}{query}"


def require_api_root(url: str) -> str:
    """Return the URL without a slash at its end. Raises ValueError for one that names a single call of an API."""
    url = url.rstrip("/")
    if call := _CALL.search(url):
        raise ValueError(f"leave out {call[0]!r}: clients add it to the address")
    return url


_WORDS: Final = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}


class Section(WithdrawnSettings):
    """One section of `circadia.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _read_words_as_booleans(cls, given: Any) -> Any:
        """Read `yes`, `off` and the like, which the file keeps as words, where REST takes true or false only."""
        if not isinstance(given, Mapping):
            return given
        stated = cast("Mapping[str, Any]", given)
        words = {
            name: _WORDS[value.lower()]
            for name, value in stated.items()
            if isinstance(value, str)
            and value.lower() in _WORDS
            and name in cls.model_fields
            and cls.model_fields[name].annotation is bool
            and any(isinstance(metadata, Strict) for metadata in cls.model_fields[name].metadata)
        }
        return {**stated, **words}
