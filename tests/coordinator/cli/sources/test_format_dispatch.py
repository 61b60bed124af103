"""Formats of files: which one it is, however it is packed and wherever it comes from."""

from __future__ import annotations

import datetime
import errno
import functools
import gzip
import http.server
import io
import json
import os
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import brotli
import pytest
import zstandard

from coordinator.cli.sources import format_dispatch
from coordinator.cli.sources.opening_and_decompression import OpenedSource
from coordinator.cli.sources.source import ReadOptions, SourceError
from coordinator.cli.sources.url_fetching import open_url
from tests.coordinator.cli.sources.files import BOOKS, ITEMS, items_of, read, write
from tests.facetd.scripted import serving


class TestCompression:
    @pytest.mark.parametrize(
        ("suffix", "compress"),
        [
            (".gz", gzip.compress),
            (".zst", zstandard.ZstdCompressor().compress),
            (".br", brotli.compress),
        ],
    )
    def test_tables_and_lines_are_read_compressed(
        self, tmp_path: Path, suffix: str, compress: Any
    ) -> None:
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

    @pytest.mark.parametrize(
        ("suffix", "compress"), [("zst", zstandard.compress), ("br", brotli.compress)]
    )
    def test_what_expands_much_is_read_without_copying_the_rest_each_time(
        self, tmp_path: Path, suffix: str, compress: Any
    ) -> None:
        """Each part of 64 KB copied all that was left: 66 MB of like items took twelve seconds."""
        path = tmp_path / f"like.ndjson.{suffix}"
        write(path, compress(b'{"id": 1, "name": "sea"}\n' * 500_000))
        with OpenedSource(str(path)).open() as stream:
            stream.read(1)
            tracemalloc.start()
            try:
                stream.read(256 * 1024)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
        assert peak < 1_000_000

    def test_skippable_frames_of_zstandard_are_skipped(self, tmp_path: Path) -> None:
        frame = zstandard.ZstdCompressor().compress(BOOKS.encode())
        skipped = b"\x50\x2a\x4d\x18" + (10).to_bytes(4, "little") + b"0123456789"
        assert items_of(read(tmp_path, skipped + frame, "books.csv.zst")) == ITEMS


class TestStdinAndAddresses:
    def test_stdin_is_read_once_and_inspected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Stdin:
            buffer = io.BytesIO(gzip.compress(BOOKS.encode()))

        monkeypatch.setattr("sys.stdin", Stdin)
        assert items_of(format_dispatch.read("-", ReadOptions())) == ITEMS

    @pytest.mark.parametrize(
        "content", [BOOKS.encode(), gzip.compress(BOOKS.encode())], ids=["text", "gzip"]
    )
    def test_a_pipe_is_read_once(self, tmp_path: Path, content: bytes) -> None:
        """A second open of a pipe, as of <(zcat books.csv.gz), waited for ever."""
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_bytes, args=(content,), daemon=True)
        writer.start()
        assert items_of(format_dispatch.read(str(pipe), ReadOptions())) == ITEMS
        writer.join()

    def test_a_file_that_may_not_be_read_says_whose_it_is(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write(tmp_path / "books.csv", BOOKS)

        def refuse(*_: object) -> None:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))

        monkeypatch.setattr(Path, "open", refuse)
        with pytest.raises(SourceError, match=r"cannot read .*: Permission denied; let .* use it"):
            OpenedSource(str(path)).open()

    def test_an_address_is_fetched(self, tmp_path: Path) -> None:
        write(tmp_path / "books.csv.gz", gzip.compress(BOOKS.encode()))
        write(tmp_path / "books.json", json.dumps(ITEMS))
        write(tmp_path / "plain.csv.gz", BOOKS)
        handler = functools.partial(_Quiet, directory=str(tmp_path))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            url = f"http://127.0.0.1:{server.server_address[1]}"
            assert items_of(format_dispatch.read(f"{url}/books.csv.gz?x=1", ReadOptions())) == ITEMS
            assert items_of(format_dispatch.read(f"{url}/books.json", ReadOptions())) == ITEMS
            with pytest.raises(SourceError, match="is not compressed, although"):
                format_dispatch.read(f"{url}/plain.csv.gz?x=1", ReadOptions())
            with pytest.raises(SourceError, match="answers 404"):
                format_dispatch.read(f"{url}/none.csv", ReadOptions())
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
        source = format_dispatch.read(str(path), ReadOptions())
        assert items_of(source) == expected
        assert source.num_items == 2
        packed = write(tmp_path / "y.parquet.gz", gzip.compress(path.read_bytes()))
        assert items_of(format_dispatch.read(packed, ReadOptions())) == expected
        assert (
            items_of(format_dispatch.read(str(path), ReadOptions(id_field="day")))[0]["id"]
            == "2026-01-02"
        )
        with pytest.raises(SourceError, match="is not a Parquet file"):
            read(tmp_path, "no", "z.parquet")

    def test_moments_finer_than_a_microsecond_are_cut(self, tmp_path: Path) -> None:
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        at = arrow.timestamp("ns", "UTC")
        columns = {
            "id": [1],
            "at": arrow.array([1_001], at),
            "seen": arrow.array([[2_001]], arrow.list_(at)),
            "more": arrow.array([[2_001]], arrow.large_list(at)),
            "inner": arrow.array([{"at": 3_001}], arrow.struct([("at", at)])),
            "time": arrow.array([4_001], arrow.time64("ns")),
            "took": arrow.array([5_001], arrow.duration("ns")),
        }
        parquet.write_table(arrow.table(columns), tmp_path / "x.parquet", version="2.6")
        (item,) = items_of(format_dispatch.read(str(tmp_path / "x.parquet"), ReadOptions()))
        assert item == {
            "id": 1,
            "at": "1970-01-01T00:00:00.000001+00:00",
            "seen": ["1970-01-01T00:00:00.000002+00:00"],
            "more": ["1970-01-01T00:00:00.000002+00:00"],
            "inner": {"at": "1970-01-01T00:00:00.000003+00:00"},
            "time": "00:00:00.000004",
            "took": 5e-6,
        }

    def test_bytes_are_not_loaded_and_that_is_shown(self, tmp_path: Path) -> None:
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        kinds = (arrow.binary(), arrow.large_binary(), arrow.binary(1))
        columns = {f"raw{i}": arrow.array([b"x"], kind) for i, kind in enumerate(kinds)}
        parquet.write_table(arrow.table({"id": [1], **columns}), tmp_path / "x.parquet")
        source = format_dispatch.read(str(tmp_path / "x.parquet"), ReadOptions())
        assert items_of(source) == [{"id": 1}]
        assert [one.kind.rpartition(", ")[2] for one in source.columns] == [
            "the id",
            *["not loaded"] * 3,
        ]

    def test_a_map_is_an_object(self, tmp_path: Path) -> None:
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        kind = arrow.map_(arrow.string(), arrow.int64())
        table = arrow.table({"id": [1, 2], "by": arrow.array([[("a", 1)], None], kind)})
        parquet.write_table(table, tmp_path / "x.parquet")
        source = format_dispatch.read(str(tmp_path / "x.parquet"), ReadOptions())
        assert items_of(source) == [{"id": 1, "by": {"a": 1}}, {"id": 2}]

    def test_a_value_that_cannot_be_read_names_the_file(self, tmp_path: Path) -> None:
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        table = arrow.table({"id": [1], "day": arrow.array([2**30], arrow.date32())})
        parquet.write_table(table, tmp_path / "x.parquet")
        with pytest.raises(SourceError, match=r"x\.parquet: a value after row 0 cannot be read"):
            format_dispatch.read(str(tmp_path / "x.parquet"), ReadOptions())


@pytest.mark.parametrize(
    "name", ["http://[::1/a.csv", "https://[x]y/a.csv", "mysql://h:port/x", "mysql://[::1/x"]
)
def test_a_malformed_address_is_named(name: str) -> None:
    table = "t" if name.startswith("mysql") else None
    with pytest.raises(SourceError, match="is not an address"):
        format_dispatch.read(name, ReadOptions(table=table))


@pytest.mark.parametrize("target", ["/büch er.csv?q=ä b", "/b%C3%BCch%20er.csv?q=%C3%A4%20b"])
def test_an_address_may_be_written_as_people_read_it(target: str) -> None:
    with serving((200, b"id\n1\n")) as server, open_url(server.url + target) as stream:
        assert stream.read() == b"id\n1\n"
    assert server.asked[0].path == "/b%C3%BCch%20er.csv?q=%C3%A4%20b"


def test_options_that_do_not_fit_the_format_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="--query and --table are for databases"):
        read(tmp_path, BOOKS, query="SELECT 1")
    with pytest.raises(SourceError, match="--type and --split are for CSV"):
        read(tmp_path, "[]", "a.json", kinds={"a": "text"})
    with pytest.raises(SourceError, match=r"--delimiter is for CSV and TSV; .* is JSON"):
        read(tmp_path, "[]", "a.json", delimiter=";")
    for option, given in (
        ("--no-header", {"has_header": False}),
        ("--columns", {"column_names": ("a",)}),
        ("--no-quotes", {"has_quotes": False}),
        ("--null", {"null_texts": ("NA",)}),
    ):
        with pytest.raises(SourceError, match=rf"{option} is for CSV and TSV; .* is JSON"):
            read(tmp_path, "[]", "a.json", **given)
    with pytest.raises(SourceError, match=r"--encoding is for files of text; .* is SQLITE"):
        read(tmp_path, "", "a.db", encoding="latin-1")
    with pytest.raises(SourceError, match="addresses begin with http:// or https://"):
        format_dispatch.read("ftp://host/a.csv", ReadOptions())
    with pytest.raises(SourceError, match="Is a directory; name the files in it"):
        format_dispatch.read(str(tmp_path), ReadOptions())
    with pytest.raises(SourceError, match="No such file"):
        format_dispatch.read(str(tmp_path / "none.csv"), ReadOptions())
