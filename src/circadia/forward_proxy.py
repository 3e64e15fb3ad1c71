"""The forward proxy that the environment names for TLS to providers and MCP servers: `HTTPS_PROXY` and `NO_PROXY`."""

from collections.abc import Mapping

from yarl import URL

from circadia.errors import ConfigError


def find_forward_proxy(url: str, environment: Mapping[str, str]) -> URL | None:
    """Return the proxy for an https URL, with its user and password; None if there is none or `NO_PROXY` has the host.

    The lower-case variables count before the others, as with curl. Raises ConfigError; it does not repeat the value.
    """
    target = URL(url)
    named = environment.get("https_proxy") or environment.get("HTTPS_PROXY")
    if target.scheme != "https" or not named:
        return None
    if _is_bypassed(target, environment.get("no_proxy") or environment.get("NO_PROXY") or ""):
        return None
    try:
        proxy = URL(named if "://" in named else f"http://{named}")
        if proxy.scheme != "http" or not proxy.raw_host:
            raise ValueError("another scheme, or no host")
    except ValueError:
        message = "HTTPS_PROXY is not the address of an HTTP proxy; write http://HOST:PORT, or unset it"
        raise ConfigError(message) from None
    return proxy.origin().with_user(proxy.user).with_password(proxy.password) if proxy.user else proxy.origin()


def _is_bypassed(target: URL, listed: str) -> bool:
    """Return whether a list of names covers the host: a name alone or with a port, its subdomains, or `*` for all."""
    places = f".{target.raw_host}", f".{target.raw_host}:{target.port}"
    names = (name.strip().lower().removeprefix(".") for name in listed.split(","))
    return any(name == "*" or any(place.endswith(f".{name}") for place in places) for name in names if name)
