"""Addresses that a webhook may connect to: public ones, and the networks that settings name.

The check uses the very address of the connection. A name that resolves to an internal address, or to another address
the second time, does not pass it.
"""

import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final

_NAT64: Final = IPv6Network("64:ff9b::/96")
_LOCAL_NAT64: Final = IPv6Network("64:ff9b:1::/48")


AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]


class AddressRefused(OSError):
    """Connections to the host's address are forbidden."""


class AddressGuard:
    """Creates the sockets for one request, to allowed addresses only."""

    def __init__(self, allowed_networks: Sequence[str], *, encrypted: bool) -> None:
        """Allow the networks and, on an encrypted connection, public addresses."""
        self._networks = [ip_network(network) for network in allowed_networks]
        self._encrypted = encrypted
        self.refused: AddressRefused | None = None
        """The last refusal; after several addresses, callers see only one error."""

    def socket_for(self, info: AddressInfo) -> socket.socket:
        """Return a socket for an allowed address, or raise AddressRefused."""
        family, kind, protocol, _, address = info
        try:
            self.check(str(address[0]))
        except AddressRefused as error:
            self.refused = error
            raise
        return socket.socket(family, kind, protocol)

    def check(self, address: str) -> None:
        """Check the address. Raise AddressRefused if it is neither allowed nor, on an encrypted connection, public."""
        # RFC 6890 lists what is not public; an IPv6 address can contain an IPv4 one, which then decides.
        target = _embedded_ipv4(ip_address(address.partition("%")[0]))
        if any(target in network for network in self._networks):
            return
        if not is_public(target):
            raise AddressRefused(f"{address} is not a public address; if it is meant, add it to `allowed_networks`")
        if not self._encrypted:
            raise AddressRefused(f"{address} is public, and http would show the token to all on the way; use https")


_NOWHERE: Final = tuple(
    ip_network(network)
    for network in ("fec0::/10", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20")
)
"""Site-local addresses (RFC 3879), and those for documentation (RFC 5737, 3849, 9637)."""


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return whether the address belongs to one machine on the open internet."""
    if isinstance(address, IPv6Address) and (address.teredo or address.sixtofour or address in _LOCAL_NAT64):
        return False  # a tunnel to an unknown target
    if any(address in network for network in _NOWHERE):
        return False
    return address.is_global and not (
        address.is_multicast or address.is_reserved or address.is_unspecified or address.is_loopback
    )


def _embedded_ipv4(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
