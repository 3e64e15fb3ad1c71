"""One check of the doctor: what was looked at, how it is, what to do."""

from dataclasses import dataclass
from enum import StrEnum


class CheckState(StrEnum):
    """How it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One finding.

    Attributes:
        name: What was looked at.
        state: How it is; `fail` keeps the server from starting or from its work.
        message: What was found.
        remedy: What to do; empty if nothing.
    """

    name: str
    state: CheckState
    message: str
    remedy: str = ""


def ok(name: str, message: str) -> Check:
    """Return a good finding."""
    return Check(name=name, state=CheckState.OK, message=message)


def warn(name: str, message: str, remedy: str) -> Check:
    """Return a finding that a person should know."""
    return Check(name=name, state=CheckState.WARN, message=message, remedy=remedy)


def fail(name: str, message: str, remedy: str) -> Check:
    """Return a finding that must be put right."""
    return Check(name=name, state=CheckState.FAIL, message=message, remedy=remedy)
