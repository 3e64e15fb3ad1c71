"""Checks of the clusters whose Jobs launchers start."""

import asyncio
from collections.abc import Mapping

from circadia.cli.doctor.check import Check, fail, ok, warn
from circadia.cli.doctor.network import ANSWER_SECONDS
from circadia.clock import SystemClock
from circadia.errors import ConfigError
from circadia.settings import Settings
from circadia.settings.launchers import KubernetesLauncherSettings
from circadia.wake.launchers.kubernetes_api import ApiRefused, ApiUnreachable, ClusterAccess, find_cluster, open_api

_GRANT = "grant it with a Role, as docs/operations/launch-on-kubernetes.md says"


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
