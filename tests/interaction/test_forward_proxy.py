"""A machine that reaches its providers only through a forward proxy, as the environment says."""

import asyncio
import ssl
from pathlib import Path

import httpx2
import pytest

from circadia.errors import ConfigError
from circadia.llm.models import ModelSpec
from circadia.llm.provider_model import build_http_client
from circadia.network import find_forward_proxy
from circadia.wake.launchers.base import LaunchFailed
from tests.fixtures.certificates import served
from tests.fixtures.forward_proxy import forward_proxy
from tests.gateway.wire.peer import answering, peer
from tests.interaction.live import live
from tests.interaction.test_mcp_door import call, messages
from tests.wake.launchers.benches import a_launch
from tests.wake.launchers.webhook_bench import WebhookBench

BODY = b'{"jsonrpc":"2.0","id":1,"result":{}}'
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)
BASE = "https://provider.invalid:8443"


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """What serves `provider.invalid`, a name that no machine finds without the proxy."""
    server = served(tmp_path, "provider.invalid")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    return server


@pytest.mark.spec("GATE-99")
async def test_providers_and_mcp_servers_are_reached_through_the_proxy_of_the_environment(
    tmp_path: Path, trusted: ssl.SSLContext
) -> None:
    async with peer(answering(ANSWER), tls=trusted) as far, forward_proxy(far.port) as proxy:
        environment = {"HTTPS_PROXY": proxy.url.replace("//", "//ann:p%40ss@"), "NO_PROXY": "localhost,.example.com"}
        upstream, servers = {"base_url": BASE, "retries": 0}, {"far": {"url": f"{BASE}/mcp"}}
        async with live(tmp_path / "s", upstream=upstream, mcp_servers=servers, environment=environment) as at:
            token = await at.agent()
            async with asyncio.timeout(60), at.call(token) as response:
                assert (response.status, await response.read()) == (200, BODY)
            async with asyncio.timeout(60), at.tool(token, call("x"), server="/far") as response:
                (refused,) = messages(await response.text())
            assert "certificate" in refused["error"]["message"], (
                "aiohttp reads trusted certificates once, at its import"
            )
        assert proxy.asked == [("provider.invalid:8443", "Basic YW5uOnBAc3M=")] * 2
        assert b"roxy-" not in b"".join(far.heads)


@pytest.mark.spec("GATE-99")
async def test_a_model_of_the_sleep_tier_is_reached_through_the_proxy(trusted: ssl.SSLContext) -> None:
    async with peer(answering(ANSWER), tls=trusted) as far, forward_proxy(far.port) as proxy:
        found = find_forward_proxy(BASE, {"https_proxy": proxy.url})
        spec = ModelSpec(upstream="u", base_url=BASE, api="openai", key=None, model="m", proxy=found)
        async with build_http_client(spec) as http:
            answer: httpx2.Response = await http.get(f"{BASE}/v1/models")
        assert (answer.status_code, [place for place, _ in proxy.asked]) == (200, ["provider.invalid:8443"])


@pytest.mark.spec("GATE-99")
async def test_a_proxy_that_refuses_is_named_without_its_password(tmp_path: Path) -> None:
    async with forward_proxy(9, b"407") as proxy:
        environment = {"HTTPS_PROXY": proxy.url.replace("//", "//ann:sesame@")}
        upstream = {"base_url": BASE, "retries": 0}
        async with live(tmp_path, upstream=upstream, environment=environment) as at:
            status, problem = await at.answered(await at.agent())
        assert status == 502
        assert problem["error"]["message"] == (
            "upstream 'openai' cannot be reached: the proxy in HTTPS_PROXY refused the tunnel (407)"
        )


@pytest.mark.spec("GATE-99")
async def test_a_webhook_never_takes_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async def noted() -> None: ...

    async with forward_proxy(9) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        with pytest.raises(LaunchFailed):
            await WebhookBench(calls_back=False).posting_to("https://127.0.0.1:9/pulses").run(a_launch(), noted)
        assert not proxy.asked


@pytest.mark.spec("GATE-99")
@pytest.mark.parametrize(
    ("url", "environment", "found"),
    [
        ("https://a.example.com/v1", {"HTTPS_PROXY": "http://p:3128"}, "http://p:3128"),
        ("https://a.example.com/v1", {"HTTPS_PROXY": "http://x:1", "https_proxy": "p:3128"}, "http://p:3128"),
        ("http://a.example.com/v1", {"HTTPS_PROXY": "http://p:3128"}, None),
        ("https://a.example.com/v1", {"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "b.org, example.com"}, None),
        ("https://a.example.com:8443", {"HTTPS_PROXY": "http://p:3128", "no_proxy": "a.example.com:8443"}, None),
        ("https://a.example.com", {"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "*"}, None),
        ("https://a.example.com", {}, None),
    ],
)
def test_the_variables_mean_what_they_mean_to_curl(url: str, environment: dict[str, str], found: str | None) -> None:
    proxy = find_forward_proxy(url, environment)
    assert (None if proxy is None else str(proxy)) == found


@pytest.mark.spec("GATE-99")
@pytest.mark.parametrize("value", ["socks5://u:sesame@p:1080", "https://u:sesame@p:443", "http://"])
def test_a_proxy_of_another_kind_is_an_error_that_does_not_repeat_it(value: str) -> None:
    with pytest.raises(ConfigError, match="HTTPS_PROXY is not the address of an HTTP proxy") as error:
        find_forward_proxy("https://a.example.com", {"HTTPS_PROXY": value})
    assert "sesame" not in str(error.value)
