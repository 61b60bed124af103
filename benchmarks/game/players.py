"""The engines that play: how each is built, and a started one."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from benchmarks import processes
from benchmarks.peers.base import SERVERS, require_packages
from benchmarks.peers.facetd import Facetd
from benchmarks.peers.lucene import INDEXING_HEAP, Lucene
from benchmarks.peers.servers.game_player import Played
from benchmarks.processes import Running

PLAYER = "benchmarks.peers.servers.game_player"
SERVING_HEAP = "512m"


class Player:
    """One engine: how its index is built, and how it is started to play."""

    name: ClassVar[str]
    title: ClassVar[str]
    folder: Path
    checkout: Path = processes.REPOSITORY

    def __init__(self, num_items: int) -> None:
        self.num_items = num_items
        self.folder = processes.home() / "data" / f"game-{self.name}-{num_items}"
        self.log = processes.home() / "logs" / f"game-{self.name}.txt"

    def check_installed(self) -> None:
        """Raise `NotInstalled` if something is missing."""

    def build(self, items: Path) -> None:
        """Index the items, into an empty folder."""
        self.folder.mkdir(parents=True)
        with Running(self.command("build", items, self.folder), self.log) as building:
            building.finish()

    def command(self, *arguments: str | Path) -> list[str | Path]:
        """Return the command line of the engine's process."""
        raise NotImplementedError


class PythonPlayer(Player):
    """A library in the peers' environment."""

    packages: ClassVar[tuple[str, ...]] = ()

    @property
    def interpreter(self) -> Path:
        """Return the interpreter of the peers' own environment."""
        return processes.home() / "venv" / "bin" / "python"

    def check_installed(self) -> None:
        """Look for the packages."""
        require_packages(self.interpreter, self.packages, self.name)

    def command(self, *arguments: str | Path) -> list[str | Path]:
        """Return the command line of the engine's process."""
        return [self.interpreter, "-m", PLAYER, self.name, *arguments]


class TantivyPlayer(PythonPlayer):
    """tantivy's binding."""

    name = "tantivy"
    title = "tantivy-py 0.27"
    packages = ("tantivy",)


class PisaPlayer(PythonPlayer):
    """PISA's binding."""

    name = "pisa"
    title = "PISA by pyterrier-pisa 0.4.9"
    packages = ("pyterrier-pisa",)


class FacetdPlayer(Player):
    """facetd, loaded by its service with one shard; then the shard's searcher alone."""

    name = "facetd"
    title = "facetd, the shard's searcher"

    def build(self, items: Path) -> None:
        """Load through the service and wait for the merges."""
        peer = Facetd(self.num_items, num_shards=1)
        peer.folder = self.folder
        peer.empty_folder()
        try:
            peer.start_service()
            peer.configure({"searchable_fields": ["text"]})
            peer.load_file(items)
            processes.wait_for_rest(peer.pids())
        finally:
            peer.close()

    def command(self, *arguments: str | Path) -> list[str | Path]:
        """Return the command line of the engine's process."""
        python = Path(processes.python())
        if self.checkout != processes.REPOSITORY:
            python = self.checkout / ".venv" / "bin" / "python"
        return [python, "-m", PLAYER, self.module, *arguments]

    module = "facetd"


class FloorPlayer(FacetdPlayer):
    """facetd's searches on no segment."""

    title = "facetd's searches on no segment"
    module = "facetd_floor"


class LucenePlayer(Player):
    """Lucene on the Java of the peers."""

    name = "lucene"
    title = "Lucene 10.4"

    def __init__(self, num_items: int) -> None:
        super().__init__(num_items)
        self.java = Lucene(num_items, source=SERVERS / "GamePlayer.java")

    def check_installed(self) -> None:
        """Look for the library and Java; compile the player if it is not."""
        self.java.check_installed()

    def command(self, *arguments: str | Path) -> list[str | Path]:
        """Return the command line of the engine's process."""
        heap = INDEXING_HEAP if arguments[0] == "build" else SERVING_HEAP
        return self.java.command(heap, *arguments)


PLAYERS: Mapping[str, type[Player]] = {
    "floor": FloorPlayer,
    "facetd": FacetdPlayer,
    "lucene": LucenePlayer,
    "tantivy": TantivyPlayer,
    "pisa": PisaPlayer,
}
BEFORE = "facetd before"


class Playing:
    """A started player."""

    def __init__(self, player: Player, queries: Path) -> None:
        self.log = player.log.open("ab")
        command = player.command("play", player.folder, queries)
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            cwd=player.checkout,
            text=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.commands, self.answers = self.process.stdin, self.process.stdout
        line = self.answers.readline()
        while line and not line.startswith("ready "):  # PISA tells what it prepares
            line = self.answers.readline()
        if not line:
            self.close()
            raise RuntimeError(f"{player.name} does not play; see {player.log}")
        self.description = line.removeprefix("ready ").strip()

    def turn(self, command: str) -> list[Played | None]:
        """Let it run all queries once."""
        self.commands.write(command + "\n")
        self.commands.flush()
        played: list[Played | None] = []
        while line := self.answers.readline().strip():
            row = line.split()
            one = None
            if row != ["-"]:
                one = Played(int(row[0]), int(row[1]), [float(score) for score in row[2:]])
            played.append(one)
        return played

    def close(self) -> None:
        """End the process."""
        self.commands.close()
        self.process.wait()
        self.answers.close()
        self.log.close()
