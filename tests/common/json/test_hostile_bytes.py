"""Any bytes may arrive: kernels that read them neither fail nor read past their end.

Reads past an end show only where kernels are built with checks, as CI runs this file too
(`FACETD_KERNELS=checked`): there they raise, elsewhere the answers are compared.
"""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from common.analysis.analyzer import Analyzer
from common.item_placement import hash_id
from common.json.depth_and_size import shape_of
from common.json.item_scanner import ItemError, ItemScanner, scan_item, validate_item
from common.limits import Limits

ANALYZER = Analyzer()
LIMITS = Limits(json_depth_max=4, item_fields_max=20)
beginnings = st.sampled_from(
    [b"", b"{", b'{"', b'{"a":"', b'{"a":"\\', b'{"a":"\\u', b'{"id":"\\ud83c', b'{"a":[1,', b"[[{"]
    + [b'{"a":' + b"9" * n for n in (7, 8, 9, 310)]
)
middles = st.binary(max_size=40) | st.sampled_from(
    [b"x" * 7, b"x" * 8, b"\\" * 15, b'"' * 9, b"[" * 70, b"\xf0\x9f\x8e", b"\xe2\x82", b"1e" * 9]
)
hostile = st.builds(lambda first, parts: first + b"".join(parts), beginnings, st.lists(middles))


@given(hostile)
def test_any_bytes_are_an_item_or_refused(body: bytes) -> None:
    error = validate_item(body)
    assert isinstance(scan_item(body), ItemError) == (error is not None)


@given(hostile, st.lists(st.integers(0, 400), max_size=4), st.booleans())
def test_any_body_is_read_in_any_pieces(body: bytes, cuts: list[int], is_array: bool) -> None:
    body = b"[" + body if is_array else body
    places = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    pieces = [body[start:end] for start, end in pairwise(places)]
    assert _read(pieces) == _read([body])


def _read(pieces: list[bytes]) -> list[tuple[int, str | bytes]]:
    """Return the items and the codes of the errors of a body, by position."""
    scanner = ItemScanner((), LIMITS)
    found: list[tuple[int, str | bytes]] = []
    for batch in [*map(scanner.feed, pieces), scanner.finish()]:
        found += [(int(batch.lines[i]), batch.item(i)) for i in range(batch.num_items)]
        found += [(error.position, error.code) for error in batch.errors]
    return sorted(found, key=lambda one: one[0])


@given(hostile)
def test_any_bytes_have_a_shape_and_a_hash(body: bytes) -> None:
    assert shape_of(body, 64).num_values >= 1
    assert hash_id(body) == hash_id(bytes(bytearray(body)))


@given(st.lists(st.text(max_size=30) | st.sampled_from(["日本語" * 50, "a" * 300, "́" * 70, "�"])))
def test_any_text_is_cut_into_words(parts: list[str]) -> None:
    text = "".join(parts)
    tokens = ANALYZER.tokenize(text, is_indexing=True)
    assert all(0 <= token.start < token.end <= len(text) for token in tokens)
    assert ANALYZER.fold(text) == " ".join(token.text for token in ANALYZER.tokenize(text))
