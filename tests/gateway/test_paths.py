"""The model door opens listed paths and no others."""

import re
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circadia.errors import ConfigError, Forbidden, InvalidRequest, MethodNotAllowed
from circadia.gateway.calls.paths import Refusal, Route, Rule, parse_rules, resolve

pytestmark = pytest.mark.spec("GATE-60")

OPEN = [
    ("POST", "/chat/completions", "chat_completions", True),
    ("POST", "/completions", "completions", True),
    ("POST", "/embeddings", "embeddings", True),
    ("POST", "/responses", "responses", True),
    ("POST", "/messages", "messages", True),
    ("POST", "/messages/count_tokens", "count_tokens", False),
    ("POST", "/responses/compact", "compacted_response", True),
    ("POST", "/responses/input_tokens", "input_tokens", False),
    ("POST", "/models/gemini-2.5-pro:generateContent", "generate_content", True),
    ("POST", "/models/gemini-2.5-pro:streamGenerateContent", "generate_content", True),
    ("POST", "/models/gemini-2.5-pro:countTokens", "count_content_tokens", False),
    ("GET", "/models", "plain", False),
    ("GET", "/models/gpt-4.1", "plain", False),
    ("GET", "/responses/resp_1", "stored_response", False),
    ("DELETE", "/responses/resp_1", "plain", False),
    ("POST", "/responses/resp_1/cancel", "plain", False),
    ("GET", "/responses/resp_1/input_items", "plain", False),
]
PIECES = ["%2f", "%2F", "..", ".", "%2e", "a", "b", ";", "%25", "%5c", "/", "%"]
PREFIXES = ["", "/v1", "/openai/v1", "/api/v1", "/v1beta/openai", "/v4"]


def opened(method: str, path: str, rules: tuple[Rule, ...] = ()) -> Route:
    route = resolve(method, path.encode(), rules)
    assert isinstance(route, Route), route
    return route


def refused(method: str, path: str | bytes, rules: tuple[Rule, ...] = ()) -> Refusal:
    refusal = resolve(method, path if isinstance(path, bytes) else path.encode(), rules)
    assert isinstance(refusal, Refusal), refusal
    return refusal


@pytest.mark.spec("GATE-40", "GATE-41")
@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(("method", "path", "dialect", "generates"), OPEN)
def test_a_listed_path_is_open_under_every_usual_prefix_and_only_generating_ones_are_held(
    prefix: str, method: str, path: str, dialect: str, generates: bool
) -> None:
    route = opened(method, prefix + path)
    assert (route.dialect, route.generates) == (dialect, generates)
    assert route.owned_ids == (("resp_1",) if "resp_1" in path else ())


@pytest.mark.parametrize(
    "path",
    [
        "/v1/files",
        "/v1/batches",
        "/v1/files/file-1/content",
        "/v1/fine_tuning/jobs",
        "/v1/conversations/conv_1",
        "/v1/organization/admin_api_keys",
        "/v1/messages/batches",
        "/v1/chat/completions/chatcmpl-1",
        "/v1/responses/resp_1/other",
        "/v1/models/a/b",
        "/x/v1/chat/completions",
        "/v1/v1/chat/completions",
        "/v1/chat/completionsx",
        "/v1",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_what_is_not_listed_is_forbidden_and_the_message_tells_the_operator_what_to_do(method: str, path: str) -> None:
    refusal = refused(method, path)
    assert isinstance(refusal.error, Forbidden)
    assert "paths" in refusal.error.message


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/v1/chat/completions", ("POST",)),
        ("POST", "/v1/models", ("GET",)),
        ("POST", "/v1/models/gpt-4o", ("GET",)),
        ("GET", "/v1/responses/compact", ("POST",)),
        ("DELETE", "/v1/responses/input_tokens", ("POST",)),
        ("GET", "/v1beta/models/gemini-2.5-pro:generateContent", ("POST",)),
        ("PUT", "/v1beta/models/gemini-2.5-pro:countTokens", ("POST",)),
        ("DELETE", "/v1/models/gpt-4o", ("GET",)),
        ("PUT", "/v1/responses/resp_1", ("DELETE", "GET")),
        ("post", "/v1/messages", ("POST",)),
    ],
)
def test_a_wrong_method_is_told_with_the_right_ones(method: str, path: str, allow: tuple[str, ...]) -> None:
    refusal = refused(method, path)
    assert isinstance(refusal.error, MethodNotAllowed)
    assert refusal.error.allow == allow


@pytest.mark.parametrize(
    "path",
    [
        b"/v1/../v1/files",
        b"/v1/./messages",
        b"/v1/models/..",
        b"/v1/models/..;x",
        b"/v1/models/%2e%2e",
        b"/v1/models/.%2E",
        b"/v1/models/%252e%252e",
        b"/v1/responses/a%2fb",
        b"/v1/models%2fa",
        b"/v1%2Fmodels",
        b"/v1/models/a%2fb/",
        b"/v1/models/a%2fb/c%2fd",
        b"/v1/models/a%2f..",
        b"/v1/models/..%2fa",
        b"/v1/models/..%2F..%2Ffiles",
        b"/v1/models/a%2f..;x",
        b"/v1/models/a%2f.",
        b"/v1/models/a%2F%2e%2e",
        b"/v1/models/a%2f.%2E",
        b"/v1/models/a%252fb",
        b"/v1/models/a%2f%252e%252e",
        b"/v1/models/a%2f%2fb",
        b"/v1/models/%2fa",
        b"/v1/models/a%2f",
        b"/v1/models/%2f",
        b"/v1/models/a%2f%2",
        b"/v1/models/a%2fb%5c..%5cc",
        b"/v1/models/a%2fb%00",
        b"/v1/models/a%2f%0d%0aX",
        b"/v1/models/a%2fb%3fx",
        b"/v1/models/a%2f-b",
        b"/v1/models/a%ef%bc%8fb",
        b"/v1/models/a%c0%afb",
        b"/v1/models/a%5Cb",
        b"/v1/models/a\\b",
        b"/v1/models/a%00",
        b"/v1/models/a\x00",
        b"/v1/models/a%0d%0aX",
        b"/v1//messages",
        b"//v1/messages",
        b"/v1/messages/",
        b"/v1/messages?x=1",
        b"/v1/messages#x",
        b"/v1/models/\xc3\xa9",
        b"/v1/models/%c3%a9",
        b"/v1/models/a;b",
        b"/v1/models/a%20b",
        b"/v1/models/%",
        b"/v1/responses/-x",
        b"v1/messages",
        b"",
    ],
)
def test_a_path_that_two_servers_could_read_in_two_ways_is_an_invalid_request(path: bytes) -> None:
    assert isinstance(refused("GET", path).error, InvalidRequest)


@pytest.mark.parametrize("path", [b"//v1/models", b"/v1/models/", b"/v1/responses/a%2Fb", b"/v1/models/caf\xe9"])
def test_a_refused_path_is_shown_as_text(path: bytes) -> None:
    shown = path.decode("ascii", "backslashreplace")
    assert f"the path {shown!r} has" in refused("GET", path).error.message


def test_a_fixed_word_written_with_escapes_is_not_the_listed_path() -> None:
    assert isinstance(refused("POST", "/v1/m%65ssages").error, Forbidden)


def test_an_id_written_with_escapes_is_compared_as_the_provider_reads_it() -> None:
    assert opened("GET", "/v1/responses/resp%5F1").owned_ids == ("resp_1",)
    assert opened("GET", "/v1/models/ft%3Agpt-4o%3Aorg").dialect == "plain"


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    "name",
    ["meta%2Fllama-3", "accounts%2ffireworks%2fmodels%2fllama-v3p1", "a%2Fb%3A1", "models%2Fgemini-2.5", "~a%2Fb"],
)
def test_a_models_name_may_have_slashes_as_sdks_encode_them(prefix: str, name: str) -> None:
    assert opened("GET", f"{prefix}/models/{name}") == Route(dialect="plain", generates=False)
    for method in ("POST", "DELETE", "PUT"):
        assert isinstance(refused(method, f"{prefix}/models/{name}").error, MethodNotAllowed)


def test_a_slash_in_a_models_name_opens_no_rule_of_the_operators() -> None:
    models = "/v1/models/{id}"
    rules = parse_rules([f"DELETE {models}", f"POST {models}", f"GET {models}/keys", "GET /v1/a/{id}"])
    for method, path in (("DELETE", "a%2Fb"), ("POST", "a%2Fb"), ("GET", "a%2Fb/keys"), ("GET", "a/b%2Fkeys")):
        assert isinstance(refused(method, f"/v1/models/{path}", rules), Refusal)
    assert isinstance(refused("GET", "/v1/a/b%2Fc", rules).error, InvalidRequest)
    assert isinstance(refused("GET", "/x/v1/models/b%2Fc", rules).error, InvalidRequest)


@given(tail=st.lists(st.sampled_from(PIECES), max_size=8))
def test_no_slash_in_a_models_name_leads_out_of_the_models(tail: list[str]) -> None:
    path = "/v1/models/" + "".join(tail)
    if isinstance(resolve("GET", path.encode()), Route):
        segments = unquote(unquote(path)).split("/")
        assert segments[:3] == ["", "v1", "models"]
        assert not {".", "..", ""} & set(segments[1:])


@pytest.mark.parametrize("path", ["/v1/v1/messages", "/v1/v1/models"])
def test_a_prefix_that_stands_twice_is_told_as_such(path: str) -> None:
    refusal = refused("POST", path)
    assert isinstance(refusal.error, Forbidden)
    assert "leave it out of the base URL" in refusal.error.message


def test_realtime_is_refused_with_what_to_use_instead() -> None:
    refusal = refused("GET", "/v1/realtime")
    assert isinstance(refusal.error, Forbidden)
    assert "WebSocket" in refusal.error.message
    assert "responses" in refusal.error.message


@given(path=st.binary(max_size=40) | st.text(alphabet="/.%2efv1models", max_size=30).map(str.encode))
def test_no_path_makes_it_raise_or_pass_a_dot_segment(path: bytes) -> None:
    result = resolve("GET", b"/" + path)
    if isinstance(result, Route):
        assert re.fullmatch(rb"/[A-Za-z0-9/_.:@+~%-]*", b"/" + path)
        assert not {b".", b"..", b""} & set(path.split(b"/"))


@given(name=st.text(min_size=1, max_size=20))
def test_any_id_that_passes_arrives_as_one_plain_segment(name: str) -> None:
    result = resolve("GET", b"/v1/responses/" + quote(name, safe="").encode())
    if isinstance(result, Route):
        assert result.owned_ids == (name,)
        assert "/" not in name
        assert name not in (".", "..")


def test_the_operators_rules_open_more_paths_with_their_ids() -> None:
    rules = parse_rules(["GET /v1/files", "GET /v1/batches/{own}", "POST /v1/batches", "GET /v1/a/{id}/b/{own}"])
    assert opened("GET", "/v1/files", rules) == Route(dialect="plain", generates=False)
    assert opened("GET", "/v1/batches/batch_1", rules).owned_ids == ("batch_1",)
    assert opened("GET", "/v1/a/x/b/y", rules).owned_ids == ("y",)
    assert isinstance(refused("DELETE", "/v1/files", rules).error, MethodNotAllowed)
    assert isinstance(refused("GET", "/v2/files", rules).error, Forbidden)


@pytest.mark.spec("GATE-40")
def test_an_operators_path_that_ends_like_a_known_one_is_read_like_it() -> None:
    rules = parse_rules(
        ["POST /x/deployments/{id}/chat/completions", "POST /x/messages/count_tokens", "POST /x/y/cancel"]
    )
    route = opened("POST", "/x/deployments/my-gpt/chat/completions", rules)
    assert (route.dialect, route.generates, route.model) == ("chat_completions", True, "my-gpt")
    assert opened("POST", "/x/messages/count_tokens", rules).generates is False
    assert opened("POST", "/x/y/cancel", rules).generates is False


@pytest.mark.spec("GATE-40", "GATE-66")
@pytest.mark.parametrize("endpoint", ["chat/completions", "completions", "embeddings"])
def test_at_azure_the_path_names_the_model(endpoint: str) -> None:
    route = opened("POST", f"/openai/deployments/my-gpt/{endpoint}")
    assert (route.dialect, route.generates, route.model) == (endpoint.replace("/", "_"), True, "my-gpt")
    assert isinstance(refused("POST", f"/openai/deployments/a%2Fb/{endpoint}").error, InvalidRequest)
    assert isinstance(refused("GET", "/openai/deployments/my-gpt").error, Forbidden)
    rules = parse_rules([f"POST /x/{{model}}/{endpoint}"])
    assert opened("POST", f"/x/a%3Ab/{endpoint}", rules).model == "a:b"


@pytest.mark.spec("GATE-40")
def test_any_other_post_of_the_operators_is_held_while_asleep() -> None:
    assert opened("POST", "/v1/images/generations", parse_rules(["POST /v1/images/generations"])).generates is True


@pytest.mark.parametrize(
    "line",
    [
        "",
        "/v1/files",
        "get /v1/files",
        "FETCH /v1/files",
        "GET v1/files",
        "GET  /v1/files",
        "GET /v1/files ",
        "GET /v1//files",
        "GET /v1/files/",
        "GET /",
        "GET /v1/../x",
        "GET /v1/{other}",
        "GET /v1/{name}",
        "GET /v1/x{id}",
        "GET /v1/*",
        "GET /v1/.*",
        "GET /v1/a%2fb",
        "GET /v1/files?x=1",
    ],
)
def test_a_rule_that_is_none_is_a_config_error_that_quotes_it(line: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(repr(line))):
        parse_rules([line])


@pytest.mark.parametrize("verb", ["embedContent", "batchEmbedContents", "predict"])
def test_a_method_of_googles_that_is_not_listed_is_closed_until_the_operator_lists_it(verb: str) -> None:
    path = f"/v1beta/models/gemini-2.5-pro:{verb}"
    refusal = refused("POST", path)
    assert isinstance(refusal.error, Forbidden)
    route = opened("POST", path, parse_rules([f"POST /v1beta/models/{{model}}:{verb}"]))
    assert (route.dialect, route.generates, route.model) == ("plain", True, "gemini-2.5-pro")


@pytest.mark.parametrize("verb", ["generateContent", "streamGenerateContent", "countTokens"])
def test_googles_method_is_no_part_of_the_models_name(verb: str) -> None:
    listed = opened("POST", f"/v1beta/models/gemini-2.5-pro:{verb}")
    rules = parse_rules([f"POST /v1/projects/p/locations/{{id}}/publishers/google/models/{{model}}:{verb}"])
    own = opened("POST", f"/v1/projects/p/locations/l/publishers/google/models/gemini-2.5-pro:{verb}", rules)
    for route in (listed, own):
        assert (route.model, route.streams, route.generates) == (
            "gemini-2.5-pro", verb == "streamGenerateContent", verb != "countTokens",
        )  # fmt: skip
