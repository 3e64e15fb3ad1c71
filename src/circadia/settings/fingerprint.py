"""Tells whether two processes run the same configuration."""

import hashlib
import json
import re
from typing import Any, Final, cast

from circadia.settings.root import Settings

_OWN: Final = frozenset({"host", "port", "database_url", "direct_database_url"})
"""Keys of `server` that may differ from process to process."""
_PASSWORD: Final = re.compile(r"//[^/@]*@")


def fingerprint(settings: Settings) -> str:
    """Return eight digits that change with the configuration; values of `env` and passwords in URLs do not count."""
    document = settings.model_dump(mode="json", exclude_defaults=True)  # a new release may add keys
    server = {key: value for key, value in document.pop("server", {}).items() if key not in _OWN}
    return hashlib.sha256(json.dumps([server, _hide_secrets(document)], sort_keys=True).encode()).hexdigest()[:8]


def _hide_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        section = cast("dict[str, Any]", value)
        return {key: sorted(each) if key == "env" else _hide_secrets(each) for key, each in section.items()}
    if isinstance(value, list):
        return [_hide_secrets(each) for each in cast("list[Any]", value)]
    return _PASSWORD.sub("//", value) if isinstance(value, str) else value
