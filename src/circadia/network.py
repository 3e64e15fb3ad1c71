"""The way to other hosts: the forward proxy, and why an address cannot be reached."""

import os
import socket
import ssl
from collections.abc import Mapping
from typing import Final

from yarl import URL

from circadia.errors import ConfigError

_NAMES_DIFFER: Final = (62, 64)
"""For a host name and for an IP address (X509_V_ERR_* in OpenSSL's x509_vfy.h, like those below)."""
_EXPIRED: Final = 10
_EARLY: Final = 9
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")
"""OpenSSL's names for an answer that is not TLS."""


def explain_unreachable(error: BaseException) -> str:
    """Return the problem and its remedy, without address or headers.

    The root cause decides, since client libraries wrap it.
    """
    while error.__cause__ is not None and not isinstance(error, TimeoutError):
        error = error.__cause__
    if isinstance(error, TimeoutError):
        return "no connection in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return _explain_certificate(error)
    if isinstance(error, ssl.SSLError):
        if error.reason in _NO_TLS:
            return "it speaks no TLS there; correct the port, or write http:// if it is meant to go in plain text"
        return f"no TLS with it ({error.reason or type(error).__name__})"
    if isinstance(error, socket.gaierror):
        return "no address is known for its name; check the name, and this machine's DNS"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there; check that it runs, and the port"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)  # its own text may name the address
    return type(error).__name__


def tls_hint(address: str) -> str:
    """Return a hint for a connection that closed without an answer: the server may expect TLS."""
    return "; if it speaks TLS there, write https://" if address.lower().startswith("http://") else ""


def _explain_certificate(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code == _EXPIRED:
        return "its certificate has expired; whoever runs it must renew it"
    if error.verify_code == _EARLY:
        return "its certificate is not valid yet; check this machine's clock"
    if error.verify_code in _NAMES_DIFFER:
        return "its certificate is for another name; use the name that it is for"
    reason = error.verify_message
    return f"its certificate is not trusted here ({reason}); name a file with the signer's certificate in SSL_CERT_FILE"


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
