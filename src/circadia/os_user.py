"""Operating-system users: protect the server's memory, and run programs as another user.

A program that the server starts must not see the server's secrets. As the server's own user it can still read the
server's files (`admin.token`, the database); as another user it can read neither files nor processes.
"""

import ctypes
import os
import pwd
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from circadia.errors import ConfigError

PROGRAM_AS_SERVER: Final = (
    "it can read the operator's token and the database; give it a `user` of its own, or use the launcher `container`"
)
"""Warning about a program that runs as the server's own user."""
_PR_SET_DUMPABLE: Final = 4
"""From linux/prctl.h."""


def forbid_inspection() -> None:
    """Deny other processes of the same user `/proc/PID/environ`, the memory and a debugger; root keeps access.

    Linux only. It also turns off core dumps, which would hold the providers' keys.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class OsUser:
    """The user that a program runs as."""

    setpriv: str
    """Path of the program that changes the user; part of util-linux."""
    uid: int
    gid: int
    home: str = "/"
    in_groups: bool = False
    """Whether the program also gets this user's supplementary groups."""

    @classmethod
    def resolve(cls, where: str, user: str) -> "OsUser":
        """Look up a user by name or by `uid:gid`; `where` is the setting's path, for messages.

        Raises:
            ConfigError: there is no such user, or this server cannot run programs as another one.
        """
        setpriv = shutil.which("setpriv")
        if os.geteuid() != 0 or setpriv is None:
            raise ConfigError(
                f"{where}: only a server that runs as root on Linux, with setpriv (util-linux) installed, can run "
                f"programs as {user!r}; start it so, take `user` out, or use the launcher `container`"
            )
        if ":" in user:
            uid, gid = user.split(":")
            return cls(setpriv=setpriv, uid=int(uid), gid=int(gid))
        try:
            entry = pwd.getpwnam(user)
        except KeyError:
            message = f"{where}: there is no user {user!r} on this machine; create it, or give uid:gid"
            raise ConfigError(message) from None
        return cls(setpriv=setpriv, uid=entry.pw_uid, gid=entry.pw_gid, home=entry.pw_dir, in_groups=True)

    def command(self, command: Sequence[str]) -> tuple[str, ...]:
        """Return the command line that runs `command` as this user, in the same process."""
        groups = "--init-groups" if self.in_groups else "--clear-groups"
        return (self.setpriv, f"--reuid={self.uid}", f"--regid={self.gid}", groups, "--inh-caps=-all", "--", *command)
