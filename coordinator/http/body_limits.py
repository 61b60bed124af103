"""How many bytes a body may have, and all bodies in memory together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.errors import Unavailable

if TYPE_CHECKING:
    from common.limits import Limits


class ByteLimit:
    """A limit on bytes, with its name for error messages."""

    __slots__ = ("limits", "name", "value")

    def __init__(self, limits: Limits, name: str) -> None:
        self.limits = limits
        self.name = name
        self.value: int = getattr(limits, name)


class ByteBudget:
    """Memory shared by the bodies of all requests.

    Args:
        bytes_max: of all bodies together.
    """

    __slots__ = ("bytes_max", "bytes_used")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_used = 0

    def take(self, num_bytes: int) -> None:
        """Take a share.

        Raises:
            Unavailable: code overloaded; nothing was taken.
        """
        if self.bytes_used + num_bytes > self.bytes_max:
            raise Unavailable(
                f"all bodies together have more than {self.bytes_max} bytes (limit "
                "bytes_in_flight_max); send this one again shortly",
                code="overloaded",
            )
        self.bytes_used += num_bytes

    def give_back(self, num_bytes: int) -> None:
        """Release a share."""
        self.bytes_used -= num_bytes
