"""CSV and TSV: delimiters, encodings, kinds of columns, bad rows."""

from __future__ import annotations

import bz2
import lzma
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli.sources import list_separator
from coordinator.cli.sources.column_type_inference import ColumnKind
from coordinator.cli.sources.source import SourceError
from tests.coordinator.cli.sources.files import BOOKS, ITEMS, items_of, read


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

    def test_integers_in_json_stay_exact(self, tmp_path: Path) -> None:
        source = read(tmp_path, f'a;b\nx;{{"n":{2**70 + 1}}}\n')
        assert items_of(source) == [{"a": "x", "b": {"n": 2**70 + 1}}]

    @pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
    def test_delimiters_are_found(self, tmp_path: Path, delimiter: str) -> None:
        content = "a,b,c\n1,x y,2\n3,z,4\n".replace(",", delimiter)
        assert items_of(read(tmp_path, content))[0] == {"a": 1, "b": "x y", "c": 2}

    def test_lines_of_an_old_mac_have_their_delimiter(self, tmp_path: Path) -> None:
        assert items_of(read(tmp_path, "a;b\r1;2\r3;4\r")) == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]

    def test_tabs_and_a_delimiter_by_option_divide_cells(self, tmp_path: Path) -> None:
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
            ("1\u202f299,00", 1299.0),
            ("1\u00a0234\u00a0567", 1234567.0),
            ("-1 299,50", -1299.5),
            ("1\u2019299,5", 1299.5),
            ("110 001", "110 001"),
            ("1 29,00", "1 29,00"),
            ("1 234\u00a0567,5", "1 234\u00a0567,5"),
            ("0 123,5", "0 123,5"),
            ("12.50", "12.50"),
            ("1,299.00", "1,299.00"),
            ("0.123", "0.123"),
            (",5", ",5"),
        ],
    )
    def test_decimal_commas_are_read_by_option(
        self, tmp_path: Path, cell: str, value: float | str
    ) -> None:
        source = read(tmp_path, f"a;b\n1;{cell}\n2;1,5\n", decimal=",")
        assert items_of(source)[0] == {"a": 1, "b": value}

    @pytest.mark.parametrize(
        ("cells", "example"),
        [
            (["1", "2,5"], "2,5"),
            (["2,5", "3,75"], "2,5"),
            (["1\u00a0299,00", "2,50"], "1 299,00"),
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
            ("1'299.50", 1299.5),
            ("1 234 567", 1234567.0),
            ("1'299,50", None),
            ("12 50", None),
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
            (["1", "1'299"], "1'299"),
            (["7.5", "1\u202f299"], "1 299"),
            (["12.5", "1 299.00"], "1 299.00"),
            (["110 001", "226 010"], ""),
            (["1 299", "x"], ""),
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

    @pytest.mark.parametrize(
        ("cells", "kind", "example"),
        [
            (["9007199254740993", "1.5"], "text", "9007199254740993"),
            (["1", "18446744073709551616", "-123456789012345678901"], "text", "-1234"),
            (["9007199254740993", "18446744073709551615"], "integer", ""),
            (["9007199254740992", "1.5"], "number", ""),
            (["9007199254740993", "x"], "text", ""),
            (["9007199254740993.5", "1e300"], "number", ""),
            (["1" * 400, "1"], "text", ""),
        ],
    )
    def test_whole_numbers_keep_their_digits(
        self, tmp_path: Path, cells: list[str], kind: str, example: str
    ) -> None:
        rows = "".join(f"x;{cell}\n" for cell in cells)
        source = read(tmp_path, f"a;b\n{rows}")
        column = source.columns[1]
        assert column.kind == kind
        assert column.rounded_example.startswith(example)
        assert bool(column.rounded_example) == bool(example)
        if kind == "text":
            assert [item["b"] for item in items_of(source)] == cells

    def test_whole_numbers_are_rounded_where_the_user_says_so(self, tmp_path: Path) -> None:
        source = read(tmp_path, "a;b\n1;9007199254740993\n2;1.5\n", kinds={"b": "number"})
        assert [item["b"] for item in items_of(source)] == [9007199254740992.0, 1.5]

    @pytest.mark.parametrize(
        ("cells", "found"),
        [
            (["€10.00", "€1,299"], ("€10.00", ".", "€")),
            (["10,00 €", "1.299,00\u00a0€"], ("10,00 €", ",", "€")),
            (["10,00\u202f€", "1\u202f299,00\u00a0€"], ("10,00 €", ",", "€")),
            (["CHF 1'299.00", "CHF 5"], ("CHF 1'299.00", ".", "CHF")),
            (["1 29 €", "5 €"], ("", "", "")),
            (["EUR 10.5", "EUR -7"], ("EUR 10.5", ".", "EUR")),
            (["12%", "-2.5 %"], ("12%", ".", "%")),
            (["12 %", "2,5 %"], ("12 %", ",", "%")),
            (["12%", "12"], ("", "", "")),
            (["12%", "%12"], ("", "", "")),
            (["US$5", "-US$5.5"], ("US$5", ".", "US$")),
            (["$5", "€5"], ("", "", "")),
            (["$5", "5"], ("", "", "")),
            (["$5", "$x"], ("", "", "")),
            (["$5", "$5,00.1"], ("", "", "")),
            (["10 cm", "20 cm"], ("", "", "")),
            (["$a", "$b"], ("", "", "")),
        ],
    )
    def test_prices_are_found(
        self, tmp_path: Path, cells: list[str], found: tuple[str, str, str]
    ) -> None:
        rows = "".join(f"{cell};x\n" for cell in cells)
        column = read(tmp_path, f"a;b\n{rows}").columns[0]
        assert column.kind == "text"
        assert (column.price_example, column.price_decimal, column.currency) == found

    def test_prices_are_read_where_the_user_says_so(self, tmp_path: Path) -> None:
        text = "a;b\n€1,299.50;x\n-€7;x\n7;x\n$7;x\n€;x\n"
        source = read(tmp_path, text, kinds={"a": "number"})
        assert [item["a"] for item in items_of(source)] == [1299.5, -7.0, 7.0]
        assert [row.message for row in source.bad_rows] == [
            "'$7' is an amount of $, and the first is of €; a number has no currency",
            "'€' is not of type number",
        ]

    def test_booleans_are_read_in_words_where_the_user_says_so(self, tmp_path: Path) -> None:
        text = "a;b\nyes;x\nNO;x\n Y ;x\nf;x\n1;x\n;x\nja;x\n"
        source = read(tmp_path, text, kinds={"a": "boolean"})
        assert [item.get("a") for item in items_of(source)] == [
            True,
            False,
            True,
            False,
            True,
            None,
        ]
        assert [row.message for row in source.bad_rows] == [
            "'ja' is not of type boolean, which is one of true, false, yes, no, y, n, t, f, 1, 0",
        ]
        assert read(tmp_path, text).columns[0].kind == "text"

    @pytest.mark.parametrize("start", ["sep=;", '"sep=;"', "\ufeffSEP=;", "\ufeffsep=;\r"])
    def test_a_first_line_may_name_the_delimiter(self, tmp_path: Path, start: str) -> None:
        source = read(tmp_path, f"{start}\nid;a,b,c\n1;x,y,z\n2\n")
        assert items_of(source) == [{"id": 1, "a,b,c": "x,y,z"}]
        assert [row.place for row in source.bad_rows] == ["line 4"]

    def test_a_delimiter_by_option_comes_before_the_one_of_the_file(self, tmp_path: Path) -> None:
        source = read(tmp_path, "sep=;\nid:a\n1:2\n", delimiter=":")
        assert items_of(source) == [{"id": 1, "a": 2}]

    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
    def test_byte_order_marks_are_left_out(self, tmp_path: Path, encoding: str) -> None:
        assert items_of(read(tmp_path, "é,b\nü,2\n".encode(encoding))) == [{"é": "ü", "b": 2}]

    def test_other_encodings_are_named(self, tmp_path: Path) -> None:
        content = "a,b\né,2\n".encode("latin-1")
        with pytest.raises(SourceError, match="name its encoding, for example --encoding cp1252"):
            read(tmp_path, content)
        assert items_of(read(tmp_path, content, encoding="latin-1")) == [{"a": "é", "b": 2}]
        marked = "a,b\né,2\n".encode("utf-8-sig")
        assert items_of(read(tmp_path, marked, encoding="utf8")) == [{"a": "é", "b": 2}]

    @pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
    @pytest.mark.parametrize("num_lines", [1, 300, 9_000])
    def test_the_line_of_another_encoding_is_named(
        self, tmp_path: Path, end: bytes, num_lines: int
    ) -> None:
        """Also far ahead of the row that is being read: text is decoded in pieces."""
        lines = [b"id,title", *(b"%d,caf\xc3\xa9" % i for i in range(num_lines)), b"x,caf\xe9"]
        for rest in ([], [b"7,tea"] * 20_000):
            with pytest.raises(SourceError, match=f"not utf-8 in line {num_lines + 2}; name its"):
                read(tmp_path, end.join([*lines, *rest]))

    def test_text_of_another_encoding_than_named_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="is not utf-16 in line 1; name its encoding"):
            items_of(read(tmp_path, "a,b\n1,2\n", encoding="utf-16"))

    @pytest.mark.parametrize("encoding", ["klingon", "hex", "idna", "a\0b"])
    @pytest.mark.parametrize("name", ["a.csv", "a.json"])
    def test_unknown_encodings_are_answered_with_known_ones(
        self, tmp_path: Path, encoding: str, name: str
    ) -> None:
        with pytest.raises(SourceError, match="is not an encoding of text; there are utf-8"):
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
        with pytest.raises(SourceError, match=r"\.yaml is not a format that is read; they are csv"):
            read(tmp_path, yaml, "a.yaml")
        assert len(items_of(read(tmp_path, yaml, "a.yaml", style="csv"))) == 1
        for name in ("a", "a.txt", "a.csv"):
            assert items_of(read(tmp_path, "word\nsea\n", name)) == [{"word": "sea"}]
        assert items_of(read(tmp_path, "a;b\n1;2\n", "a.export")) == [{"a": 1, "b": 2}]

    def test_what_begins_like_another_file_may_be_a_table(self, tmp_path: Path) -> None:
        assert items_of(read(tmp_path, "<a>,b\n1,2\n")) == [{"<a>": 1, "b": 2}]
        assert items_of(read(tmp_path, "BZ,b\n1,2\n")) == [{"BZ": 1, "b": 2}]

    def test_a_quote_that_is_never_closed_is_named_by_its_line(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match=r"line 2: a quote .* is never closed"):
            list(items_of(read(tmp_path, 'id,t\n1,"a\n2,b\n')))

    def test_ids_may_come_from_another_column(self, tmp_path: Path) -> None:
        source = read(tmp_path, "isbn,t\n0123,a\n9,b\n", id_field="isbn")
        assert items_of(source) == [
            {"id": "0123", "isbn": "0123", "t": "a"},
            {"id": "9", "isbn": "9", "t": "b"},
        ]
        assert items_of(read(tmp_path, "ID,t\n-1,a\n"))[0] == {"id": "-1", "t": "a"}

    def test_kinds_and_lists_are_set_by_option(self, tmp_path: Path) -> None:
        source = read(tmp_path, "a,b\n1,x | y|\n2,\n", kinds={"a": "text"}, separators={"b": "|"})
        assert items_of(source) == [{"a": "1", "b": ["x", "y"]}, {"a": "2"}]

    def test_a_first_column_without_a_name_numbers_the_rows(self, tmp_path: Path) -> None:
        """So do pandas and R write tables."""
        source = read(tmp_path, ",a\n0,x\n1,y\n")
        assert items_of(source) == [{"row": 0, "a": "x"}, {"row": 1, "a": "y"}]
        assert items_of(read(tmp_path, '"",a\n7,x\n', id_field="row"))[0]["id"] == 7

    @pytest.mark.parametrize(
        ("cells", "texts"),
        [
            (["1", "NA", "2"], ("NA",)),
            (["NULL", "-", "1.5", "-"], ("NULL", "-")),
            (["\\N", "€10.00"], ("\\N",)),
            (["n/a", "1,5"], ("n/a",)),
            (["NaN", "31.12.2024"], ("NaN",)),
            (["NA", "DE"], ()),
            (["NA", "NA"], ()),
            (["1", "2"], ()),
        ],
    )
    def test_what_stands_for_no_value_is_noticed_and_empty_on_request(
        self, tmp_path: Path, cells: list[str], texts: tuple[str, ...]
    ) -> None:
        content = "".join(f"{n};{cell}\n" for n, cell in enumerate(["a", *cells]))
        column = read(tmp_path, content).columns[1]
        assert column.null_texts == texts
        assert column.kind == "text" or not texts
        assert not column.comma_example
        assert not column.has_other_dates
        source = read(tmp_path, content, null_texts=texts)
        assert source.columns[1].null_texts == ()
        assert [item.get("a") is None for item in items_of(source)] == [
            cell in texts for cell in cells
        ]

    def test_rows_and_columns_without_text_are_none(self, tmp_path: Path) -> None:
        """As spreadsheets export what was once marked."""
        source = read(tmp_path, "id,a,,\n1,x,,\n,,,\n2,y\n  ,\n3,z,,,\n4,z,,q\n")
        assert [column.name for column in source.columns] == ["id", "a"]
        assert items_of(source) == [{"id": n, "a": a} for n, a in ((1, "x"), (2, "y"), (3, "z"))]
        assert [(row.place, row.message[:8]) for row in source.bad_rows] == [("line 7", "4 cells,")]

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
    def test_two_bytes_a_character_are_noticed(self, tmp_path: Path, encoding: str) -> None:
        content = "id;name\n1;Bücher\n".encode(encoding)
        assert items_of(read(tmp_path, content)) == [{"id": 1, "name": "Bücher"}]

    def test_without_a_header_the_first_line_is_a_row(self, tmp_path: Path) -> None:
        content = "7,Alien,1979\n8,Dune,1984\n9,Heat\n"
        source = read(tmp_path, content, has_header=False)
        assert items_of(source) == [
            {"column1": 7, "column2": "Alien", "column3": 1979},
            {"column1": 8, "column2": "Dune", "column3": 1984},
        ]
        assert [source.place_of(1), source.place_of(2)] == ["line 1", "line 2"]
        assert source.bad_rows[0].message.startswith("2 cells, and the first line has 3; quote")
        named = read(tmp_path, content, column_names=("id", "title"))
        assert [row.place for row in named.bad_rows] == ["line 1", "line 2"]
        assert "3 cells, and --columns names 2" in named.bad_rows[0].message
        assert items_of(named) == [{"id": 9, "title": "Heat"}]

    @pytest.mark.parametrize(
        ("content", "is_like_a_row"),
        [
            ("1,Alien\n2,Dune\n", True),
            ("Alien,1979\n,\nDune,1984\n", True),
            ("a-1,x\na-2,y\n", True),
            ("2024-01-31,x\n2024-02-29,y\n", True),
            ("country,2019,2020\nAustria,8,9\n", False),
            ("name,q1\nAlien,7\n", False),
            ("Alien,Scott\nDune,Lynch\n", False),
        ],
    )
    def test_a_header_that_looks_like_the_rows_is_noticed(
        self, tmp_path: Path, content: str, is_like_a_row: bool
    ) -> None:
        assert read(tmp_path, content).seems_headless is is_like_a_row
        assert not read(tmp_path, content, has_header=False).seems_headless

    def test_quotes_may_be_text(self, tmp_path: Path) -> None:
        content = 'a\tb\n"The Thing" again\t1\n"\t2\n'
        assert items_of(read(tmp_path, content, "a.tsv", has_quotes=False)) == [
            {"a": '"The Thing" again', "b": 1},
            {"a": '"', "b": 2},
        ]
        content = 'a;b\n"x;1\n"y,";2\n'
        assert items_of(read(tmp_path, content, has_quotes=False))[1] == {"a": '"y,"', "b": 2}

    def test_parts_of_lists_may_recur_as_whole_cells(self, tmp_path: Path) -> None:
        """As the authors of books do, most of whom have written alone."""
        authors = ["Ann|Bob", "Ann", "Bob", "Ann|Cy"]
        source = read(tmp_path, "\n".join(["by", *authors, ""]))
        assert source.columns[0].separator == "|"
        titles = ["Sea; a tale", "Sea; a poem", "Moby-Dick", "Ann", "It"]
        source = read(tmp_path, "\n".join(["title,n", *(f"{one},1" for one in titles), ""]))
        assert source.columns[0].separator == ""

    def test_the_first_parts_decide_about_lists(self, tmp_path: Path) -> None:
        pairs = [f"p{n}|p{n + 1}" for n in range(2 * list_separator.PARTS_MAX)]
        source = read(tmp_path, "\n".join(["by", *pairs, ""]))
        assert source.columns[0].separator == "|"

    def test_columns_without_name_and_text_are_left_out(self, tmp_path: Path) -> None:
        content = "id,,name, ,x,\n1,,a,,3,\n2, ,b\n3,4\n,,c,,,\n5,,e,,7,,\n"
        source = read(tmp_path, content)
        assert [column.name for column in source.columns] == ["id", "name", "x"]
        assert items_of(source) == [
            {"id": 1, "name": "a", "x": 3},
            {"id": 5, "name": "e", "x": 7},
        ]
        assert [row.message.split(";")[0] for row in source.bad_rows] == [
            "3 cells, and the header has 5",
            "2 cells, and the header has 5",
            "id is empty, and it is to be the id",
        ]
        ids = read(tmp_path, "a,,k\n1,,x\n", id_field="k")
        assert items_of(ids) == [{"id": "x", "k": "x", "a": 1}]

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
        ("header", "names", "numbered"),
        [
            ("a,b,a", ["a", "b", "a_2"], ["a_2"]),
            ("a,a,a_2,a", ["a", "a_3", "a_2", "a_4"], ["a_3", "a_4"]),
            (" a,a ,a_2,a_2", ["a", "a_3", "a_2", "a_2_2"], ["a_3", "a_2_2"]),
            (",a,,a,", ["row", "a", "a_2"], ["a_2"]),
            ("id,id,a", ["id", "id_2", "a"], ["id_2"]),
        ],
    )
    def test_columns_of_one_name_are_numbered(
        self, tmp_path: Path, header: str, names: list[str], numbered: list[str]
    ) -> None:
        cells = ["1", *(name and "2" for name in header.split(",")[1:])]
        source = read(tmp_path, f"{header}\n{','.join(cells)}\n")
        assert [column.name for column in source.columns] == names
        assert source.numbered == numbered
        assert list(items_of(source)[0]) == names

    @pytest.mark.parametrize(
        ("content", "options", "message"),
        [
            ("", {}, "is empty"),
            ("a,,b\n1,,2\n1,x,2\n", {}, "column 2 has no name, and a cell with 'x'"),
            (",,row\n1,,2\n", {}, "column 1 has no name, and a cell with '1'"),
            ("a,b\n", {"id_field": "c"}, "no column 'c'; its columns are a, b"),
            ("a,b\n", {"kinds": {"c": "text"}}, "--type: .* no column 'c'"),
            ("a,b\n", {"kinds": {"a": "date"}}, "'date' is none of text, integer"),
            ('a,b\n1,"x\n', {}, "line 2"),
            ('a,b\n1,"x" y\n', {}, "line 2: .* goes on after the closing one; .* --no-quotes"),
            ('a\n"' + "x\n" * 9_000_000, {}, "line 2: .* never closed; .* --no-quotes"),
            ("a,,b\n1,2,3\n", {}, "--no-header reads the first line as a row"),
            ("", {"has_header": False}, "is empty; it has no row"),
            ("1,2\n", {"has_header": False, "id_field": "id"}, "its columns are column1, column2"),
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
        column.finish()
        assert column.kind == kind


@pytest.mark.parametrize("added", ["3,Hill,1990\n", "3,Hill,unknown\n", "3,Hi"])
def test_rows_added_after_the_check_are_not_read(tmp_path: Path, added: str) -> None:
    source = read(tmp_path, "id,name,year\n1,Sea,1978\n2,Dune,1965\n")
    with (tmp_path / "a.csv").open("a") as file:
        file.write(added)
    assert [item["id"] for item in items_of(source)] == [1, 2]


@pytest.mark.parametrize(
    "content", ["", "id,name,year\n1,Sea,1978\n", "id,name,year\n1,Sea\n2\n", "\n1,S,x\n2,D,y"]
)
def test_a_table_that_changes_while_it_is_read_is_refused(tmp_path: Path, content: str) -> None:
    source = read(tmp_path, "id,name,year\n1,Sea,1978\n2,Dune,1965\n")
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(SourceError, match="has changed while it was read; load it again"):
        items_of(source)
