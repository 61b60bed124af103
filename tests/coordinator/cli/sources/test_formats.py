"""What a source reads: each format, compressed or not, from a file, an address or a database."""

from __future__ import annotations

import bz2
import codecs
import contextlib
import datetime
import decimal
import functools
import gzip
import http.server
import io
import json
import lzma
import sqlite3
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import brotli
import pytest
import zstandard

from coordinator.cli.sources import formats, lists, rows
from coordinator.cli.sources.cells import ColumnKind
from coordinator.cli.sources.fetching import open_url
from coordinator.cli.sources.postgres import without_password
from coordinator.cli.sources.rows import plain
from coordinator.cli.sources.source import ReadOptions, Source, SourceError
from tests.facetd.scripted import serving

BOOKS = "id,title,year,price,new,zip,misc\n"
BOOKS += '1,"Sea, the\nsea",1978,9.5,true,01234,"[1,2]"\n'
BOOKS += "2,Dune,1965,7,False,90210,\n"
ITEMS = [
    {"id": 1, "title": "Sea, the\nsea", "year": 1978, "price": 9.5, "new": True, "zip": "01234",
     "misc": [1, 2]},
    {"id": 2, "title": "Dune", "year": 1965, "price": 7.0, "new": False, "zip": "90210"},
]  # fmt: skip


def items_of(source: Source) -> list[Any]:
    content = b"".join(source.pieces())
    if content.lstrip()[:1] == b"[":
        return list(json.loads(content))
    return [json.loads(line) for line in content.splitlines() if line.strip()]


def write(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def read(tmp_path: Path, content: str | bytes, name: str = "a.csv", **options: Any) -> Source:
    return formats.read(write(tmp_path / name, content), ReadOptions(**options))


class TestCsv:
    def test_kinds_are_found_over_the_whole_file(self, tmp_path: Path) -> None:
        source = read(tmp_path, BOOKS)
        assert items_of(source) == ITEMS
        kinds = {column.name: column.kind for column in source.columns}
        assert kinds == {
            "id": "integer, the id",
            "title": "text",
            "year": "integer",
            "price": "number",
            "new": "boolean",
            "zip": "text",
            "misc": "json",
        }
        assert source.num_items == 2

    @pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
    def test_delimiters_are_found(self, tmp_path: Path, delimiter: str) -> None:
        content = "a,b,c\n1,x y,2\n3,z,4\n".replace(",", delimiter)
        assert items_of(read(tmp_path, content))[0] == {"a": 1, "b": "x y", "c": 2}

    def test_tsv_and_a_delimiter_by_option(self, tmp_path: Path) -> None:
        assert items_of(read(tmp_path, "a\tb,c\n1\t2\n", "x.tsv")) == [{"a": 1, "b,c": 2}]
        assert items_of(read(tmp_path, "a:b\n1:2\n", delimiter=":")) == [{"a": 1, "b": 2}]

    @pytest.mark.parametrize(
        ("cell", "value"),
        [
            ("12,50", 12.5),
            ("1.299,00", 1299.0),
            ("-1.234.567,5", -1234567.5),
            ("7", 7.0),
            ("1.500", 1500.0),
            ("2,5e3", 2500.0),
            ("12.50", "12.50"),
            ("1,299.00", "1,299.00"),
            ("0.123", "0.123"),
            (",5", ",5"),
        ],
    )
    def test_decimal_commas(self, tmp_path: Path, cell: str, value: float | str) -> None:
        source = read(tmp_path, f"a;b\n1;{cell}\n2;1,5\n", decimal=",")
        assert items_of(source)[0] == {"a": 1, "b": value}

    @pytest.mark.parametrize(
        ("cells", "example"),
        [
            (["1", "2,5"], "2,5"),
            (["2,5", "3,75"], "2,5"),
            (["1,299", "2,300"], ""),
            (["2,5", "x"], ""),
            (["2,5", "1.25"], ""),
            (["1", "2"], ""),
        ],
    )
    def test_decimal_commas_are_found(self, tmp_path: Path, cells: list[str], example: str) -> None:
        rows = "\n".join(f"{cell};x" for cell in cells)
        assert read(tmp_path, f"a;b\n{rows}\n").columns[0].comma_example == example

    @pytest.mark.parametrize(
        ("cell", "value"),
        [
            ("1,299.50", 1299.5),
            ("-12,345,678", -12345678.0),
            ("7", 7.0),
            ("1,23", None),
            ("0,123", None),
            ("1,299,00", None),
            ("12,5", None),
        ],
    )
    def test_numbers_in_groups_are_read_where_the_user_says_so(
        self, tmp_path: Path, cell: str, value: float | None
    ) -> None:
        source = read(tmp_path, f"a;b\n1;{cell}\n", kinds={"b": "number"})
        assert items_of(source) == ([] if value is None else [{"a": 1, "b": value}])
        assert source.num_bad == (value is None)
        assert read(tmp_path, f"a;b\n1;{cell}\n").columns[1].kind == (
            "integer" if cell == "7" else "text"
        )

    @pytest.mark.parametrize(
        ("cells", "example"),
        [
            (["1", "1,299"], "1,299"),
            (["1,299.00", "12,345,678"], "1,299.00"),
            (["1,299", "x"], ""),
            (["1,299", "1,5"], ""),
            (["1", "2"], ""),
        ],
    )
    def test_numbers_in_groups_are_found(
        self, tmp_path: Path, cells: list[str], example: str
    ) -> None:
        rows = "\n".join(f"{cell};x" for cell in cells)
        assert read(tmp_path, f"a;b\n{rows}\n").columns[0].group_example == example

    @pytest.mark.parametrize("start", ["sep=;", '"sep=;"', "\ufeffSEP=;", "\ufeffsep=;\r"])
    def test_a_first_line_may_name_the_delimiter(self, tmp_path: Path, start: str) -> None:
        source = read(tmp_path, f"{start}\nid;a,b,c\n1;x,y,z\n2\n")
        assert items_of(source) == [{"id": 1, "a,b,c": "x,y,z"}]
        assert [row.place for row in source.bad_rows] == ["line 4"]

    def test_a_delimiter_by_option_comes_before_the_one_of_the_file(self, tmp_path: Path) -> None:
        source = read(tmp_path, "sep=;\nid:a\n1:2\n", delimiter=":")
        assert items_of(source) == [{"id": 1, "a": 2}]

    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
    def test_byte_order_marks(self, tmp_path: Path, encoding: str) -> None:
        assert items_of(read(tmp_path, "é,b\nü,2\n".encode(encoding))) == [{"é": "ü", "b": 2}]

    def test_other_encodings_are_named(self, tmp_path: Path) -> None:
        content = "a,b\né,2\n".encode("latin-1")
        with pytest.raises(SourceError, match="name its encoding, for example --encoding latin-1"):
            read(tmp_path, content)
        assert items_of(read(tmp_path, content, encoding="latin-1")) == [{"a": "é", "b": 2}]
        marked = "a,b\né,2\n".encode("utf-8-sig")
        assert items_of(read(tmp_path, marked, encoding="utf8")) == [{"a": "é", "b": 2}]

    def test_text_of_another_encoding_than_named(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="is not utf-16 near line 1; name its encoding"):
            items_of(read(tmp_path, "a,b\n1,2\n", encoding="utf-16"))

    @pytest.mark.parametrize("encoding", ["klingon", "hex", "idna", "a\0b"])
    @pytest.mark.parametrize("name", ["a.csv", "a.json"])
    def test_unknown_encodings(self, tmp_path: Path, encoding: str, name: str) -> None:
        with pytest.raises(SourceError, match="is no encoding of text; there are utf-8, utf-16"):
            read(tmp_path, "[]", name, encoding=encoding)

    @pytest.mark.parametrize("start", [b"PK\x03\x04\x14", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0"])
    @pytest.mark.parametrize("name", ["a.xlsx", "a.csv", "a"])
    def test_workbooks_are_no_text(self, tmp_path: Path, start: bytes, name: str) -> None:
        with pytest.raises(SourceError, match=r"is an Excel workbook or a ZIP file.* as CSV"):
            read(tmp_path, start + bytes(100), name)

    @pytest.mark.parametrize("start", ["<!DOCTYPE html>", "\ufeff\n<html lang=en>", "<HTML>"])
    @pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a"])
    def test_a_web_page_is_no_table(self, tmp_path: Path, start: str, name: str) -> None:
        with pytest.raises(SourceError, match="is a web page, not a table"):
            read(tmp_path, f"{start}<body>Not found</body>\n", name)

    @pytest.mark.parametrize(
        ("start", "message"),
        [
            (bz2.compress(b'{"id":1}'), r"is compressed by bzip2, not text; .*bzcat"),
            (lzma.compress(b'{"id":1}'), r"is compressed by xz, not text; .*xzcat"),
            (b"%PDF-1.4\n\x00\xff", "is a PDF, not text"),
            (b"<?xml version='1.0'?><a/>", "is XML, which is not read"),
            (b"\0" * 1024, "is a tar archive, not text; unpack the file"),
            (b"a.csv".ljust(257, b"\0") + b"ustar\x0000", "is a tar archive"),
        ],
    )
    @pytest.mark.parametrize("name", ["a.csv", "a.json.xz", "a"])
    def test_other_files_are_no_tables(
        self, tmp_path: Path, start: bytes, message: str, name: str
    ) -> None:
        with pytest.raises(SourceError, match=message):
            read(tmp_path, start, name)

    def test_another_format_is_no_table_of_one_column(self, tmp_path: Path) -> None:
        yaml = "- id: 1\n  title: Sea\n"
        with pytest.raises(SourceError, match=r"\.yaml is no format that is read; they are csv"):
            read(tmp_path, yaml, "a.yaml")
        assert len(items_of(read(tmp_path, yaml, "a.yaml", style="csv"))) == 1
        for name in ("a", "a.txt", "a.csv"):
            assert items_of(read(tmp_path, "word\nsea\n", name)) == [{"word": "sea"}]
        assert items_of(read(tmp_path, "a;b\n1;2\n", "a.export")) == [{"a": 1, "b": 2}]

    def test_what_begins_like_another_file(self, tmp_path: Path) -> None:
        assert items_of(read(tmp_path, "<a>,b\n1,2\n")) == [{"<a>": 1, "b": 2}]
        assert items_of(read(tmp_path, "BZ,b\n1,2\n")) == [{"BZ": 1, "b": 2}]

    def test_a_quote_that_is_never_closed(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match=r"line 2: a quote .* is never closed"):
            list(items_of(read(tmp_path, 'id,t\n1,"a\n2,b\n')))

    def test_ids_of_another_column(self, tmp_path: Path) -> None:
        source = read(tmp_path, "isbn,t\n0123,a\n9,b\n", id_field="isbn")
        assert items_of(source) == [
            {"id": "0123", "isbn": "0123", "t": "a"},
            {"id": "9", "isbn": "9", "t": "b"},
        ]
        assert items_of(read(tmp_path, "ID,t\n-1,a\n"))[0] == {"id": "-1", "t": "a"}

    def test_kinds_and_lists_by_option(self, tmp_path: Path) -> None:
        source = read(tmp_path, "a,b\n1,x | y|\n2,\n", kinds={"a": "text"}, separators={"b": "|"})
        assert items_of(source) == [{"a": "1", "b": ["x", "y"]}, {"a": "2"}]

    def test_a_first_column_without_a_name_numbers_the_rows(self, tmp_path: Path) -> None:
        """So do pandas and R write tables."""
        source = read(tmp_path, ",a\n0,x\n1,y\n")
        assert items_of(source) == [{"row": 0, "a": "x"}, {"row": 1, "a": "y"}]
        assert items_of(read(tmp_path, '"",a\n7,x\n', id_field="row"))[0]["id"] == 7

    def test_parts_of_lists_may_recur_as_whole_cells(self, tmp_path: Path) -> None:
        """As the authors of books do, most of whom have written alone."""
        authors = ["Ann|Bob", "Ann", "Bob", "Ann|Cy"]
        source = read(tmp_path, "\n".join(["by", *authors, ""]))
        assert source.columns[0].separator == "|"
        titles = ["Sea; a tale", "Sea; a poem", "Moby-Dick", "Ann", "It"]
        source = read(tmp_path, "\n".join(["title,n", *(f"{one},1" for one in titles), ""]))
        assert source.columns[0].separator == ""

    def test_the_first_parts_decide_about_lists(self, tmp_path: Path) -> None:
        pairs = [f"p{n}|p{n + 1}" for n in range(2 * lists.PARTS_MAX)]
        source = read(tmp_path, "\n".join(["by", *pairs, ""]))
        assert source.columns[0].separator == "|"

    def test_bad_rows_are_named_by_their_lines(self, tmp_path: Path) -> None:
        content = 'id,a\n1,"x\ny"\n2\n\n3,4,5\n,6\n7,8\n'
        source = read(tmp_path, content)
        assert [(row.place, row.message.split(";")[0]) for row in source.bad_rows] == [
            ("line 4", "1 cell, and the header has 2"),
            ("line 6", "3 cells, and the header has 2"),
            ("line 7", "id is empty, and it is to be the id"),
        ]
        assert items_of(source) == [{"id": 1, "a": "x\ny"}, {"id": 7, "a": "8"}]
        assert [source.place_of(1), source.place_of(2)] == ["line 2", "line 8"]

    @pytest.mark.parametrize(
        ("content", "options", "message"),
        [
            ("", {}, "is empty"),
            ("a,,b\n", {}, "column 2 has no name"),
            (",,row\n", {}, "column 1 has no name"),
            ("a,a\n", {}, "two columns are called 'a'"),
            ("a,b\n", {"id_field": "c"}, "no column 'c'; its columns are a, b"),
            ("a,b\n", {"kinds": {"c": "text"}}, "--type: .* no column 'c'"),
            ("a,b\n", {"kinds": {"a": "date"}}, "'date' is none of text, integer"),
            ('a,b\n1,"x\n', {}, "line 2"),
        ],
    )
    def test_mistakes_say_what_would_be_valid(
        self, tmp_path: Path, content: str, options: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(SourceError, match=message):
            items_of(read(tmp_path, content, **options))

    @pytest.mark.parametrize(
        ("cells", "kind"),
        [
            (["1", " 2 ", ""], "integer"),
            (["1", "2.5"], "number"),
            (["1", "true"], "text"),
            (["007"], "text"),
            (["18446744073709551615", "-9223372036854775808"], "integer"),
            (["18446744073709551616"], "number"),
            (["1e400"], "text"),
            (["TRUE", "false"], "boolean"),
            (["[1]", '{"a":2}'], "json"),
            (["[1"], "text"),
            (["١"], "text"),
            ([], "text"),
            (["nan"], "text"),
        ],
    )
    def test_a_column_is_what_all_its_cells_are(self, cells: list[str], kind: str) -> None:
        column = ColumnKind()
        for cell in cells:
            column.add(cell)
        assert column.kind == kind


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, "boolean"),
        (7, "integer"),
        (2**70, "text"),
        (1.5, "number"),
        (decimal.Decimal("1.50"), "number"),
        (decimal.Decimal("7"), "number"),
        ("a", "text"),
        (datetime.date(2026, 1, 2), "date"),
        (datetime.datetime(2026, 1, 2), "date"),
        (datetime.time(1, 2), "text"),
        ([1], "list"),
        ({"a": 1}, "json"),
        (uuid.UUID(int=1), "text"),
        (None, "null"),
        (b"x", "not loaded"),
        (float("nan"), "number"),
    ],
)
def test_kinds_of_values_of_databases(value: Any, kind: str) -> None:
    assert rows.kind_of(value) == kind


class TestJson:
    @pytest.mark.parametrize("content", ['[{"id":1},\n {"id":2}]', '{"id":1}\n{"id":2}\n'])
    @pytest.mark.parametrize("name", ["a.json", "a.ndjson", "a"])
    def test_it_is_sent_as_it_stands(self, tmp_path: Path, content: str, name: str) -> None:
        assert b"".join(read(tmp_path, content, name).pieces()) == content.encode()

    @pytest.mark.parametrize("content", ['[{"k":1},\n {"k":"x"}]', '{"k":1}\n\n{"k":"x"}'])
    def test_ids_of_another_field(self, tmp_path: Path, content: str) -> None:
        source = read(tmp_path, content, "a.json", id_field="k")
        assert items_of(source) == [{"id": 1, "k": 1}, {"id": "x", "k": "x"}]
        with pytest.raises(SourceError, match="'j' must hold an integer or a text"):
            items_of(read(tmp_path, content, "a.json", id_field="j"))

    def test_ids_in_objects_as_mongodb_exports_them(self, tmp_path: Path) -> None:
        content = '{"_id":{"$oid":"5f"},"a":1}\n{"_id":{"$oid":"60"},"_id.$oid":"named"}\n'
        source = read(tmp_path, content, "a.json", id_field="_id.$oid")
        assert [item["id"] for item in items_of(source)] == ["5f", "named"]

    @pytest.mark.parametrize("content", ['[{"k":1},{"k":"ü"}]', '{"k":1}\n{"k":"ü"}\n'])
    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
    def test_byte_order_marks(self, tmp_path: Path, content: str, encoding: str) -> None:
        source = read(tmp_path, content.encode(encoding), "a.json", id_field="k")
        assert items_of(source) == [{"id": 1, "k": 1}, {"id": "ü", "k": "ü"}]
        sent = b"".join(read(tmp_path, content.encode(encoding), "a.json").pieces())
        assert sent.removeprefix(codecs.BOM_UTF8) == content.encode()

    def test_other_encodings_by_option(self, tmp_path: Path) -> None:
        content = '{"k":"ü"}'.encode("latin-1")
        assert items_of(read(tmp_path, content, "a.json", encoding="latin-1")) == [{"k": "ü"}]
        with pytest.raises(SourceError, match="is not utf-16-le; name its encoding"):
            items_of(read(tmp_path, b"\0\xdc{}", "a.json", encoding="utf-16-le"))
        with pytest.raises(SourceError, match="its last character is not whole"):
            items_of(read(tmp_path, b"{", "a.json", encoding="utf-16-le"))


class TestCompression:
    @pytest.mark.parametrize(
        ("suffix", "compress"),
        [
            (".gz", gzip.compress),
            (".zst", zstandard.ZstdCompressor().compress),
            (".br", brotli.compress),
        ],
    )
    def test_both_kinds_of_files(self, tmp_path: Path, suffix: str, compress: Any) -> None:
        content = compress(BOOKS.encode())
        assert items_of(read(tmp_path, content, f"a.csv{suffix}")) == ITEMS
        lines = b"".join(json.dumps(item).encode() + b"\n" for item in ITEMS * 2000)
        assert len(items_of(read(tmp_path, compress(lines), f"a.ndjson{suffix}"))) == 4000
        for name in ("a.csv", "a.ndjson"):
            more = compress(lines) * (suffix != ".br")  # several members, several frames
            assert (
                len(items_of(read(tmp_path, compress(lines) + more, f"n.ndjson{suffix}"))) >= 4000
            )
            with pytest.raises(SourceError, match="cut off or damaged"):
                items_of(read(tmp_path, compress(lines)[:-20], f"{name}{suffix}"))

    def test_the_name_need_not_tell(self, tmp_path: Path) -> None:
        assert items_of(read(tmp_path, gzip.compress(BOOKS.encode()), "books")) == ITEMS
        assert items_of(read(tmp_path, gzip.compress(BOOKS.encode()), "books.zst")) == ITEMS

    @pytest.mark.parametrize("content", [BOOKS.encode(), b"<!doctype html>", b"", b"\x1f"])
    @pytest.mark.parametrize("suffix", [".gz", ".zst", ".zstd"])
    def test_plain_text_under_a_compressed_name_is_refused(
        self, tmp_path: Path, suffix: str, content: bytes
    ) -> None:
        with pytest.raises(SourceError, match="is not compressed, although its name says so"):
            read(tmp_path, content, f"books.csv{suffix}")

    def test_skipped_frames_of_zstandard(self, tmp_path: Path) -> None:
        frame = zstandard.ZstdCompressor().compress(BOOKS.encode())
        skipped = b"\x50\x2a\x4d\x18" + (10).to_bytes(4, "little") + b"0123456789"
        assert items_of(read(tmp_path, skipped + frame, "books.csv.zst")) == ITEMS


class TestStdinAndAddresses:
    def test_stdin_is_read_once_and_inspected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Stdin:
            buffer = io.BytesIO(gzip.compress(BOOKS.encode()))

        monkeypatch.setattr("sys.stdin", Stdin)
        assert items_of(formats.read("-", ReadOptions())) == ITEMS

    def test_an_address_is_fetched(self, tmp_path: Path) -> None:
        write(tmp_path / "books.csv.gz", gzip.compress(BOOKS.encode()))
        write(tmp_path / "books.json", json.dumps(ITEMS))
        write(tmp_path / "plain.csv.gz", BOOKS)
        handler = functools.partial(_Quiet, directory=str(tmp_path))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            url = f"http://127.0.0.1:{server.server_address[1]}"
            assert items_of(formats.read(f"{url}/books.csv.gz?x=1", ReadOptions())) == ITEMS
            assert items_of(formats.read(f"{url}/books.json", ReadOptions())) == ITEMS
            with pytest.raises(SourceError, match="is not compressed, although"):
                formats.read(f"{url}/plain.csv.gz?x=1", ReadOptions())
            with pytest.raises(SourceError, match="answers 404"):
                formats.read(f"{url}/none.csv", ReadOptions())
        finally:
            server.shutdown()
            server.server_close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class TestParquet:
    def test_types_stand_in_the_file(self, tmp_path: Path) -> None:
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        day = datetime.date(2026, 1, 2)
        table = arrow.table({"ID": [1, 2], "day": [day, None], "tags": [["a"], []]})
        path = tmp_path / "x.parquet"
        parquet.write_table(table, path)
        expected = [{"id": 1, "day": "2026-01-02", "tags": ["a"]}, {"id": 2, "tags": []}]
        source = formats.read(str(path), ReadOptions())
        assert items_of(source) == expected
        assert source.num_items == 2
        packed = write(tmp_path / "y.parquet.gz", gzip.compress(path.read_bytes()))
        assert items_of(formats.read(packed, ReadOptions())) == expected
        assert (
            items_of(formats.read(str(path), ReadOptions(id_field="day")))[0]["id"] == "2026-01-02"
        )
        with pytest.raises(SourceError, match="is no Parquet file"):
            read(tmp_path, "no", "z.parquet")


class TestDatabases:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Iterator[Path]:
        path = tmp_path / "shop.db"
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE product (id INTEGER, name TEXT, price REAL, photo BLOB)")
        connection.execute("INSERT INTO product VALUES (1, 'sea', 2.5, x'00'), (2, NULL, 3, NULL)")
        connection.commit()
        yield path
        connection.close()

    def test_sqlite(self, path: Path) -> None:
        expected = [{"id": 1, "name": "sea", "price": 2.5}, {"id": 2, "price": 3.0}]
        assert items_of(formats.read(str(path), ReadOptions())) == expected
        assert items_of(formats.read(f"sqlite://{path}", ReadOptions(table="product"))) == expected
        packed = write(path.parent / "packed.db.gz", gzip.compress(path.read_bytes()))
        assert items_of(formats.read(packed, ReadOptions())) == expected
        found = formats.read(
            str(path), ReadOptions(query="SELECT name AS n FROM product WHERE id=1")
        )
        assert items_of(found) == [{"n": "sea"}]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"query": "SELEKT"}, "syntax error"),
            ({"table": "none"}, "no such table"),
            ({"query": "SELECT 1 AS a, 2 AS a"}, "two columns are called 'a'"),
            ({"id_field": "x"}, "no column 'x'; its columns are id, name"),
        ],
    )
    def test_mistakes(self, path: Path, options: dict[str, Any], message: str) -> None:
        with pytest.raises(SourceError, match=message):
            items_of(formats.read(str(path), ReadOptions(**options)))

    def test_kinds_that_the_values_do_not_show(self, tmp_path: Path) -> None:
        path = str(tmp_path / "a.sqlite")
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE a (id INT, is_new BOOL, tags TEXT, more TEXT, day TEXT)")
        connection.execute("""INSERT INTO a VALUES (1, 1, 'x|y', '{"b": 2}', '31.12.2024')""")
        connection.execute("INSERT INTO a VALUES (2, 0, NULL, NULL, NULL)")
        connection.commit()
        options = ReadOptions(kinds={"more": "json", "day": "dmy"}, separators={"tags": "|"})
        first = {"id": 1, "is_new": True, "tags": ["x", "y"], "more": {"b": 2}, "day": "2024-12-31"}
        source = formats.read(path, options)
        assert [one.kind for one in source.columns] == [
            *("integer, the id", "boolean", "list", "json", "dmy")
        ]
        assert items_of(source) == [first, {"id": 2, "is_new": False}]
        asked = ReadOptions(query="SELECT is_new FROM a", kinds={"is_new": "boolean"})
        assert items_of(formats.read(path, asked)) == [{"is_new": True}, {"is_new": False}]
        for wrong, message in (
            ({"day": "json"}, r"row 1: 'day' holds '31\.12\.2024', which is no json"),
            ({"dya": "dmy"}, "--type: the result has no column 'dya'; its columns are id"),
            ({"day": "date"}, "'date' is none of text, integer"),
        ):
            with pytest.raises(SourceError, match=message):
                items_of(formats.read(path, ReadOptions(kinds=wrong)))
        connection.execute("UPDATE a SET is_new = 7 WHERE id = 2")
        connection.commit()
        connection.close()
        with pytest.raises(SourceError, match="row 2: 'is_new' is declared as a boolean and holds"):
            items_of(formats.read(path, ReadOptions()))
        numbers = formats.read(path, ReadOptions(kinds={"is_new": "integer"}))
        assert [one["is_new"] for one in items_of(numbers)] == [1, 7]

    @pytest.mark.parametrize(
        "options", [{"delimiter": ";"}, {"decimal": ","}, {"encoding": "latin-1"}]
    )
    def test_options_about_texts_are_refused(self, path: Path, options: dict[str, Any]) -> None:
        for name in (str(path), f"sqlite://{path}", "postgres://a@127.0.0.1:1/x"):
            with pytest.raises(SourceError, match=f"--{next(iter(options))} is for"):
                formats.read(name, ReadOptions(table="product", **options))

    def test_several_tables_are_named(self, path: Path) -> None:
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE shop (id INTEGER)")
        connection.close()
        with pytest.raises(SourceError, match="its tables are product, shop"):
            formats.read(str(path), ReadOptions())

    @pytest.mark.parametrize(
        "url", ["postgres://a:secret@127.0.0.1:1/x", "mysql://a:secret@127.0.0.1:1/x"]
    )
    def test_a_server_that_is_not_there(self, url: str) -> None:
        with pytest.raises(SourceError, match=r"name a --table .*:…@"):
            formats.read(url, ReadOptions())
        with pytest.raises(SourceError) as raised:
            formats.read(url, ReadOptions(table="t"))
        assert "secret" not in str(raised.value)

    def test_values_without_a_form_in_json(self) -> None:
        number = decimal.Decimal
        assert plain({"a": number("1.50"), "b": number("7"), "c": number("NaN"), "d": b"x"}) == {
            "a": 1.5,
            "b": 7,
        }
        assert plain([float("inf"), 2**70, {1}]) == [str(2**70), [1]]
        moment = datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.UTC)
        assert plain((moment, datetime.timedelta(minutes=2))) == [
            "2026-01-02T03:04:00+00:00",
            120.0,
        ]
        assert plain(uuid.UUID(int=1)) == "00000000-0000-0000-0000-000000000001"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://a:b%40c@h/x", "postgres://a:…@h/x"),
        ("postgres://a@h/x", "postgres://a@h/x"),
        ("postgres://a:b:c@[::1/x", "postgres://a:…@[::1/x"),
        ("postgres://h/x?password=b&sslmode=require", "postgres://h/x?password=…&sslmode=require"),
    ],
)
def test_passwords_are_not_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize("name", ["a#b.db", "a?b.db", "100%41.db"])
def test_a_database_may_have_any_name(tmp_path: Path, name: str) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / name)) as connection:
        connection.execute("CREATE TABLE t (id INTEGER, x TEXT)")
        connection.execute("INSERT INTO t VALUES (1, 'a')")
        connection.commit()
    for source in (str(tmp_path / name), f"sqlite://{quote(str(tmp_path / name))}"):
        assert items_of(formats.read(source, ReadOptions())) == [{"id": 1, "x": "a"}]
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    "name", ["http://[::1/a.csv", "https://[x]y/a.csv", "mysql://h:port/x", "mysql://[::1/x"]
)
def test_a_malformed_address_is_named(name: str) -> None:
    table = "t" if name.startswith("mysql") else None
    with pytest.raises(SourceError, match="is no address"):
        formats.read(name, ReadOptions(table=table))


@pytest.mark.parametrize("target", ["/büch er.csv?q=ä b", "/b%C3%BCch%20er.csv?q=%C3%A4%20b"])
def test_an_address_may_be_written_as_people_read_it(target: str) -> None:
    with serving((200, b"id\n1\n")) as server, open_url(server.url + target) as stream:
        assert stream.read() == b"id\n1\n"
    assert server.asked[0].path == "/b%C3%BCch%20er.csv?q=%C3%A4%20b"


def test_options_that_do_not_fit_the_format(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="--query and --table are for databases"):
        read(tmp_path, BOOKS, query="SELECT 1")
    with pytest.raises(SourceError, match="--type and --split are for CSV"):
        read(tmp_path, "[]", "a.json", kinds={"a": "text"})
    with pytest.raises(SourceError, match=r"--delimiter is for CSV and TSV; .* is JSON"):
        read(tmp_path, "[]", "a.json", delimiter=";")
    with pytest.raises(SourceError, match=r"--encoding is for files of text; .* is SQLITE"):
        read(tmp_path, "", "a.db", encoding="latin-1")
    with pytest.raises(SourceError, match="addresses begin with http:// or https://"):
        formats.read("ftp://host/a.csv", ReadOptions())
    with pytest.raises(SourceError, match="No such file"):
        formats.read(str(tmp_path / "none.csv"), ReadOptions())
