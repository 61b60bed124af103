"""Listens on every address that a host name means, on one port."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator
from typing import Final

BACKLOG: Final = 1_024
_NO_SUCH_ADDRESS: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)


def addresses(host: str, port: int) -> Iterator[tuple[int, tuple[object, ...]]]:
    """Yield family and address of everything that a host name means, each once.

    Raises:
        OSError: the name is unknown.
    """
    seen = set()
    for family, _, _, _, address in socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    ):
        if (family, address) not in seen:
            seen.add((family, address))
            yield family, address


def listen(host: str, port: int) -> list[socket.socket]:
    """Return a listening socket for each address of a host.

    An address that this machine lacks is left out, if it has another: hosts files name `::1` on
    machines without IPv6.

    Args:
        host: address or name.
        port: of all; 0 takes a free one.

    Raises:
        OSError: nothing can listen there.
    """
    found: list[socket.socket] = []
    missing: OSError | None = None
    with contextlib.ExitStack() as undo:
        for family, (ip, _, *others) in addresses(host, port):
            address = (str(ip), port, *others)
            try:
                one = socket.create_server(address, family=family, backlog=BACKLOG)
            except OSError as error:
                if error.errno not in _NO_SUCH_ADDRESS:
                    raise
                missing = error
                continue
            found.append(undo.enter_context(one))
            port = one.getsockname()[1]
        undo.pop_all()
    if missing is not None and not found:
        raise missing
    return found
