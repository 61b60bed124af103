"""Decompression in bounded parts, targets, and the budget of bodies."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable

import brotli
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.errors import InvalidRequest, Unavailable
from coordinator.http.body_limits import ByteBudget
from coordinator.http.request import origin_form
from coordinator.http.request_decompression import (
    COMPRESSED_PART_BYTES,
    GZIP_MEMBERS_MAX,
    INFLATED_CHUNK_BYTES,
    Inflater,
)

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda data: brotli.compress(data, quality=2),
    "raw deflate": lambda data: zlib.compress(data)[2:-4],
}


def inflate(encoding: str, data: bytes, piece_bytes: int) -> list[bytes]:
    """Return the parts that data inflate to when they arrive in pieces."""
    inflater = Inflater(encoding.removeprefix("raw "))
    pieces = [data[i : i + piece_bytes] for i in range(0, len(data), piece_bytes)]
    parts = [part for piece in pieces for part in inflater.feed(piece)]
    inflater.finish()
    return parts


@given(
    st.sampled_from(sorted(COMPRESS)),
    st.binary(max_size=60),
    st.sampled_from([0, 1, 2, 50, 10_000, 20_000]),
    st.integers(1, 5_000),
)
@example("br", bytes(25), 20_000, 1)  # the last byte brings more than the decoder hands out at once
def test_what_was_compressed_comes_back_in_bounded_parts(
    encoding: str, text: bytes, num_times: int, piece_bytes: int
) -> None:
    data = text * num_times
    parts = inflate(encoding, COMPRESS[encoding](data), piece_bytes)

    assert b"".join(parts) == data
    # Brotli ends a part when its buffer is full, which may be a block later.
    assert max(map(len, parts), default=0) <= 2 * INFLATED_CHUNK_BYTES


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
@pytest.mark.parametrize("piece_bytes", [1, 7, 1 << 20])
def test_stream_that_is_cut_off_is_refused(encoding: str, piece_bytes: int) -> None:
    data = COMPRESS[encoding](bytes(range(256)) * 50)

    with pytest.raises(InvalidRequest) as caught:
        inflate(encoding, data[:-3], piece_bytes)

    assert caught.value.code == "invalid_encoding"


@given(st.sampled_from(["gzip", "deflate", "br"]), st.binary(min_size=1, max_size=200))
def test_noise_is_inflated_or_refused(encoding: str, noise: bytes) -> None:
    try:
        inflate(encoding, noise, 50)
    except InvalidRequest as error:
        code = error.code
    else:
        code = "invalid_encoding"

    assert code == "invalid_encoding"


def test_gzip_of_several_members_is_one_body() -> None:
    data = gzip.compress(b"one,") + gzip.compress(b"two")

    assert b"".join(inflate("gzip", data, 3)) == b"one,two"


def test_gzip_members_are_bounded_by_their_bytes() -> None:
    empty = gzip.compress(b"")
    allowed = empty * GZIP_MEMBERS_MAX + gzip.compress(b"rest")
    assert b"".join(inflate("gzip", allowed, 1 << 20)) == b"rest"
    large = gzip.compress(bytes(random.Random(5).randbytes(1_000)))
    assert len(inflate("gzip", large * 2_000, 1 << 20)) >= 2_000

    with pytest.raises(InvalidRequest, match="members") as caught:
        inflate("gzip", empty * 100_000, 1 << 20)

    assert caught.value.code == "invalid_encoding"


def test_decoder_copies_little_of_what_follows_a_member(monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[int] = []
    real = zlib.decompressobj

    class Spy:
        def __init__(self, window_bits: int) -> None:
            self._real = real(window_bits)

        def decompress(self, data: bytes, max_length: int) -> bytes:
            fed.append(len(data))
            return self._real.decompress(data, max_length)

        def __getattr__(self, name: str) -> object:
            return getattr(self._real, name)

    monkeypatch.setattr(zlib, "decompressobj", Spy)
    data = gzip.compress(b"x") * 1_000

    assert b"".join(inflate("gzip", data, 1 << 20)) == b"x" * 1_000
    assert max(fed) <= COMPRESSED_PART_BYTES


def test_budget_is_never_exceeded_and_comes_back() -> None:
    budget = ByteBudget(100)
    budget.take(60)
    with pytest.raises(Unavailable):
        budget.take(41)
    budget.take(40)
    budget.give_back(100)

    assert budget.bytes_used == 0


def test_targets_of_proxies() -> None:
    assert origin_form("http://host:1/a?b=c") == "/a?b=c"
    assert origin_form("HTTPS://host") == "/"
    for wrong in ("host:80", "ftp://host/a", "a/b", ""):
        with pytest.raises(InvalidRequest):
            origin_form(wrong)
