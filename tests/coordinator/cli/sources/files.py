"""Files for the tests of sources, and what is read from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from coordinator.cli.sources import format_dispatch
from coordinator.cli.sources.source import ReadOptions, Source

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
    return format_dispatch.read(write(tmp_path / name, content), ReadOptions(**options))
