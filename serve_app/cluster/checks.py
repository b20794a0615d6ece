"""What `liveanchor serve` checks before it changes anything: its address can be had, and no running service loses what it has."""

from __future__ import annotations

import errno
import socket
from typing import Any

from kernels.errors import InvalidInputError


def refuse_takeover(found: dict[str, Any], host: str, port: int) -> None:
    """Refuse to change a cluster whose Ray Serve listens elsewhere than was asked: its users would lose what they have.

    Args:
        found: What Ray Serve says about the cluster.
        host: The address that was asked for.
        port: The port that was asked for.

    Raises:
        InvalidInputError: Applications run there under another address.
    """
    options = found.get("http_options") or {}
    here = (options.get("host") or "127.0.0.1", options.get("port") or 8000)
    if found.get("applications") and here != (host, port):
        raise InvalidInputError(
            "--port" if here[0] == host else "--host",
            f"{host}:{port}, but the Ray cluster of this machine already serves on {here[0]}:{here[1]}",
            f"--host {here[0]} --port {here[1]} to update what runs there, or another cluster by RAY_ADDRESS",
        )


def check_port_is_free(host: str, port: int) -> None:
    """Find out before Ray starts that the address is not this machine's, or that another process listens there already.

    Raises:
        InvalidInputError: The address cannot be bound; the flag whose value is the reason is named.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
                allowed = "an IPv4 address of this machine, 127.0.0.1 for itself alone, 0.0.0.0 for every interface"
                raise InvalidInputError("--host", f"{host} ({error.strerror})", allowed) from error
            raise InvalidInputError("--port", f"{host}:{port} ({error.strerror})", "a port that is free") from error
