"""One check of the doctor, with its state and remedy."""

from dataclasses import dataclass
from enum import StrEnum


class CheckState(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One finding.

    Attributes:
        state: `fail` keeps the server from starting or working.
        remedy: Empty if there is nothing to do.
    """

    name: str
    state: CheckState
    message: str
    remedy: str = ""


def ok(name: str, message: str) -> Check:
    return Check(name=name, state=CheckState.OK, message=message)


def warn(name: str, message: str, remedy: str) -> Check:
    return Check(name=name, state=CheckState.WARN, message=message, remedy=remedy)


def fail(name: str, message: str, remedy: str) -> Check:
    return Check(name=name, state=CheckState.FAIL, message=message, remedy=remedy)
