"""Circadia's YAML dialect, for files and command arguments."""

from typing import ClassVar

import yaml

_TRUTH = "tag:yaml.org,2002:bool"


class _Loader(yaml.SafeLoader):
    """The safe loader, with `true` and `false` as the only booleans.

    YAML 1.1 also takes `off`, `on`, `yes` and `no`; since 1.2 they are words, and `off` is a value of settings.
    """

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TRUTH or first in "tTfF"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def parse_yaml(text: str) -> object:
    """Parse YAML or JSON.

    Raises:
        ValueError: the text is not YAML, or holds an impossible date such as 2026-02-30; the message is one line.
    """
    try:
        return yaml.load(text, _Loader)  # noqa: S506 a safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise ValueError(f"{where}{error.problem}") from error
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
