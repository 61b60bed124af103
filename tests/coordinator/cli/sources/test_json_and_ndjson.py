"""JSON and NDJSON: ids from fields, encodings, values with their places."""

from __future__ import annotations

import codecs
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.cli.sources import json_and_ndjson
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


NO_ARRAY = "a.json is not a JSON array of objects: "
LONG = [{"id": 1, "n": 2**70 + 1}, {"id": 2, "n": -(10**18), "t": "ä"}]


class TestParsedItems:
    @pytest.mark.parametrize("step", [1, 7, 1_000])
    @pytest.mark.parametrize("mark", ["", "\ufeff"])
    @pytest.mark.parametrize("is_array", [False, True])
    def test_pieces_cut_anywhere_give_exact_values(
        self, step: int, mark: str, is_array: bool
    ) -> None:
        texts = [json.dumps(item, ensure_ascii=False) for item in LONG]
        text = f"\n[{', '.join(texts)}]\n" if is_array else "\n\n".join(texts)
        data = (mark + text).encode()
        pieces = [data[at : at + step] for at in range(0, len(data), step)]
        found = list(json_and_ndjson.parsed_items(iter(pieces), "a.json"))
        assert [item for _, item in found] == LONG
        places = ("item 0", "item 1") if is_array else ("line 1", "line 3")
        assert [place for place, _ in found] == [f"a.json, {place}" for place in places]

    @pytest.mark.parametrize("text", ["[", ""])
    def test_no_more_is_read_than_the_items_wanted_need(self, text: str) -> None:
        num_read = 0

        def pieces() -> Iterator[bytes]:
            nonlocal num_read
            yield text.encode()
            for number in range(1_000):
                num_read += 1
                yield b'{"id": %d}%s\n' % (number, b"," if text else b"")

        items = json_and_ndjson.parsed_items(pieces(), "a.json")
        assert next(items)[1] == {"id": 0}
        assert num_read <= 2

    def test_what_cannot_become_an_array_of_objects_is_not_read_on(self) -> None:
        endless = itertools.chain([b"["], itertools.repeat(b"1, "))
        with pytest.raises(SourceError, match="is not a JSON array of objects"):
            next(json_and_ndjson.parsed_items(endless, "a.json"))

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('[{"id": 1}, {"id": 2} {"id": 3}]', f"{NO_ARRAY}after item 1, expected ',', found ''"),
            ('[{"id": 1}', f"{NO_ARRAY}after item 0, expected ']', found ''"),
            ('[{"id": 1}] "{}', f"{NO_ARRAY}after item 0, expected ']', found ']\"{{}}'"),
            ('[{"id": 1}, 5]', f"{NO_ARRAY}after item 0, expected ']', found ',5]'"),
            ('[{"id": 1},]', f"{NO_ARRAY}after item 0, expected ']', found ',]'"),
            ("[1,]", f"{NO_ARRAY}at its start, expected '[]', found '[1,]'"),
            ('[{"id": 1, "n": 1e400}]', "a.json, item 0: "),
            ('{"id": 1}\n{"id": 2', "a.json, line 2: "),
            ('{"id": 1}\n{"id": NaN}', "a.json, line 2: "),
            ("id,name\n1,a\n", "a.json, line 1: "),
            ('{"id": ' + "1" * 5_000 + "}", "a.json, line 1: "),
        ],
    )
    def test_what_is_not_json_is_an_error_with_its_place(self, text: str, message: str) -> None:
        with pytest.raises(SourceError) as caught:
            list(json_and_ndjson.parsed_items(iter([text.encode()]), "a.json"))
        assert str(caught.value).startswith(message)


def test_integers_stay_exact_when_ids_are_made(tmp_path: Path) -> None:
    for content in (
        '{"k": 1, "n": 123456789012345678901}',
        '[{"k": 1, "n": 18446744073709551616}]',
    ):
        source = read(tmp_path, content, "a.json", id_field="k")
        (item,) = items_of(source)
        assert item["n"] in (123456789012345678901, 18446744073709551616)
        assert isinstance(item["n"], int)


def test_an_item_that_is_nested_too_deep_is_named(tmp_path: Path) -> None:
    deep = '{"id": 12345678901234567890123, "a": ' + "[" * 1_000 + "]" * 1_000 + "}"
    source = read(tmp_path, '{"id": 1}\n' + deep, "a.ndjson", id_field="id")
    with pytest.raises(SourceError, match="line 2: values are nested too deep"):
        items_of(source)


def test_items_that_are_no_objects_have_no_id(tmp_path: Path) -> None:
    source = read(tmp_path, "[[1, 2], [3, 4]]", "a.json", id_field="0")
    with pytest.raises(SourceError, match="is not a JSON array of objects: at its start, "):
        items_of(source)
