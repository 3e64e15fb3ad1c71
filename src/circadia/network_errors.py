"""Explain why a network address cannot be reached, to whoever configured it."""

import os
import socket
import ssl
from typing import Final

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
