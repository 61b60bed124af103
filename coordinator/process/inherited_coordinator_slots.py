"""The slots of several coordinators of one service: what each inherits from the supervisor.

    slot 0           the owner: makes all changes, and answers searches
    slots 1 to N-1   readers: answer searches, and pass everything else on to the owner

All listen on one port, each on a socket of its own (SO_REUSEPORT): the kernel spreads connections
over those that listen. The supervisor holds all sockets, so connections that arrive while a process
is being replaced wait for the next one, and no other program can take the port meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass

from coordinator.cluster.shared_memory import create_shared_state
from coordinator.http.listening import addresses
from coordinator.http.reader_coordinator_messages import create_exchange


@dataclass(frozen=True, slots=True)
class CoordinatorSlot:
    """One coordinator's slot.

    Attributes:
        ordinal: 0: the owner.
        state: descriptor of the shared memory.
        exchange: descriptor of this side's end of the exchange.
        listeners: descriptors of sockets, bound to the address.
    """

    ordinal: int
    state: int
    exchange: int
    listeners: tuple[int, ...]

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All inherited descriptors."""
        return (self.state, self.exchange, *self.listeners)

    def argument(self) -> str:
        """Return the slot as an argument of a command."""
        return ",".join(map(str, (self.ordinal, *self.descriptors)))

    @classmethod
    def of_argument(cls, text: str) -> CoordinatorSlot:
        """Return the slot that a command was given; its children do not inherit it."""
        ordinal, state, exchange, *listeners = map(int, text.split(","))
        for one in (state, exchange, *listeners):
            os.set_inheritable(one, False)
        return cls(ordinal, state, exchange, tuple(listeners))


class CoordinatorSlots:
    """All slots, created and held by the supervisor.

    Args:
        host: to listen on.
        port: to listen on; 0 takes a free one.
        number: of coordinators.

    Raises:
        OSError: another program listens there.

    Attributes:
        slots: by ordinal.
    """

    def __init__(self, host: str, port: int, number: int) -> None:
        self._listeners: list[list[socket.socket]] = [[] for _ in range(number)]
        with contextlib.ExitStack() as undo:
            undo.callback(self._close_listeners)
            for family, (ip, _, *others) in addresses(host, port):
                first = self._bound(family, (ip, port, *others), is_first=True)
                port = first.getsockname()[1]  # a free one, if 0; the same for all addresses
                self._listeners[0].append(first)
                for listeners in self._listeners[1:]:
                    listeners.append(self._bound(family, (ip, port, *others), is_first=False))
            undo.pop_all()
        self._state = create_shared_state(number)
        self._exchange = create_exchange()
        owners, readers = (one.fileno() for one in self._exchange)
        self.slots = [
            CoordinatorSlot(
                i, self._state, readers if i else owners, tuple(one.fileno() for one in listeners)
            )
            for i, listeners in enumerate(self._listeners)
        ]

    @staticmethod
    def _bound(family: int, address: tuple[object, ...], *, is_first: bool) -> socket.socket:
        """Return a socket that is bound; the first one listens, to have the port alone."""
        one = socket.socket(family, socket.SOCK_STREAM)
        try:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if not is_first:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            one.bind(address)
            if is_first:
                one.listen()
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        except BaseException:
            one.close()
            raise
        return one

    def first_listeners(self) -> list[socket.socket]:
        """Return copies of the owner's sockets, which listen already."""
        return [one.dup() for one in self._listeners[0]]

    def stop_listening(self) -> None:
        """Close the sockets; the copies that coordinators inherited stay open."""
        self._close_listeners()

    def close(self) -> None:
        """Close all descriptors."""
        self._close_listeners()
        os.close(self._state)
        for one in self._exchange:
            one.close()

    def _close_listeners(self) -> None:
        for listeners in self._listeners:
            for one in listeners:
                one.close()
