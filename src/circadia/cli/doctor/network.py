"""What the doctor looks at on the network: the server's own port, and what stands behind the gateway."""

import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

import aiohttp
from yarl import URL

from circadia.cli.doctor.check import Check, fail, ok, warn
from circadia.cli.doctor.machine import ClockComparison
from circadia.network_errors import explain_unreachable, tls_hint
from circadia.settings import McpServerSettings, ServerSettings, UpstreamSettings, build_key_header

ANSWER_SECONDS = 8.0
_WILD = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_MCP_ACCEPT = {"Accept": "application/json, text/event-stream"}


class NetworkChecks:
    """Asks over HTTP, each time for a few seconds only."""

    def __init__(self, session: aiohttp.ClientSession, watch: ClockComparison, environment: Mapping[str, str]) -> None:
        self._session = session
        self._watch = watch
        self._environment = environment

    async def check_port(self, server: ServerSettings, owner: str | None) -> list[Check]:
        """Tell whether the port is free, or who has it; `owner` is the process that uses the data folder."""
        where = f"{server.host}:{server.port}"
        if server.port == 0:
            return [ok("port", "a free one is taken at the start")]
        status, body = await self._health(server)
        if status == 200 and body == "ok":
            return [ok("port", f"{where}: a Circadia server answers" + (f" (process {owner})" if owner else ""))]
        found: list[Check] = []
        if owner:
            told = f"process {owner} uses the data folder, but no Circadia server answers on {where}"
            remedy = "it may listen elsewhere (--host, --port); if it hangs, stop it"
            found.append(warn("port", told, remedy))
        refused = _cannot_bind(server.host, server.port)
        if refused is None:
            return [*found, ok("port", f"{where} is free")]
        return [*found, fail("port", f"cannot listen on {where}: {refused}", "choose another with --port")]

    async def _health(self, server: ServerSettings) -> tuple[int, str]:
        host = _WILD.get(server.host, server.host)
        try:
            url = URL.build(scheme="http", host=host, port=server.port, path="/healthz")
            async with self._session.get(url) as answer:
                return answer.status, (await answer.text(errors="replace"))[:100].strip()
        except (aiohttp.ClientError, OSError, ValueError):
            return 0, ""

    async def check_upstream(self, name: str, upstream: UpstreamSettings) -> list[Check]:
        """Tell whether the provider's key is set, whether it answers, and whether it takes the key."""
        what = f"upstream {name}"
        key = self._environment.get(upstream.key_env) if upstream.key_env else None
        if upstream.key_env and not key:
            remedy = f"export {upstream.key_env}=… where the server starts, or take key_env out of the file"
            return [fail(what, f"the environment has no {upstream.key_env}", remedy)]
        headers = _key_headers(upstream, key)
        status, refusal = await self._probe_url(upstream.base_url + upstream.target_path("/v1/models"), headers)
        if refusal:
            return [fail(what, f"{upstream.base_url} {refusal}", "check base_url, the network and the proxy settings")]
        told = f"{upstream.base_url} answers"
        if status in (401, 403):
            if key is None:
                remedy = "name the variable with the key as key_env, unless it needs none for what agents ask"
                return [warn(what, f"{told}, but wants a key ({status})", remedy)]
            return [fail(what, f"{told}, but refuses the key in {upstream.key_env} ({status})", "set a valid key")]
        if status >= 500:
            return [warn(what, f"{told} with status {status}", "look at the provider's status page")]
        taken = f", the key in {upstream.key_env} is taken" if key and status == 200 else ""
        return [ok(what, told + taken)]

    async def check_mcp_server(self, name: str, server: McpServerSettings) -> list[Check]:
        """Tell whether the variables are set, and whether it answers or its program is there (it is not started)."""
        what = f"MCP server {name}"
        unset = [each for each in server.headers_env.values() if not self._environment.get(each)]
        unset += [each for each in server.env_from if each not in self._environment]
        if unset:
            return [fail(what, f"the environment has no {', '.join(unset)}", "export it where the server starts")]
        if server.url is None:
            return [self._program(what, server)]
        headers = {header: self._environment[each] for header, each in server.headers_env.items()}
        status, refusal = await self._probe_url(server.url, {**_MCP_ACCEPT, **headers})
        if refusal:
            return [fail(what, f"{server.url} {refusal}", "check its url, and that it runs")]
        if status in (401, 403):
            return [fail(what, f"{server.url} answers, but refuses ({status})", "check the values in headers_env")]
        if status == 404 or status >= 500:
            return [warn(what, f"{server.url} answers with status {status}", "check the path of its url")]
        return [ok(what, f"{server.url} answers")]

    def _program(self, what: str, server: McpServerSettings) -> Check:
        program = server.command[0]
        if server.cwd is not None and not Path(server.cwd).is_dir():
            return fail(what, f"the folder {server.cwd!r} does not exist", "make it, or change cwd")
        path = server.env.get("PATH", self._environment.get("PATH", os.defpath))
        found = shutil.which(str(Path(server.cwd or ".") / program) if "/" in program else program, path=path)
        if found is None:
            return fail(what, f"the program {program!r} is not found", "install it, or give its whole path in command")
        return ok(what, f"stdio, {found}")

    async def _probe_url(self, url: str, headers: Mapping[str, str]) -> tuple[int, str]:
        """Return the status of a GET, or 0 and why there is none; any status is a sign of life."""
        asked = self._watch.now()
        try:
            async with self._session.get(url, headers=headers, allow_redirects=False) as answer:
                self._watch.record_date_header(URL(url).host or url, answer.headers, asked)
                return answer.status, ""
        except TimeoutError:
            return 0, f"gives no answer within {ANSWER_SECONDS:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return 0, f"cannot be reached: {explain_unreachable(error)}{tls_hint(url)}"


def check_variables(named: Mapping[str, str | None], environment: Mapping[str, str]) -> list[Check]:
    """Tell which variables with tokens are not set; `named` maps settings to variables."""
    return [
        fail(f"token {where}", f"the environment has no {name}", f"export {name}=…, or take {where} out of the file")
        for where, name in named.items()
        if name and not environment.get(name)
    ]


def open_session() -> aiohttp.ClientSession:
    """Return what the checks ask with."""
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS), trust_env=False)


def _key_headers(upstream: UpstreamSettings, key: str | None) -> dict[str, str]:
    if key is None:
        return {}
    header, value = build_key_header(key, api=upstream.api, header=upstream.key_header)
    return {header: value, **({"anthropic-version": "2023-06-01"} if upstream.api == "anthropic" else {})}


def _cannot_bind(host: str, port: int) -> str | None:
    """Return why the address cannot be had, or none."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.strerror or str(error)
    return None
