"""The base class of all sections: no unknown keys, no change after loading."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, Strict, model_validator

from circadia.records.withdrawn_setting import WithdrawnSettings

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
