"""Whether the user has the last word in a request."""

from collections.abc import Sequence

OPERATOR_ROLES = ("system", "developer")


def ends_in_user(items: Sequence[dict[str, object]]) -> bool:
    """Return whether the last item is the user's, ignoring operator items; operator items alone count too."""
    for item in reversed(items):
        role = item.get("role")
        if role not in OPERATOR_ROLES:
            return role == "user"
    return bool(items)
