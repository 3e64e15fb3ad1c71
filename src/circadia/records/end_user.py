"""An end user: how the names that callers give to people, and to conversations, are kept where they are too long."""

import re
from base64 import b32encode
from hashlib import blake2b
from typing import Final

LONGEST: Final = 200
"""Characters of a name that are kept as they are."""
LONGEST_SHOWN: Final = 64
"""Characters of a name that is shown; a longer one is a key, such as `user_<64 digits>_account_` of Claude's SDKs."""
_DIGEST: Final = re.compile(r"~[0-9a-f]{32}\Z")


def shorten_name(name: str | None) -> str | None:
    """Return a name that a database can hold; two that are different stay so, or one person would be another.

    Each way in applies it, once: what looks like its outcome was not made by it, and gets another one.
    """
    if name is None or (len(name) <= LONGEST and "\0" not in name and not _DIGEST.search(name)):
        return name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{name[: LONGEST - 40].replace(chr(0), '')}~{digest}"


def display_alias(name: str) -> str:
    """Return how tables and notes call an end user: by name, and by `user-` and 60 bits of its hash if that is long."""
    if len(name) <= LONGEST_SHOWN:
        return name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=10).digest()
    return f"user-{b32encode(digest).decode().lower()[:12]}"
