"""Which values are ids, and how ids are written."""

from __future__ import annotations

import pytest

from common.item_ids import canonical_id


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        (5, b"5"),
        ("5", b"5"),
        ("é", "é".encode()),
        (0, b"0"),
        (2**63 - 1, b"9223372036854775807"),
        (2**63, None),
        (-1, None),
        (True, None),
        ("", None),
        ("x" * 256, b"x" * 256),
        ("x" * 257, None),
        ("é" * 129, None),
        ("\ud800", None),
    ],
)
def test_canonical_id(value: int | str, canonical: bytes | None) -> None:
    assert canonical_id(value) == canonical
