"""Frames: how messages are cut out of a TCP stream, and what a frame holds.

Questions answered here: where does one message end and the next begin; how large may a message be;
what is in it.

    stream   | length u32 LE | body (length bytes) | length u32 LE | body | ...
    body     MessagePack array, one of
             [0, msgid, method, params, request ids]
                                             request
             [1, msgid, error, result]       response; error: nil or [code, message, param, details]
             [2, nonce]                      challenge; the server's first frame, and no other

A length in front instead of a streaming unpacker: the limit is checked before a byte of the body is
read, a broken body cannot confuse the next one, and the body reaches msgspec as one piece, which
decodes it straight into the struct that the method names. `params` and `result` stay raw
(`msgspec.Raw`) until the method or the waiting call has told their type. The request ids say for
which HTTP requests the call is made (`common.request_ids`), so that a shard's log can name them.

Costs: a frame that arrives whole in one read (nearly all do) is a slice of what the event loop has
read, no copy. A larger one is collected in one growing buffer: each byte is copied once.

Worked example: the request `ping` with msgid 7, no params and no request id is 14 bytes,

    0a 00 00 00 | 95      | 00 | 07 | a4 70 69 6e 67 | c0  | 90
    length 10   | array 5 | 0  | 7  | "ping"         | nil | array 0
"""

from __future__ import annotations

import struct
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from common.errors import WireError

MAX_FRAME_BYTES = 512 * 1024 * 1024
"""Greatest body of a frame after the handshake. Bounds what a defective peer can make us keep;
the largest real ones are the sort keys of a very deep page (24 bytes a hit: 22 million hits)."""

MAX_HELLO_BYTES = 4096
"""Greatest body of the first frame, which comes from someone who has not proven anything yet."""

JOIN_MAX_BYTES = 64 * 1024
"""Up to here header and body are joined into one piece (a copy is cheaper than a second write)."""

_HEADER = struct.Struct("<I")
HEADER_BYTES = _HEADER.size


class FrameError(Exception):
    """The stream cannot be read further: a frame is over the limit or not what it should be.

    There is no way back to a frame border after this, so the connection is closed.
    """


class Request(Struct, frozen=True, array_like=True, gc=False):
    """`[0, msgid, method, params, request_ids]`."""

    kind: Literal[0]
    msgid: int
    method: str
    params: Raw
    request_ids: tuple[str, ...]


class Response(Struct, frozen=True, array_like=True, gc=False):
    """`[1, msgid, error, result]`."""

    kind: Literal[1]
    msgid: int
    error: WireError | None
    result: Raw


_encode = msgspec.msgpack.Encoder().encode
_decode_request = msgspec.msgpack.Decoder(Request).decode
_decode_challenge = msgspec.msgpack.Decoder(tuple[Literal[2], bytes]).decode
_decode_response = msgspec.msgpack.Decoder(Response).decode


def encode_request(
    msgid: int, method: str, params: Any, request_ids: tuple[str, ...] = ()
) -> tuple[bytes, ...]:
    """Return the pieces of a request frame, to be written one after the other."""
    return _frame(_encode((0, msgid, method, params, request_ids)))


def encode_response(msgid: int, error: WireError | None, result: Any) -> tuple[bytes, ...]:
    """Return the pieces of a response frame, to be written one after the other."""
    return _frame(_encode((1, msgid, error, result)))


def encode_challenge(nonce: bytes) -> tuple[bytes, ...]:
    """Return the pieces of a challenge frame."""
    return _frame(_encode((2, nonce)))


def decode_challenge(body: memoryview) -> bytes:
    """Read a challenge.

    Raises:
        FrameError: the body is none.
    """
    try:
        return _decode_challenge(body)[1]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"undecodable challenge: {error}") from error


def decode_request(body: memoryview) -> Request:
    """Read a request; its params stay raw.

    Raises:
        FrameError: the body is no request.
    """
    try:
        return _decode_request(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"undecodable request: {error}") from error


def decode_response(body: memoryview) -> Response:
    """Read a response; its result stays raw.

    Raises:
        FrameError: the body is no response.
    """
    try:
        return _decode_response(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"undecodable response: {error}") from error


def _frame(body: bytes) -> tuple[bytes, ...]:
    """Put the length in front of a body."""
    length = len(body)
    if length > MAX_FRAME_BYTES:
        raise FrameError(f"a frame of {length} bytes is over the limit of {MAX_FRAME_BYTES}")
    header = _HEADER.pack(length)
    if length <= JOIN_MAX_BYTES:
        return (header + body,)
    return (header, body)


class FrameReader:
    """Cuts what arrives into frames; one per connection.

    Attributes:
        max_bytes: the limit in force; a server raises it when the peer has proven itself.
    """

    __slots__ = ("_needed", "_rest", "max_bytes")

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self.max_bytes = max_bytes
        self._rest: bytearray | None = None
        self._needed = 0  # bytes that `_rest` must have before looking at it can be of use

    def feed(self, data: bytes) -> list[memoryview]:
        """Take the next bytes of the stream and return the bodies of the frames that they complete.

        Raises:
            FrameError: a frame announces more than the limit.
        """
        buffer: bytes | bytearray = data
        if self._rest is not None:
            self._rest += data
            if len(self._rest) < self._needed:
                return []
            buffer, self._rest = self._rest, None
        bodies: list[memoryview] = []
        view = memoryview(buffer)
        start, end = 0, len(buffer)
        needed = HEADER_BYTES
        while end - start >= HEADER_BYTES:
            (length,) = _HEADER.unpack_from(buffer, start)
            if length > self.max_bytes:
                raise FrameError(f"a frame of {length} bytes is over the limit of {self.max_bytes}")
            needed = HEADER_BYTES + length
            if end - start < needed:
                break
            bodies.append(view[start + HEADER_BYTES : start + needed])
            start += needed
            needed = HEADER_BYTES
        if start < end:
            # A new buffer: `bodies` still looks into the old one, which must not be resized.
            self._rest = bytearray(view[start:])
            self._needed = needed
        return bodies

    @property
    def is_between_frames(self) -> bool:
        """Whether the stream may end here without cutting a frame."""
        return self._rest is None
