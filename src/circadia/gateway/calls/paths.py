"""The model door's allow-list of paths. It is a list because one provider key serves all agents."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from circadia.errors import CallerError, ConfigError, Forbidden, InvalidRequest, MethodNotAllowed

_PREFIX = r"(?:/api)?(?:/openai)?(?:/v\d{1,2}(?:(?:alpha|beta)\d?)?)?(?:/openai)?"
"""Prefixes that providers put before an endpoint: `/v1`, `/openai/v1`, `/api/v1`, `/v1beta/openai`, or nothing."""
_SEGMENT = re.compile(r"[A-Za-z0-9_~@][A-Za-z0-9_.:@+~-]{0,511}")
_MODEL_PARENTS = frozenset({"deployments", "engines", "models"})
"""Any id after one of these segments is a model (`/x/deployments/{id}/chat/completions`)."""
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
_RULE = re.compile(r"(?P<method>[A-Z]+) (?P<path>/\S*)")
_PLACES = frozenset({"{id}", "{own}", "{model}", "{name}"})
"""Path placeholders: any id, an id of the caller, a model, and a model whose name has slashes."""
_NAMED = re.compile(f"({_PREFIX}/models/)([^/]+)".encode())
"""Where SDKs send names such as `meta/llama-3`, with the slash encoded."""
_SLASH = re.compile(rb"%2f", re.IGNORECASE)
_PLACE = re.compile(r"\{(?:id|own|model)\}(?::[A-Za-z]+)?")
"""An operator's placeholder, optionally with a Google-style method after it (`{model}:embedContent`)."""
_LITERAL = re.compile(r"[A-Za-z0-9_.:@+~-]+")
_UNSAFE_BYTES = re.compile(rb"[^!-~]|[\\?#]")
_ENCODED_TRICK = re.compile(rb"%(?:2e|2f|5c|25|[01][0-9a-f]|7f)", re.IGNORECASE)
"""Encoded dots, slashes, backslashes, percent signs and control characters. No id needs them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    dialect: str
    """Key of the dialect; `plain` is only passed on."""
    generates: bool
    """Whether it is held while its agent sleeps (GATE-40, GATE-41)."""
    owned_ids: tuple[str, ...] = ()
    """Provider-side ids in the path. They must belong to the caller."""
    model: str | None = None
    """The model in the path. As at the provider, it overrides the body."""
    streams: bool = False
    """Whether the path asks for a stream. It is sent as events if the query has `alt=sse`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    error: CallerError


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    method: str
    pattern: re.Pattern[str]
    """Matches the whole path, still encoded; each id is a group."""
    groups: tuple[str, ...] = ()
    """For each group, its placeholder from `_PLACES`."""
    dialect: str = "plain"
    generates: bool = False
    exact: bool = False
    """Whether it wins over rules that match its last word as an id or a name."""


_STREAMING = "streamGenerateContent"
_GENERATING = {
    "/chat/completions": "chat_completions",
    "/completions": "completions",
    "/embeddings": "embeddings",
    "/responses": "responses",
    "/messages": "messages",
}
_RESPONSES = (("compact", "compacted_response", True), ("input_tokens", "input_tokens", False))
"""Words after `/responses/` that are not ids: name, dialect, and whether it generates."""
_VERBS = {"generateContent": "generate_content", _STREAMING: "generate_content", "countTokens": "count_content_tokens"}
_COUNTING = frozenset({"count_tokens", "input_tokens", "count_content_tokens"})
_DEPLOYED = ("/chat/completions", "/completions", "/embeddings")
_PASSING = (
    "DELETE /responses/{own}",
    "POST /responses/{own}/cancel",
    "GET /responses/{own}/input_items",
    "GET /models",
    "GET /models/{name}",
)


def _build_endpoint_rules() -> tuple[Rule, ...]:
    generating = [
        Rule(method="POST", pattern=re.compile(_PREFIX + path), dialect=dialect, generates=True)
        for path, dialect in _GENERATING.items()
    ]
    deployed = [
        _compile("POST", f"/deployments/{{model}}{path}", prefix=_PREFIX, generates=True, dialect=_GENERATING[path])
        for path in _DEPLOYED
    ]
    counting = Rule(method="POST", pattern=re.compile(_PREFIX + "/messages/count_tokens"), dialect="count_tokens")
    fetching = _compile("GET", "/responses/{own}", prefix=_PREFIX, generates=False, dialect="stored_response")
    passing = [_compile(*rule.split(" "), prefix=_PREFIX, generates=False) for rule in _PASSING]
    responses = [
        Rule(
            method="POST",
            pattern=re.compile(f"{_PREFIX}/responses/{name}"),
            dialect=dialect,
            generates=held,
            exact=True,
        )
        for name, dialect, held in _RESPONSES
    ]
    verbs = [
        _compile(
            "POST", f"/models/{{model}}:{verb}", prefix=_PREFIX, generates=dialect not in _COUNTING, dialect=dialect
        )
        for verb, dialect in _VERBS.items()
    ]
    return (*generating, *deployed, counting, *responses, *verbs, fetching, *passing)


def _compile(method: str, path: str, *, prefix: str = "", generates: bool, dialect: str = "plain") -> Rule:
    pattern = prefix
    groups: list[str] = []
    before = ""
    for segment in path.split("/")[1:]:
        place, _, verb = segment.partition(":")
        if place in _PLACES:
            pattern += "/([^/]+)" + (re.escape(f":{verb}") if verb else "")
            groups.append("{model}" if place == "{id}" and generates and before in _MODEL_PARENTS else place)
        else:
            pattern += "/" + re.escape(segment)
        before = segment
    return Rule(
        method=method, pattern=re.compile(pattern), groups=tuple(groups), dialect=dialect, generates=generates,
        exact=path.endswith(tuple(f"}}:{verb}" for verb in _VERBS)),
    )  # fmt: skip


_ENDPOINT_RULES = _build_endpoint_rules()


def parse_rules(lines: Sequence[str]) -> tuple[Rule, ...]:
    """Parse the operator's own rules, each written as `METHOD /path/{id}`.

    A path that ends like a known endpoint (`/openai/deployments/{id}/chat/completions`) is read like it. Any other
    POST is held while its agent sleeps; other methods pass.

    Raises:
        ConfigError: a line is not a valid rule.
    """
    return tuple(_parse(line) for line in lines)


def resolve(method: str, raw_path: bytes, rules: Sequence[Rule] = ()) -> Route | Refusal:
    """Match a request against the allow-list; `raw_path` is the path after `/llm/{upstream}`, still encoded."""
    flaw = _find_path_flaw(_decode_path(raw_path))
    if flaw is not None:
        excerpt = raw_path[:200].decode("ascii", "backslashreplace")
        return Refusal(error=InvalidRequest(f"the path {excerpt!r} {flaw}; send the plain path of an endpoint"))
    path = raw_path.decode("ascii")
    matches = [
        (rule, match) for rule in (*_ENDPOINT_RULES, *rules) if (match := rule.pattern.fullmatch(path)) is not None
    ]
    candidates = [match for match in matches if match[0].exact] or matches
    for rule, match in candidates:
        if rule.method == method:
            return _route(rule, match)
    return _refuse(method, path, tuple(sorted({rule.method for rule, _ in candidates})))


def _route(rule: Rule, match: re.Match[str]) -> Route | Refusal:
    owned: list[str] = []
    model: str | None = None
    for raw, place in zip(match.groups(), rule.groups, strict=True):
        name = unquote_to_bytes(raw).decode("utf-8", "replace")
        if any(_SEGMENT.fullmatch(part) is None for part in (name.split("/") if place == "{name}" else [name])):
            return Refusal(
                error=InvalidRequest(f"{name[:200]!r} in the path is not an id; send the id that the provider returned")
            )
        if place == "{own}":
            owned.append(name)
        elif place == "{model}":
            model = name
    streams = match.string.endswith(f":{_STREAMING}")
    return Route(dialect=rule.dialect, generates=rule.generates, owned_ids=tuple(owned), model=model, streams=streams)


def _refuse(method: str, path: str, allow: tuple[str, ...]) -> Refusal:
    if allow and not (method == "POST" and ":" in path.rpartition("/")[2]):  # Google's methods follow a colon
        message = f"{method} is not possible on {path!r}; use {' or '.join(allow)}"
        return Refusal(error=MethodNotAllowed(message, allow=allow))
    if "realtime" in path.split("/"):
        message = "realtime sessions and WebSockets do not pass the gateway; use responses or chat completions"
    else:
        message = f"{path!r} is not open here; the operator can list it in the upstream's `paths` as `{method} …`"
        if path.startswith("/v1/v1/"):
            message += "; an SDK that adds /v1 by itself needs none: leave it out of the base URL"
    return Refusal(error=Forbidden(message))


def _decode_path(raw_path: bytes) -> bytes:
    """Return the path with the slashes of a model's name decoded, as some servers read it."""
    named = _NAMED.fullmatch(raw_path)
    return raw_path if named is None else named[1] + _SLASH.sub(b"/", named[2])


def _find_path_flaw(raw_path: bytes) -> str | None:
    """Return what is wrong with a path that another server might read differently, or None."""
    if not raw_path.startswith(b"/"):
        return "does not start with a slash"
    if _UNSAFE_BYTES.search(raw_path):
        return "has a character that must be encoded"
    if _ENCODED_TRICK.search(raw_path):
        return "has an encoded dot, slash, backslash, percent sign or control character"
    segments = raw_path[1:].split(b"/")
    if b"" in segments:
        return "has an empty segment"
    if not {segment.partition(b";")[0] for segment in segments}.isdisjoint((b".", b"..")):
        return "has a dot segment"
    return None


def _parse(line: str) -> Rule:
    match = _RULE.fullmatch(line)
    if match is None or match["method"] not in _METHODS:
        raise ConfigError(f"`paths` has {line!r}; write `METHOD /path`, with one of {', '.join(sorted(_METHODS))}")
    method, path = match["method"], match["path"]
    for segment in path.split("/")[1:]:
        literal = _LITERAL.fullmatch(segment) is not None and segment not in (".", "..")
        if not literal and _PLACE.fullmatch(segment) is None:
            raise ConfigError(
                f"`paths` has {line!r}; {segment!r} is not a segment: use a plain word, {{id}}, {{own}} or {{model}}"
            )
    if method != "POST":
        return _compile(method, path, generates=False)
    endings = {"/messages/count_tokens": "count_tokens", **_GENERATING}
    endings |= {f"/responses/{name}": dialect for name, dialect, _ in _RESPONSES}
    endings |= {f":{verb}": dialect for verb, dialect in _VERBS.items()}
    dialect = next((dialect for ending, dialect in endings.items() if path.endswith(ending)), "plain")
    generates = dialect not in _COUNTING and not path.endswith("/cancel")
    return _compile(method, path, generates=generates, dialect=dialect)
