"""Names of end users and conversations: shortened for storage and display."""

import re
from base64 import b32encode
from hashlib import blake2b
from typing import Final

LONGEST: Final = 200
"""Maximum length of a stored name in characters."""
LONGEST_SHOWN: Final = 64
"""Longest name that is displayed as is; a longer one is a key, such as `user_<64 digits>_account_` of Claude's SDKs."""
_DIGEST: Final = re.compile(r"~[0-9a-f]{32}\Z")


def shorten_name(name: str | None) -> str | None:
    """Shorten a name to what a database can hold; different names stay different, or two people would be one.

    Each entry point applies it once. A name in the form of its result is shortened too, so it cannot collide with one.
    """
    if name is None or (len(name) <= LONGEST and "\0" not in name and not _DIGEST.search(name)):
        return name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{name[: LONGEST - 40].replace(chr(0), '')}~{digest}"


def display_alias(name: str) -> str:
    """Return an end user's name for tables and notes; a long one becomes `user-` and 60 bits of its hash."""
    if len(name) <= LONGEST_SHOWN:
        return name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=10).digest()
    return f"user-{b32encode(digest).decode().lower()[:12]}"
