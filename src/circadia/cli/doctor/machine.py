"""A check of the doctor with its state and remedy, and the checks of the machine: Python, files, programs, clocks."""

import platform
import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version

from circadia.child_process import PROGRAM_AS_SERVER, OsUser
from circadia.clock import Clock
from circadia.errors import ConfigError
from circadia.gateway.hold.places import FILES_RESERVE, holds_within
from circadia.settings import LimitsSettings

FAST_PARTS = ("uvicorn", "uvloop", "httptools", "aiohttp", "sqlalchemy", "mcp")
MIN_FILES = 256
SKEW_WARN_SECONDS = 5.0
"""More than a slow answer and the whole seconds of a Date header can explain."""
SKEW_FAIL_SECONDS = 300.0
"""Beyond this, daily budgets and certificate checks go wrong."""


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


def check_python() -> list[Check]:
    """Report the versions of Python and of the packages that matter, and any missing package."""
    parts: list[str] = []
    missing: list[str] = []
    for name in FAST_PARTS:
        try:
            parts.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        return [fail("python", f"packages are missing: {', '.join(missing)}", "install circadia again with pip")]
    own = f"circadia {version('circadia')}, Python {platform.python_version()}"
    return [ok("python", f"{own}, {', '.join(parts)}")]


def check_file_limit(limits: LimitsSettings) -> list[Check]:
    """Compare the limit of open files with the allowed held calls, each of which needs two."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return [judge_file_limit(soft, hard, limits.max_holds)]


def judge_file_limit(soft: int, hard: int, max_holds: int) -> Check:
    """Judge the limits of open files; the server raises the soft limit to the hard one."""
    if hard == resource.RLIM_INFINITY:
        return ok("file limit", "no limit of open files")
    room, needed = holds_within(hard), 2 * max_holds + FILES_RESERVE
    message = f"at most {hard} open files (now {soft}; `circadia serve` raises it)"
    remedy = f"raise it to {needed}: `ulimit -Hn`, LimitNOFILE= of systemd, or --ulimit of a container"
    if hard < MIN_FILES:
        return fail("file limit", message, remedy)
    if room < max_holds:
        return warn("file limit", f"{message}: room for {room} held calls, but limits.max_holds is {max_holds}", remedy)
    return ok("file limit", f"{message}, enough for limits.max_holds = {max_holds}")


def check_programs(programs: Mapping[str, str | None]) -> list[Check]:
    """Report programs that can read the server's files, and programs that cannot be started as their user."""
    checks: list[Check] = []
    for path, user in programs.items():
        try:
            if user is None:
                checks.append(warn("programs", f"{path} runs as the server's own user", PROGRAM_AS_SERVER))
            else:
                OsUser.resolve(f"{path}.user", user)
                checks.append(ok("programs", f"{path} runs as {user}"))
        except ConfigError as error:
            checks.append(fail("programs", error.message, "run the doctor as the user that starts the server"))
    return checks


class ClockComparison:
    """Compares the wall clock with the monotonic clock during the checks, and with other machines' clocks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall = clock.now()
        self._steady = clock.monotonic()
        self._skews: dict[str, float] = {}
        self._ahead_of_database: float | None = None

    def now(self) -> datetime:
        return self._clock.now()

    def record_date_header(self, host: str, headers: Mapping[str, str], asked: datetime) -> None:
        """Record the Date header of the answer to a request sent at `asked`."""
        try:
            theirs = parsedate_to_datetime(headers.get("Date", ""))
        except ValueError:
            return
        if theirs.tzinfo is not None:
            now = self._clock.now()
            # The header has whole seconds, and the answer may have been written at any time since `asked`.
            early, late = asked - theirs - timedelta(seconds=1), now - theirs
            self._skews[host] = max(0.0, early.total_seconds()) or min(0.0, late.total_seconds())

    def record_database_time(self, theirs: datetime) -> None:
        self._ahead_of_database = (self._clock.now() - theirs).total_seconds()

    def findings(self) -> list[Check]:
        return [*self._steadiness(), *judge_skews(self._skews), *judge_database_clock(self._ahead_of_database)]

    def _steadiness(self) -> Sequence[Check]:
        steady = self._clock.monotonic() - self._steady
        drift = (self._clock.now() - self._wall).total_seconds() - steady
        if steady < 0:
            return [fail("clock", "the monotonic clock went back", "the machine is broken; move to another")]
        if abs(drift) > 1.0:
            message = f"the wall clock jumped by {drift:+.1f} s during the checks"
            return [warn("clock", message, "let NTP slew the clock, not step it")]
        return []


def judge_database_clock(ahead: float | None) -> list[Check]:
    """Judge by how many seconds this clock is ahead of the database's; None if the database has no clock.

    All servers must agree with it: a server that is ahead ends cooldowns of others early and misses schedules.
    """
    if ahead is None:
        return []
    if abs(ahead) <= SKEW_WARN_SECONDS:
        return [ok("database clock", "this machine's clock agrees with it")]
    message = f"this machine's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} that of the database"
    remedy = "set all clocks by NTP (`timedatectl set-ntp true`); cooldowns and schedules depend on them"
    return [(fail if abs(ahead) > SKEW_FAIL_SECONDS else warn)("database clock", message, remedy)]


def judge_skews(skews: Mapping[str, float]) -> list[Check]:
    """Judge the differences to other machines' clocks, in seconds; positive means that this clock is fast."""
    if not skews:
        return [ok("clock", "steady; no other machine answered to compare it with")]
    host, worst = min(skews.items(), key=lambda skew: abs(skew[1]))  # one wrong upstream does not condemn this clock
    if abs(worst) <= SKEW_WARN_SECONDS:
        return [ok("clock", f"agrees with {host}")]
    message = f"{abs(worst):.0f} s {'fast' if worst > 0 else 'slow'} by the clock of {host}"
    remedy = "set the clock, and keep it set by NTP (`timedatectl set-ntp true`)"
    return [(fail if abs(worst) > SKEW_FAIL_SECONDS else warn)("clock", message, remedy)]
