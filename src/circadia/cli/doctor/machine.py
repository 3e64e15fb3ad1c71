"""What the doctor looks at on the machine: Python, open files, the clock."""

import platform
import resource
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version

from circadia.cli.doctor.check import Check, fail, ok, warn
from circadia.clock import Clock
from circadia.errors import ConfigError
from circadia.os_user import PROGRAM_AS_SERVER, OsUser
from circadia.settings import LimitsSettings

FAST_PARTS = ("uvicorn", "uvloop", "httptools", "aiohttp", "sqlalchemy", "mcp")
SPARE_FILES = 256
"""Open files for all but held calls: the database, logs, connections to upstreams."""
FEWEST_FILES = 256
SKEW_WARN_SECONDS = 5.0
"""More than a slow answer and the whole seconds of a Date header explain."""
SKEW_FAIL_SECONDS = 300.0
"""Beyond this, days of budgets and the validity of certificates go wrong."""


def check_python() -> list[Check]:
    """Tell the versions that count."""
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
    """Compare the limit of open files with the held calls that the settings allow; each is one connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return [judge_file_limit(soft, hard, limits.max_holds)]


def judge_file_limit(soft: int, hard: int, max_holds: int) -> Check:
    """Return what limits of open files mean for so many held calls; the server raises the soft one to the hard one."""
    if hard == resource.RLIM_INFINITY:
        return ok("file limit", "no limit of open files")
    room = hard - SPARE_FILES
    told = f"{hard} open files at most (now {soft}; `circadia serve` raises it)"
    remedy = f"raise it to {max_holds + SPARE_FILES}: `ulimit -Hn`, LimitNOFILE= of systemd, or --ulimit of a container"
    if hard < FEWEST_FILES:
        return fail("file limit", told, remedy)
    if room < max_holds:
        return warn("file limit", f"{told}: room for {room} held calls, but limits.max_holds is {max_holds}", remedy)
    return ok("file limit", f"{told}, enough for limits.max_holds = {max_holds}")


def check_programs(programs: Mapping[str, str | None]) -> list[Check]:
    """Tell which programs can read what belongs to the server, and which ones it could not start as their user."""
    found: list[Check] = []
    for path, user in programs.items():
        try:
            if user is None:
                found.append(warn("programs", f"{path} runs as the server's own user", PROGRAM_AS_SERVER))
            else:
                OsUser.resolve(f"{path}.user", user)
                found.append(ok("programs", f"{path} runs as {user}"))
        except ConfigError as error:
            found.append(fail("programs", error.message, "run the doctor as the user that starts the server"))
    return found


class ClockComparison:
    """Compares the wall clock with the monotonic one over the time of the visit, and with other machines' clocks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall = clock.now()
        self._steady = clock.monotonic()
        self._skews: dict[str, float] = {}
        self._ahead_of_database: float | None = None

    def now(self) -> datetime:
        """Return the wall clock's instant."""
        return self._clock.now()

    def record_date_header(self, host: str, headers: Mapping[str, str], asked: datetime) -> None:
        """Take the Date header of an answer to a request that was sent at `asked`."""
        try:
            theirs = parsedate_to_datetime(headers.get("Date", ""))
        except ValueError:
            return
        if theirs.tzinfo is not None:
            now = self._clock.now()
            # Their whole second may be any instant of it, and the answer may have been written at any time since.
            early, late = asked - theirs - timedelta(seconds=1), now - theirs
            self._skews[host] = max(0.0, early.total_seconds()) or min(0.0, late.total_seconds())

    def record_database_time(self, theirs: datetime) -> None:
        """Take what the database's clock says now."""
        self._ahead_of_database = (self._clock.now() - theirs).total_seconds()

    def findings(self) -> list[Check]:
        """Return what the clocks say."""
        return [*self._steadiness(), *judge_skews(self._skews), *judge_database_clock(self._ahead_of_database)]

    def _steadiness(self) -> Sequence[Check]:
        steady = self._clock.monotonic() - self._steady
        drift = (self._clock.now() - self._wall).total_seconds() - steady
        if steady < 0:
            return [fail("clock", "the monotonic clock went back", "the machine is broken; move to another")]
        if abs(drift) > 1.0:
            told = f"the wall clock jumped by {drift:+.1f} s while the doctor looked"
            return [warn("clock", told, "let NTP slew the clock, not step it")]
        return []


def judge_database_clock(ahead: float | None) -> list[Check]:
    """Return what the difference to the clock of the database means, in seconds; none where there is no such clock.

    All servers of a database must have its time: one that is ahead ends others' cooldowns early and misses schedules.
    """
    if ahead is None:
        return []
    if abs(ahead) <= SKEW_WARN_SECONDS:
        return [ok("database clock", "this machine's clock agrees with it")]
    told = f"this machine's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} that of the database"
    remedy = "set the clocks of all machines by NTP (`timedatectl set-ntp true`); cooldowns and schedules go by them"
    return [(fail if abs(ahead) > SKEW_FAIL_SECONDS else warn)("database clock", told, remedy)]


def judge_skews(skews: Mapping[str, float]) -> list[Check]:
    """Return what the differences to other machines' clocks mean, in seconds; positive is fast."""
    if not skews:
        return [ok("clock", "steady; no other machine answered to compare it with")]
    host, worst = min(skews.items(), key=lambda each: abs(each[1]))  # one wrong upstream does not condemn this clock
    if abs(worst) <= SKEW_WARN_SECONDS:
        return [ok("clock", f"agrees with {host}")]
    told = f"{abs(worst):.0f} s {'fast' if worst > 0 else 'slow'} by the clock of {host}"
    remedy = "set the clock, and keep it set by NTP (`timedatectl set-ntp true`)"
    return [(fail if abs(worst) > SKEW_FAIL_SECONDS else warn)("clock", told, remedy)]
