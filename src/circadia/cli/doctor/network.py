"""Checks of the network: the server's own port, upstreams, MCP servers, and the clusters of launchers of Jobs."""

import asyncio
import socket
from collections.abc import Mapping

import aiohttp
from yarl import URL

from circadia.cli.doctor.configuration import find_program
from circadia.cli.doctor.machine import Check, ClockComparison, fail, ok, warn
from circadia.clock import SystemClock
from circadia.errors import ConfigError
from circadia.network import explain_unreachable, find_forward_proxy, tls_hint
from circadia.settings import McpServerSettings, ServerSettings, Settings, UpstreamSettings, build_key_header
from circadia.settings.launchers import KubernetesLauncherSettings
from circadia.settings.section import hide_url_secrets
from circadia.wake.launchers.kubernetes_api import ApiRefused, ApiUnreachable, ClusterAccess, find_cluster, open_api

ANSWER_SECONDS = 8.0
_WILD = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_GRANT = "grant it with a Role, as docs/operations/launch-on-kubernetes.md says"
_MCP_ACCEPT = {"Accept": "application/json, text/event-stream"}


class NetworkChecks:
    """Checks over HTTP, each limited to a few seconds."""

    def __init__(self, session: aiohttp.ClientSession, watch: ClockComparison, environment: Mapping[str, str]) -> None:
        self._session = session
        self._watch = watch
        self._environment = environment

    async def check_port(self, server: ServerSettings, owner: str | None) -> list[Check]:
        """Check whether the port is free or in use; `owner` is the process that uses the data folder."""
        where = f"{server.host}:{server.port}"
        if server.port == 0:
            return [ok("port", "the server picks a free one at the start")]
        status, body = await self._health(server)
        if status == 200 and body == "ok":
            return [ok("port", f"{where}: a Circadia server answers" + (f" (process {owner})" if owner else ""))]
        checks: list[Check] = []
        if owner:
            message = f"process {owner} uses the data folder, but no Circadia server answers on {where}"
            remedy = "it may listen elsewhere (--host, --port); if it hangs, stop it"
            checks.append(warn("port", message, remedy))
        refused = _cannot_bind(server.host, server.port)
        if refused is None:
            return [*checks, ok("port", f"{where} is free")]
        return [*checks, fail("port", f"cannot listen on {where}: {refused}", "choose another with --port")]

    async def _health(self, server: ServerSettings) -> tuple[int, str]:
        host = _WILD.get(server.host, server.host)
        try:
            url = URL.build(scheme="http", host=host, port=server.port, path="/healthz")
            async with self._session.get(url) as answer:
                return answer.status, (await answer.text(errors="replace"))[:100].strip()
        except (aiohttp.ClientError, OSError, ValueError):
            return 0, ""

    async def check_upstream(self, name: str, upstream: UpstreamSettings) -> list[Check]:
        """Check whether the provider's key is set, whether the provider answers, and whether it accepts the key."""
        what = f"upstream {name}"
        key = self._environment.get(upstream.key_env) if upstream.key_env else None
        if upstream.key_env and not key:
            remedy = f"export {upstream.key_env}=… where the server starts, or remove key_env from the file"
            return [fail(what, f"the environment has no {upstream.key_env}", remedy)]
        headers = _key_headers(upstream, key)
        status, refusal = await self._probe_url(upstream.base_url + upstream.target_path("/v1/models"), headers)
        shown = hide_url_secrets(upstream.base_url)
        if refusal:
            return [fail(what, f"{shown} {refusal}", "check base_url, the network and the proxy settings")]
        answers = f"{shown} answers"
        if status in (401, 403):
            if key is None:
                remedy = "set key_env to the variable with the key, unless the agents' calls need none"
                return [warn(what, f"{answers}, but wants a key ({status})", remedy)]
            return [fail(what, f"{answers}, but refuses the key in {upstream.key_env} ({status})", "set a valid key")]
        if status == 404:
            message = f"{answers}, but has no {upstream.target_path('/v1/models')} ({status})"
            remedy = "check the path of base_url: it ends where the API's paths begin, with or without its version"
            return [warn(what, message, remedy)]
        if status >= 500:
            return [warn(what, f"{answers} with status {status}", "look at the provider's status page")]
        accepted = f", the key in {upstream.key_env} is accepted" if key and status == 200 else ""
        return [ok(what, answers + accepted)]

    async def check_mcp_server(self, name: str, server: McpServerSettings) -> list[Check]:
        """Check the variables, and that the server answers or that its program exists, without starting it."""
        what = f"MCP server {name}"
        unset = [variable for variable in server.headers_env.values() if not self._environment.get(variable)]
        unset += [variable for variable in server.env_from if variable not in self._environment]
        if unset:
            return [fail(what, f"the environment has no {', '.join(unset)}", "export it where the server starts")]
        if server.url is None:
            return [find_program(what, server.command, server.cwd, server.env, self._environment)]
        headers = {header: self._environment[variable] for header, variable in server.headers_env.items()}
        status, refusal = await self._probe_url(server.url, {**_MCP_ACCEPT, **headers})
        shown = hide_url_secrets(server.url)
        if refusal:
            return [fail(what, f"{shown} {refusal}", "check its url and whether it runs")]
        if status in (401, 403):
            return [fail(what, f"{shown} answers, but refuses ({status})", "check the values in headers_env")]
        if status == 404 or status >= 500:
            return [warn(what, f"{shown} answers with status {status}", "check the path of its url")]
        return [ok(what, f"{shown} answers")]

    async def _probe_url(self, url: str, headers: Mapping[str, str]) -> tuple[int, str]:
        """Return the status of a GET, or 0 and the reason for having none."""
        sent_at = self._watch.now()
        try:
            proxy = find_forward_proxy(url, self._environment)
            async with self._session.get(url, headers=headers, allow_redirects=False, proxy=proxy) as answer:
                self._watch.record_date_header(URL(url).host or url, answer.headers, sent_at)
                return answer.status, ""
        except TimeoutError:
            return 0, f"did not answer within {ANSWER_SECONDS:g} s"
        except ConfigError as error:
            return 0, f"cannot be reached: {error.message}"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return 0, f"cannot be reached: {explain_unreachable(error)}{tls_hint(url)}"


async def check_kubernetes(settings: Settings, environment: Mapping[str, str]) -> list[Check]:
    """Check, for each launcher of Jobs, that the API accepts the token and grants what the launcher needs."""
    checks: list[Check] = []
    for name, launcher in settings.launchers.items():
        if isinstance(launcher, KubernetesLauncherSettings):
            what = f"launcher {name}"
            try:
                access = find_cluster(
                    f"launchers.{name}", environment, api_url=launcher.api_url, namespace=launcher.namespace,
                    token_file=launcher.token_file, ca_file=launcher.ca_file,
                )  # fmt: skip
            except ConfigError as error:
                checks.append(fail(what, error.message, "correct it where the server runs"))
                continue
            checks.append(await _check_access(what, access, settings.server.gateway_url))
    return checks


async def _check_access(what: str, access: ClusterAccess, gateway_url: str | None) -> Check:
    try:
        async with asyncio.timeout(ANSWER_SECONDS), open_api(access, SystemClock()) as api:
            missing = await api.find_missing_rights()
    except (ApiRefused, ApiUnreachable) as error:
        return fail(what, str(error), "check api_url, ca_file and token_file")
    except TimeoutError:
        return fail(what, f"the Kubernetes API at {access.url} does not answer in time", "check api_url")
    if missing:
        return fail(what, f"its token may not {', '.join(missing)} in {access.namespace!r}", _GRANT)
    if gateway_url is None:
        message = "its pods reach no gateway, since they are told this server's own address"
        return warn(what, message, "set server.gateway_url to the URL of the gateways' Service")
    return ok(what, f"{access.url} grants all that Jobs in {access.namespace!r} need")


def check_variables(named: Mapping[str, str | None], environment: Mapping[str, str]) -> list[Check]:
    """Report variables for tokens that are not set; `named` maps settings to variables."""
    return [
        fail(f"token {where}", f"the environment has no {name}", f"export {name}=…, or remove {where} from the file")
        for where, name in named.items()
        if name and not environment.get(name)
    ]


def open_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS), trust_env=False)


def _key_headers(upstream: UpstreamSettings, key: str | None) -> dict[str, str]:
    if key is None:
        return {}
    header, value = build_key_header(key, api=upstream.api, header=upstream.key_header)
    return {header: value, **({"anthropic-version": "2023-06-01"} if upstream.api == "anthropic" else {})}


def _cannot_bind(host: str, port: int) -> str | None:
    """Return the reason why the server cannot bind the address, or None."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.strerror or str(error)
    return None
