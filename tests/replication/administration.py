"""A client that creates, changes and deletes indexes, aliases and snapshots through several hosts.

A request without an answer may still be carried out, later than others that were sent after it. So
nothing is said of an index any more once a request for it had none.
"""

from __future__ import annotations

import http.client
import itertools
import json
import random
import time
from dataclasses import dataclass
from typing import Any

from tests.replication.several_hosts import Hosts
from tests.replication.workload import INDEX, JSON, ClientThread
from tests.service import Client, Reply, Service

CONFIGURATIONS: tuple[dict[str, Any], ...] = (
    {"aggregations": {"colour": {}}},
    {"aggregations": {"size": {"conjunction": False}}, "searchable_fields": ["text^2", "colour"]},
    {"searchable_fields": ["text"], "language": "en"},
    {},
)
"""A change from each to the next one has something built again."""
ALIAS = "current"
NUM_LIVE = 4
"""Indexes of this client that exist at once; doubtful ones besides."""
ITEMS = [
    {"id": n, "text": f"a text with words {n}", "colour": ("red", "green")[n % 2], "size": n % 5}
    for n in range(40)
]


@dataclass
class Made:
    """An index as it must be.

    Attributes:
        exists: whether it does.
        configuration: which of `CONFIGURATIONS` it has.
        num_items: stored ones.
        is_doubtful: whether a request for it was not acknowledged.
    """

    exists: bool = False
    configuration: int = 0
    num_items: int = 0
    is_doubtful: bool = False


class Administrator(ClientThread):
    """Administers indexes through any host, and remembers what was acknowledged.

    Args:
        hosts: all of them.
        seed: of the chance.

    Attributes:
        made: by name, all indexes that it has ever asked for.
        num_done: requests that were acknowledged, by kind.
        num_failed: others, by kind and answer.
        error: what it died of.
    """

    def __init__(self, hosts: Hosts, seed: int) -> None:
        super().__init__()
        self.hosts = hosts
        self.random = random.Random(seed)
        self.made: dict[str, Made] = {}
        self._target: str | None = None
        """Index of the alias, as acknowledged; None: it may be any."""
        self._doubtful_targets: set[str | None] = set()
        """Indexes that the alias may have instead; None: it may be gone with its index."""
        self.num_done: dict[str, int] = {}
        self.num_failed: dict[str, int] = {}
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            for number in itertools.count():
                if self.ends.is_set():
                    return
                self._step(number)
                time.sleep(self.random.uniform(0, 0.2))
        except BaseException as error:
            self.error = error

    def _step(self, number: int) -> None:
        client = self.random.choice(self.hosts.services).client(5)
        live = [name for name, one in self.made.items() if one.exists and not one.is_doubtful]
        steps = ["reconfigure", "load", "alias", "snapshot", "main"] if live else []
        if len(live) < NUM_LIVE:
            steps.append("create")
        else:
            steps.append("delete")
        step = self.random.choice(steps)
        try:
            if step == "create":
                self._create_index(client, f"made-{number}")
            elif step == "alias":
                self._switch_alias(client, self.random.choice(live))
            elif step == "snapshot":
                self._snapshot(client, f"s-{number}")
            elif step == "main":
                self._send(step, client, "POST", f"/{INDEX}/configuration", self._configuration())
            else:
                getattr(self, f"_{step}_index")(client, self.random.choice(live))
        finally:
            client.close()

    def _configuration(self) -> dict[str, Any]:
        return self.random.choice(CONFIGURATIONS)

    def _create_index(self, client: Client, name: str) -> None:
        made = self.made[name] = Made(is_doubtful=True)
        document = CONFIGURATIONS[0]
        if self._send("create", client, "POST", f"/{name}/configuration", document):
            made.exists, made.is_doubtful = True, False
            self._load_index(client, name)

    def _reconfigure_index(self, client: Client, name: str) -> None:
        made = self.made[name]
        number = (made.configuration + 1) % len(CONFIGURATIONS)
        made.is_doubtful = True
        path = f"/{name}/configuration"
        if self._send("reconfigure", client, "POST", path, CONFIGURATIONS[number]):
            made.configuration, made.is_doubtful = number, False

    def _load_index(self, client: Client, name: str) -> None:
        made = self.made[name]
        made.is_doubtful = True
        if self._send("load", client, "POST", f"/{name}/items", ITEMS):
            made.num_items, made.is_doubtful = len(ITEMS), False

    def _delete_index(self, client: Client, name: str) -> None:
        made = self.made[name]
        made.is_doubtful = True
        if self._target == name:
            self._target = None
        if name in self._doubtful_targets:
            self._doubtful_targets.add(None)
        if self._send("delete", client, "DELETE", f"/{name}"):
            made.exists = made.is_doubtful = False

    def _switch_alias(self, client: Client, name: str) -> None:
        if self._send("alias", client, "POST", "/_aliases", {"aliases": {ALIAS: name}}):
            self._target = name
        else:
            self._doubtful_targets.add(name)

    def _snapshot(self, client: Client, name: str) -> None:
        if self._send("snapshot", client, "POST", "/_snapshots", {"name": name}):
            self._send("snapshot removed", client, "DELETE", f"/_snapshots/{name}")

    def _send(
        self, what: str, client: Client, method: str, path: str, document: Any = None
    ) -> bool:
        body = b"" if document is None else json.dumps(document).encode()
        told: object
        try:
            reply: Reply = client.request(method, path, body, JSON)
        except (OSError, http.client.HTTPException) as error:
            told = type(error).__name__
        else:
            if reply.status == 200:
                self.num_done[what] = self.num_done.get(what, 0) + 1
                self.answered_at.append(time.monotonic())
                return True
            told = (reply.status, reply.json["error"]["code"])
            # 404: a host that was stopped or cut off does not have the index yet.
            assert reply.status in (404, 409, 500, 503, 504, 507), (what, reply)
            if reply.status == 500:
                assert told[1] in ("partly_stored",), (what, reply)
        key = f"{what}: {told}"
        self.num_failed[key] = self.num_failed.get(key, 0) + 1
        return False

    def check(self) -> None:
        """Check that all hosts have the same indexes and aliases, and all that was acknowledged."""
        if self.error is not None:
            raise self.error
        print(json.dumps({"administered": self.num_done, "failed": self.num_failed}), flush=True)
        found = [_administered(service) for service in self.hosts.services]
        assert found[0] == found[1] == found[2], found
        indexes, aliases = found[0]
        for name, made in self.made.items():
            if made.is_doubtful:
                continue
            assert (name in indexes) == made.exists, (name, made)
            if made.exists:
                configuration, num_items = indexes[name]
                assert configuration == CONFIGURATIONS[made.configuration], (name, made)
                assert num_items == made.num_items, (name, made, num_items)
        if self._target is not None:
            possible = {self._target, *self._doubtful_targets}
            assert aliases.get(ALIAS) in possible, (aliases, possible)
        assert indexes.keys() <= self.made.keys() | {INDEX}
        client = self.hosts.services[0].client()
        for name, made in self.made.items():
            if made.exists and not made.is_doubtful:
                total = client.search(name, query="words")["pagination"]["total"]
                assert total == made.num_items, (name, made, total)
        client.close()


def _administered(service: Service) -> tuple[dict[str, Any], dict[str, str]]:
    """Return indexes, each with configuration and number of items, and aliases."""
    client = service.client()
    rows = client.get("/_indexes").json["indexes"]
    indexes = {}
    for row in rows:
        name = row["name"]
        configuration = client.get(f"/{name}/configuration")
        assert configuration.status == 200, configuration
        indexes[name] = (configuration.json, row["items"])
    aliases = client.get("/_aliases").json["aliases"]
    client.close()
    return indexes, aliases
