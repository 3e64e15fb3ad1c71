"""A conversation between an end user and an agent, as seen at the gateway, and the names of end users."""

import re
from base64 import b32encode
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Final

from circadia.ids import AgentId, ConversationId
from circadia.records.fast_record import fast_record

SEVERAL: Final = ""
"""End user of a conversation in which several were named; a call in it without a name belongs to nobody."""


@fast_record
class Conversation:
    """The gateway's record of a conversation (GATE-67)."""

    id: ConversationId
    """Unique within the agent: the client's own id, or a generated one."""
    agent_id: AgentId
    end_user: str | None = None
    turns: int = 0
    """Number of completed turns."""
    version: int = 0
    """Number of changes: turns, and requests that carry tool results."""
    head: str = ""
    """Hash of the messages with the last answer, which the next request repeats; empty if it names the answer's id."""
    handle: str = ""
    """The provider's id of the last answer."""
    additions: str = ""
    """What the gateway added to its turns, as ids (`gateway/memory/additions.py`); empty if that is unknown."""
    at: datetime
    """Time of the last request."""

    @property
    def continues_by_handle(self) -> bool:
        """Whether its calls name the answer before them instead of repeating it."""
        return self.version > 1 and self.head in ("", self.handle)

    def is_branched_by(self, continued: str | None) -> bool:
        """Return whether a call that continues this answer leaves out what came after it."""
        return self.continues_by_handle and shorten_name(continued) != self.handle


def merge_end_users(before: str | None, now: str | None) -> str | None:
    """Return the end user after a call by `now`: the only one named, or SEVERAL."""
    return SEVERAL if before is not None and now is not None and before != now else before if now is None else now


MAX_NAME_LENGTH: Final = 200
"""Maximum length of a stored name in characters."""
MAX_SHOWN_LENGTH: Final = 64
"""Longest name that is displayed as is; a longer one is a key, such as `user_<64 digits>_account_` of Claude's SDKs."""
_DIGEST: Final = re.compile(r"~[0-9a-f]{32}\Z")


def shorten_name(name: str | None) -> str | None:
    """Shorten a name to what a database can hold; different names stay different, or two people would be one.

    Each entry point applies it once. A name in the form of its result is shortened too, so it cannot collide with one.
    """
    if name is None or (len(name) <= MAX_NAME_LENGTH and "\0" not in name and not _DIGEST.search(name)):
        return name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{name[: MAX_NAME_LENGTH - 40].replace(chr(0), '')}~{digest}"


def display_alias(name: str) -> str:
    """Return an end user's name for tables and notes; a long one becomes `user-` and 60 bits of its hash."""
    if len(name) <= MAX_SHOWN_LENGTH:
        return name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=10).digest()
    return f"user-{b32encode(digest).decode().lower()[:12]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenTurn:
    """A model call without an answer yet."""

    owner: str
    """The process that forwards the call."""
    id: int
    """Unique within the process."""
    bank: str
    """Name or template of the bank bound to its agent."""
    end_user: str = ""
    """The end user of a bank from a template; else empty."""
    at: datetime
    lease_until: datetime
    """When the turn counts as ended unless its process renews the lease."""
