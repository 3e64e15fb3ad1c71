"""The last user turn of a request: whether it is the last item, and adding a line to it."""

from collections.abc import Sequence

from circadia.gateway.payload import splice
from circadia.gateway.payload.fields import as_object

OPERATOR_ROLES = ("system", "developer")


def ends_in_user(items: Sequence[dict[str, object]]) -> bool:
    """Return whether the last item is the user's, ignoring operator items; operator items alone count too."""
    for item in reversed(items):
        role = item.get("role")
        if role not in OPERATOR_ROLES:
            return role == "user"
    return bool(items)


def add_line(body: bytes, key: str, part_type: str, line: str) -> bytes:
    """Append `line` to the last user item of the list `key`, every other byte unchanged.

    Text content grows by an empty line and the line; a list of parts by a text part, after any cache mark. A plain
    string in place of the list is itself the user's turn. Without a user item the body is unchanged.
    """
    try:
        return _add_line(body.decode(), key, part_type, line).encode()
    except ValueError:
        return body


def _add_line(text: str, key: str, part_type: str, line: str) -> str:
    found = splice.list_member(text, splice.value_start(text), key)
    if found is None:
        return text
    items, elements = found
    if isinstance(items.value, str):
        return splice.append_text(text, items, f"\n\n{line}")
    last = None
    for place in elements:
        if as_object(place.value).get("role") == "user":
            last = place
    content = None if last is None else splice.member(text, last.start, "content")
    if content is None:
        return text
    if isinstance(content.value, str):
        return splice.append_text(text, content, f"\n\n{line}")
    if isinstance(content.value, list):
        return splice.append_element(text, content, {"type": part_type, "text": line})
    return text
