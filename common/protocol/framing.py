"""Frames: how messages are cut out of a TCP stream, and what a frame holds.

Questions answered here: where does one message end and the next begin; how large may a message be;
what is in it.

    stream   | word u32 LE | bytes | word u32 LE | bytes | ...
    word     kind << 30 | length; the kinds are
             0  length bytes follow: the body of a frame
             1  an attachment of this length begins; no bytes follow
             2  length bytes follow: the next ones of the attachment
             3  length bytes follow: the body of a frame to which the attachment belongs
    body     MessagePack array, one of
             [0, msgid, method, params, request ids, sent at, timeout]
                                             request; in milliseconds: the sender's clock, and how
                                             long the caller waits from then on (0: to the end)
             [1, msgid, error, result]       response; error: nil or [code, message, param, details]
             [2, nonce]                      challenge; the server's first frame, and no other

Why a length prefix instead of a streaming unpacker: the limit is checked before a byte of the body
is read, a broken body cannot corrupt the next one, and msgspec gets the body in one piece and
decodes it straight into the struct of the method. `params` and `result` stay raw (`msgspec.Raw`)
until the method or the waiting call gives their type. The request ids name the HTTP requests that
the call is made for (`common.process.request_id_context`), for the shard's log.

Megabytes (the items of a bulk) travel as an attachment: they are neither copied into a message nor
out of one, and since other frames may come between its pieces, a search need not wait for the
end.

Costs: a frame that arrives whole in one read (nearly all do) is a slice of what the event loop has
read, no copy. A larger one is collected in memory of its size: each byte is copied once.

Worked example: the request `ping` with msgid 7, no params, no request id and no timeout is
16 bytes,

    0c 00 00 00 | 97      | 00 | 07 | a4 70 69 6e 67 | c0  | 90      | 00 | 00
    length 12   | array 7 | 0  | 7  | "ping"         | nil | array 0 | 0  | 0
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import Raw, Struct

from common.decode_errors import UNDECODABLE
from common.errors import WireError

FRAME_BYTES_MAX = 512 * 1024 * 1024
"""Largest body of a frame after the handshake. Bounds what a defective peer can make us keep;
the largest real ones are the sort keys of a very deep page (24 bytes a hit: 22 million hits)."""

PIECE_BYTES = 256 * 1024
"""Bytes of an attachment that are sent at once: about 50 µs of both processes."""

HELLO_BYTES_MAX = 4096
"""Largest body of the first frame, whose sender is not authenticated yet."""

JOIN_BYTES_MAX = 64 * 1024
"""Up to here header and body are joined into one piece (a copy is cheaper than a second write)."""

_HEADER = struct.Struct("<I")
HEADER_BYTES = _HEADER.size

_LENGTH_MASK = (1 << 30) - 1
_WHOLE = 0
_ATTACHMENT = 1 << 30
_PIECE = 2 << 30
_WITH_ATTACHMENT = 3 << 30

Attachment = Sequence[bytes | memoryview]
"""Bytes that go with a call, in consecutive parts."""

Frame = tuple[memoryview, memoryview | None]
"""A received frame: a body, and its attachment if it has one."""


class FrameError(Exception):
    """The stream cannot be read further: a frame is over the limit or not what it should be.

    The next frame border is unknown after this, so the connection is closed.
    """


class RequestFrame(Struct, frozen=True, array_like=True, gc=False):
    """`[0, msgid, method, params, request_ids, sent_ms, timeout_ms]`."""

    kind: Literal[0]
    msgid: int
    method: str
    params: Raw
    request_ids: tuple[str, ...]
    sent_ms: int
    """On the sender's monotonic clock."""
    timeout_ms: int
    """How long the caller waits; 0: until the work is done."""


class ResponseFrame(Struct, frozen=True, array_like=True, gc=False):
    """`[1, msgid, error, result]`."""

    kind: Literal[1]
    msgid: int
    error: WireError | None
    result: Raw


_encode = msgspec.msgpack.Encoder().encode
_decode_request = msgspec.msgpack.Decoder(RequestFrame).decode
_decode_challenge = msgspec.msgpack.Decoder(tuple[Literal[2], bytes]).decode
_decode_response = msgspec.msgpack.Decoder(ResponseFrame).decode


def encode_request(
    msgid: int,
    method: str,
    params: Any,
    request_ids: tuple[str, ...] = (),
    sent_ms: int = 0,
    timeout_ms: int = 0,
) -> tuple[bytes, ...]:
    """Return the pieces of a request frame, in the order of writing."""
    return _frame(_encode((0, msgid, method, params, request_ids, sent_ms, timeout_ms)))


def encode_response(msgid: int, error: WireError | None, result: Any) -> tuple[bytes, ...]:
    """Return the pieces of a response frame, in the order of writing."""
    return _frame(_encode((1, msgid, error, result)))


def encode_challenge(nonce: bytes) -> tuple[bytes, ...]:
    """Return the pieces of a challenge frame."""
    return _frame(_encode((2, nonce)))


def decode_challenge(body: memoryview) -> bytes:
    """Read a challenge.

    Raises:
        FrameError: the body is not a challenge.
    """
    try:
        return _decode_challenge(body)[1]
    except UNDECODABLE as error:
        raise FrameError(f"undecodable challenge: {error}") from error


def decode_request(body: memoryview) -> RequestFrame:
    """Read a request; its params stay raw.

    Raises:
        FrameError: the body is not a request.
    """
    try:
        return _decode_request(body)
    except UNDECODABLE as error:
        raise FrameError(f"undecodable request: {error}") from error


def decode_response(body: memoryview) -> ResponseFrame:
    """Read a response; its result stays raw.

    Raises:
        FrameError: the body is not a response.
    """
    try:
        return _decode_response(body)
    except UNDECODABLE as error:
        raise FrameError(f"undecodable response: {error}") from error


def _frame(body: bytes) -> tuple[bytes, ...]:
    """Put the length in front of a body."""
    length = len(body)
    if length > FRAME_BYTES_MAX:
        raise FrameError(f"a frame of {length} bytes is over the limit of {FRAME_BYTES_MAX}")
    header = _HEADER.pack(length)
    if length <= JOIN_BYTES_MAX:
        return (header + body,)
    return (header, body)


def attach(pieces: tuple[bytes, ...], attachment: Attachment) -> Iterator[tuple[Any, ...]]:
    """Yield the wire form of a frame with an attachment, in portions of `PIECE_BYTES`.

    Args:
        pieces: of the frame.
        attachment: not empty.

    Raises:
        FrameError: it is over the limit; nothing was yielded.
    """
    parts = [memoryview(part).cast("B") for part in attachment]
    length = sum(map(len, parts))
    if length > FRAME_BYTES_MAX:
        raise FrameError(f"{length} bytes are over the limit of {FRAME_BYTES_MAX}")
    return _portions(b"".join(pieces), parts, length)


def _portions(
    frame: bytes, parts: Sequence[memoryview], length: int
) -> Iterator[tuple[bytes | memoryview, ...]]:
    yield (_HEADER.pack(_ATTACHMENT | length),)
    for part in parts:
        for at in range(0, len(part), PIECE_BYTES):
            piece = part[at : at + PIECE_BYTES]
            yield _HEADER.pack(_PIECE | len(piece)), piece
    body = frame[HEADER_BYTES:]
    yield _HEADER.pack(_WITH_ATTACHMENT | len(body)), body


def _room(length: int) -> memoryview:
    """Return memory to be filled; `bytearray` would write zeros first, all at once."""
    return np.empty(length, np.uint8).data


class FrameReader:
    """Cuts what arrives into frames; one per connection.

    Attributes:
        max_bytes: the limit in force; a server raises it once the peer is authenticated.
    """

    __slots__ = (
        "_attachment",
        "_head",
        "_is_attached",
        "_is_piece",
        "_num_attached",
        "_num_missing",
        "_target",
        "max_bytes",
    )

    def __init__(self, max_bytes: int = FRAME_BYTES_MAX) -> None:
        self.max_bytes = max_bytes
        self._head = b""  # of a header that was cut
        self._target: memoryview | None = None  # where the next bytes go
        self._num_missing = 0  # there
        self._is_piece = False  # whether that is the attachment
        self._is_attached = False  # or the body of the frame to which it belongs
        self._attachment: memoryview | None = None
        self._num_attached = 0

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next bytes of the stream and return the frames that they complete.

        Raises:
            FrameError: a frame announces more than the limit, or a piece belongs nowhere.
        """
        length = len(data) - HEADER_BYTES
        if (
            self._target is None
            and not self._head
            and int.from_bytes(data[:HEADER_BYTES], "little") == length <= self.max_bytes
        ):
            return [(memoryview(data)[HEADER_BYTES:], None)]  # nearly always: one frame, whole
        frames: list[Frame] = []
        if self._head:
            data, self._head = self._head + data, b""
        view = memoryview(data)
        start, end = 0, len(data)
        if self._target is not None:
            start = self._fill(view, frames)
        while end - start >= HEADER_BYTES:
            (word,) = _HEADER.unpack_from(data, start)
            length = word & _LENGTH_MASK
            if length > self.max_bytes:
                raise FrameError(f"a frame of {length} bytes is over the limit of {self.max_bytes}")
            start += HEADER_BYTES
            if word == length and end - start >= length:
                frames.append((view[start : start + length], None))
                start += length
            else:
                self._begin(word & ~_LENGTH_MASK, length)
                start += self._fill(view[start:], frames)
        if start < end:
            self._head = data[start:]
        return frames

    def _begin(self, kind: int, length: int) -> None:
        """Make room for the bytes that a header announces."""
        if kind == _WHOLE:
            self._target = _room(length)
        elif kind == _ATTACHMENT:
            if self._attachment is not None:
                raise FrameError("an attachment begins inside another one")
            self._attachment, self._num_attached = _room(length), 0
            return
        elif self._attachment is None:
            raise FrameError("a piece belongs to no attachment")
        elif kind == _PIECE:
            self._target = self._attachment[self._num_attached : self._num_attached + length]
            self._num_attached += length
            if len(self._target) < length:
                raise FrameError("an attachment is longer than announced")
        else:
            if self._num_attached < len(self._attachment):
                raise FrameError("an attachment is shorter than announced")
            self._target = _room(length)
            self._is_attached = True
        self._is_piece = kind == _PIECE
        self._num_missing = length

    def _fill(self, data: memoryview, frames: list[Frame]) -> int:
        """Store bytes in their target; add a complete frame to the others.

        Returns:
            How many it took.
        """
        target = self._target
        if target is None:
            return 0
        num_taken = min(self._num_missing, len(data))
        at = len(target) - self._num_missing
        target[at : at + num_taken] = data[:num_taken]
        self._num_missing -= num_taken
        if not self._num_missing:
            self._target = None
            if self._is_attached:
                frames.append((target, self._attachment))
                self._attachment, self._is_attached = None, False
            elif not self._is_piece:
                frames.append((target, None))
        return num_taken
