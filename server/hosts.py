"""Hosts, as they are written in settings and headers."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens there."""
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)


def is_address(host: str) -> bool:
    """Whether it is an IP address and no name, which anybody can make to point anywhere."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
