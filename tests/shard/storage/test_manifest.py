"""A manifest is read as it was written, or not at all."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard.storage.manifest import (
    FORMAT,
    DictionaryEntry,
    IndexManifest,
    SegmentEntry,
    UnreadableManifest,
    read_manifest,
    write_manifest,
)

_PIECE = SegmentEntry(file="facets-1.seg", checksum="00ff", num_docs=0)
_MANIFEST = IndexManifest(
    format=FORMAT,
    number=1,
    name="films",
    revision=3,
    configuration={"aggregations": {}},
    next_record=17,
    next_file=4,
    txn_id=9,
    fields=("id", "titel.ß"),
    segments=(SegmentEntry(file="segment-2.seg", checksum="aa", num_docs=12),),
    dictionaries={"tags\n": DictionaryEntry(pieces=(_PIECE,), num_values=5)},
)


def test_manifest_comes_back(tmp_path: Path) -> None:
    write_manifest(tmp_path / "MANIFEST.json", _MANIFEST)

    assert read_manifest(tmp_path / "MANIFEST.json", IndexManifest) == _MANIFEST
    assert [path.name for path in tmp_path.iterdir()] == ["MANIFEST.json"]


def test_missing_manifest_is_none(tmp_path: Path) -> None:
    assert read_manifest(tmp_path / "MANIFEST.json", IndexManifest) is None


@given(st.data())
def test_any_change_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "MANIFEST.json"
    write_manifest(path, _MANIFEST)
    content = bytearray(path.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[position] ^= data.draw(st.integers(1, 255))
    else:
        del content[position:]
    path.write_bytes(content)

    with pytest.raises(UnreadableManifest):
        read_manifest(path, IndexManifest)


def test_other_format_is_refused(tmp_path: Path) -> None:
    newer = msgspec.structs.replace(_MANIFEST, format=FORMAT + 1)
    write_manifest(tmp_path / "MANIFEST.json", newer)

    with pytest.raises(UnreadableManifest, match="format 2"):
        read_manifest(tmp_path / "MANIFEST.json", IndexManifest)
