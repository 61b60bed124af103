"""Frames and attachments on a stream, wherever it is cut, and streams that are not ours."""

import contextlib
import itertools
import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.protocol import framing
from common.protocol.framing import (
    FRAME_BYTES_MAX,
    JOIN_BYTES_MAX,
    FrameError,
    FrameReader,
    attach,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)


def _stream(bodies: list[bytes]) -> bytes:
    return b"".join(struct.pack("<I", len(body)) + body for body in bodies)


@given(
    bodies=st.lists(st.binary(max_size=50)),
    cuts=st.lists(st.integers(0, 500), max_size=20),
)
def test_frames_come_out_whole_wherever_the_stream_was_cut(
    bodies: list[bytes], cuts: list[int]
) -> None:
    stream = _stream(bodies)
    borders = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    reader = FrameReader()
    found: list[bytes] = []
    for start, end in itertools.pairwise(borders):
        found += [bytes(body) for body, _ in reader.feed(stream[start:end])]
    assert found == bodies
    assert [bytes(body) for body, _ in reader.feed(_stream([b"next"]))] == [b"next"]


@given(
    parts=st.lists(st.binary(max_size=40), min_size=1, max_size=3),
    between=st.lists(st.binary(max_size=10)),
    cuts=st.lists(st.integers(0, 500), max_size=20),
)
def test_an_attachment_arrives_with_its_frame_whatever_stands_between(
    parts: list[bytes], between: list[bytes], cuts: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "PIECE_BYTES", 7)
        portions = [b"".join(pieces) for pieces in attach((_stream([b"body"]),), parts)]
    assert max(map(len, portions)) <= 4 + 7
    stream = b"".join(
        one + other
        for one, other in itertools.zip_longest(
            portions, map(_stream, ([body] for body in between)), fillvalue=b""
        )
    )
    borders = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    reader = FrameReader()
    found = []
    for start, end in itertools.pairwise(borders):
        found += reader.feed(stream[start:end])
    ((body, attachment),) = [frame for frame in found if frame[1] is not None]
    assert attachment is not None
    assert (bytes(body), bytes(attachment)) == (b"body", b"".join(parts))
    assert not attachment.readonly
    assert [bytes(body) for body, none in found if none is None] == between
    assert [bytes(body) for body, _ in reader.feed(_stream([b"next"]))] == [b"next"]


def _words(*words: tuple[int, int]) -> bytes:
    """Headers of kinds and lengths, each with the bytes that it announces."""
    return b"".join(
        struct.pack("<I", kind << 30 | length) + bytes(0 if kind == 1 else length)
        for kind, length in words
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([(1, 5), (1, 5)], "inside another one"),
        ([(2, 5)], "belongs to no attachment"),
        ([(3, 5)], "belongs to no attachment"),
        ([(1, 5), (2, 6)], "longer than announced"),
        ([(1, 5), (2, 3), (2, 3)], "longer than announced"),
        ([(1, 5), (2, 4), (3, 1)], "shorter than announced"),
        ([(1, 101)], "over the limit of 100"),
    ],
)
def test_an_attachment_that_is_not_as_announced_ends_the_stream(
    words: list[tuple[int, int]], message: str
) -> None:
    with pytest.raises(FrameError, match=message):
        FrameReader(max_bytes=100).feed(_words(*words))


def test_an_attachment_over_the_limit_is_not_sent() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "FRAME_BYTES_MAX", 10)
        with pytest.raises(FrameError, match="over the limit"):
            attach((b"",), [b"x" * 6, b"y" * 5])
    assert FRAME_BYTES_MAX < 1 << 30


def test_a_frame_over_the_limit_is_refused_before_its_body_arrives() -> None:
    reader = FrameReader(max_bytes=10)
    assert [bytes(body) for body, _ in reader.feed(_stream([b"x" * 10]))] == [b"x" * 10]
    with pytest.raises(FrameError, match="over the limit of 10"):
        reader.feed(struct.pack("<I", 11))


@pytest.mark.parametrize("size", [0, 10, JOIN_BYTES_MAX + 1])
def test_request_and_response_survive_the_way(size: int) -> None:
    payload = b"x" * size
    ((body, _),) = FrameReader().feed(
        b"".join(encode_request(7, "put", [payload], ("a", "é"), 5, 9))
    )
    request = decode_request(body)
    assert (request.sent_ms, request.timeout_ms) == (5, 9)
    assert (request.msgid, request.method) == (7, "put")
    assert request.request_ids == ("a", "é")
    assert msgspec.msgpack.decode(request.params) == [payload]

    ((body, _),) = FrameReader().feed(b"".join(encode_response(7, None, payload)))
    response = decode_response(body)
    assert (response.msgid, response.error) == (7, None)
    assert msgspec.msgpack.decode(response.result) == payload


def test_the_worked_example_of_the_design_comment_is_true() -> None:
    expected = bytes.fromhex("0c000000 97 00 07 a470696e67 c0 90 00 00")
    assert b"".join(encode_request(7, "ping", None)) == expected


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", b"\x94\x00", msgspec.msgpack.encode([1, 2]), b"\x91" * 5_000]
)
def test_nonsense_is_a_frame_error(body: bytes) -> None:
    with pytest.raises(FrameError):
        decode_request(memoryview(body))
    with pytest.raises(FrameError):
        decode_response(memoryview(body))


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_frame_errors(data: bytes) -> None:
    def survive(function: Any, argument: Any) -> None:
        with contextlib.suppress(FrameError):
            function(argument)

    survive(FrameReader(1000).feed, data)
    survive(decode_request, memoryview(data))
    survive(decode_response, memoryview(data))
