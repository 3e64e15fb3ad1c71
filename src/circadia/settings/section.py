"""The base class of all sections: no unknown keys, no change after loading."""

import logging
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, model_validator

_logger = logging.getLogger(__name__)

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


class Section(BaseModel):
    """One section of `circadia.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    withdrawn: ClassVar[frozenset[str]] = frozenset()
    """Settings of earlier releases that do nothing any more; files may still have them for a release."""

    @model_validator(mode="before")
    @classmethod
    def _read_as_written(cls, given: Any) -> Any:
        """Read `yes`, `off` and the like, which the file keeps as words, where REST takes true or false only."""
        if not isinstance(given, Mapping):
            return given
        stated = cast("Mapping[str, Any]", given)
        for name in stated.keys() & cls.withdrawn:
            _warn_once(name)
        stated = {name: value for name, value in stated.items() if name not in cls.withdrawn}
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


@lru_cache
def _warn_once(name: str) -> None:
    _logger.warning("the setting %r does nothing any more; remove it from the file", name)
