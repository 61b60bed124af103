"""JSON and NDJSON: ids from fields, encodings."""

from __future__ import annotations

import codecs
import json
from pathlib import Path

import pytest

from coordinator.cli.sources.source import SourceError
from tests.coordinator.cli.sources.files import items_of, read


class TestJson:
    @pytest.mark.parametrize("content", ['[{"id":1},\n {"id":2}]', '{"id":1}\n{"id":2}\n'])
    @pytest.mark.parametrize("name", ["a.json", "a.ndjson", "a"])
    def test_it_is_sent_as_it_stands(self, tmp_path: Path, content: str, name: str) -> None:
        assert b"".join(read(tmp_path, content, name).pieces()) == content.encode()

    @pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
    def test_objects_may_be_spread_over_lines(self, tmp_path: Path, mark: bytes) -> None:
        """As `jq .` writes them; what is broken is sent as it is, at its own line."""
        text = (
            b'{\r\n "id": 1, "t": "}\\n{"\r\n}\n{\n "id": 2\n} {"id": 3}\n{\n "id":\n}\n{"id": 4}\n'
        )
        sent = b"".join(read(tmp_path, mark + text, "a.json").pieces()).removeprefix(mark)
        lines = sent.split(b"\n")
        assert [json.loads(lines[n]) for n in (0, 3, 5, 9)] == [
            {"id": 1, "t": "}\n{"},
            {"id": 2},
            {"id": 3},
            {"id": 4},
        ]
        assert lines[6:9] == [b"{", b' "id":', b"}"]
        assert not any(lines[n] for n in (1, 2, 4))

    @pytest.mark.parametrize("content", ['[{"k":1},\n {"k":"x"}]', '{"k":1}\n\n{"k":"x"}'])
    def test_ids_may_come_from_another_field(self, tmp_path: Path, content: str) -> None:
        source = read(tmp_path, content, "a.json", id_field="k")
        assert items_of(source) == [{"id": 1, "k": 1}, {"id": "x", "k": "x"}]
        with pytest.raises(SourceError, match="'j' must hold an integer or a text"):
            items_of(read(tmp_path, content, "a.json", id_field="j"))

    def test_ids_may_stand_in_objects_as_mongodb_exports_them(self, tmp_path: Path) -> None:
        content = '{"_id":{"$oid":"5f"},"a":1}\n{"_id":{"$oid":"60"},"_id.$oid":"named"}\n'
        source = read(tmp_path, content, "a.json", id_field="_id.$oid")
        assert [item["id"] for item in items_of(source)] == ["5f", "named"]

    @pytest.mark.parametrize("content", ['[{"k":1},{"k":"ü"}]', '{"k":1}\n{"k":"ü"}\n'])
    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
    def test_byte_order_marks_are_left_out(
        self, tmp_path: Path, content: str, encoding: str
    ) -> None:
        source = read(tmp_path, content.encode(encoding), "a.json", id_field="k")
        assert items_of(source) == [{"id": 1, "k": 1}, {"id": "ü", "k": "ü"}]
        sent = b"".join(read(tmp_path, content.encode(encoding), "a.json").pieces())
        assert sent.removeprefix(codecs.BOM_UTF8) == content.encode()

    def test_other_encodings_are_read_by_option(self, tmp_path: Path) -> None:
        content = '{"k":"ü"}'.encode("latin-1")
        assert items_of(read(tmp_path, content, "a.json", encoding="latin-1")) == [{"k": "ü"}]
        with pytest.raises(SourceError, match="is not utf-16-le; name its encoding"):
            items_of(read(tmp_path, b"\0\xdc{}", "a.json", encoding="utf-16-le"))
        with pytest.raises(SourceError, match="its last character is not whole"):
            items_of(read(tmp_path, b"{", "a.json", encoding="utf-16-le"))
