"""Checks, before a log is used, that it cannot lose what it has confirmed.

What is checked             why
stream: replicas            one copy of several servers' is lost with its server
stream: storage, retention  memory, limits by age or size, and work queues lose entries
stream: duplicates          a repeated entry must be recognised for as long as we may repeat it
server: sync_interval       without `always`, entries are confirmed that a power cut takes back
                            (nats-server#7564)
server: version             Jepsen's tests of 2.12.1 and of older ones lost confirmed entries
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Final
from urllib.parse import urlsplit

import aiohttp
import orjson

from common.limits import Limits
from coordinator.addresses import monitor_urls, without_user
from coordinator.replication.log.jetstream_info import (
    CLUSTER_KEY,
    FORMAT_KEY,
    LIMITS_KEY,
    ORIGIN_KEY,
    SHARDS_KEY,
    StreamInfo,
)
from coordinator.replication.log.log_entries import FORMAT
from coordinator.settings import Settings

VERSION_MIN: Final = (2, 12, 2)
DUPLICATES_SECONDS_MIN: Final = 60
MONITOR_PORT: Final = 8222
MONITOR_SECONDS: Final = 3.0

_DECIDING: Final = (
    "json_depth_max",
    "item_fields_max",
    "field_name_bytes_max",
    "item_facet_values_max",
    "item_bytes_max",
    "positions_max",
)
"""Limits that decide the outcome of a write, so that all hosts must have the same."""


def deciding_limits(limits: Limits) -> str:
    """Return the limits that all hosts must share, as one line."""
    return " ".join(f"{name}={getattr(limits, name)}" for name in _DECIDING)


def metadata_of(limits: Limits, origin: int, num_placed_shards: int = 0) -> dict[str, str]:
    """Return what is written into a new stream."""
    placed = {SHARDS_KEY: str(num_placed_shards)} if num_placed_shards else {}
    return {
        FORMAT_KEY: str(FORMAT),
        CLUSTER_KEY: secrets.token_hex(8),
        ORIGIN_KEY: str(origin),
        LIMITS_KEY: deciding_limits(limits),
        **placed,
    }


def refusal(info: StreamInfo, settings: Settings) -> str | None:
    """Return why a stream cannot be used at all, by any host; None if it can."""
    name = settings.log_stream
    if not info.cluster:
        return f"stream {name!r} was not made by facetd: name another one (log_stream)"
    if info.metadata.get(FORMAT_KEY) != str(FORMAT):
        return (
            f"stream {name!r} has format {info.metadata.get(FORMAT_KEY)}, this program reads "
            f"{FORMAT}: install the version that the other hosts have"
        )
    ours = deciding_limits(settings.limits)
    theirs = info.metadata.get(LIMITS_KEY, "")
    if ours != theirs:
        return (
            f"all hosts must have the limits that the log was made with: {theirs}; this one has "
            f"{ours}"
        )
    num_shards = int(info.metadata.get(SHARDS_KEY, "0"))
    if num_shards != settings.shards_of:
        made_for = (
            f"hosts that hold some of {num_shards} shards each: start with --shards-here ORDINALS "
            f"--of {num_shards}"
            if num_shards
            else "hosts that hold all data each: start without --shards-here and --of"
        )
        return f"stream {name!r} was made for {made_for}, or name another stream (log_stream)"
    return None


def dangers_of_stream(info: StreamInfo, num_servers: int) -> list[str]:
    """Return how a stream may lose entries.

    Args:
        info: of the stream.
        num_servers: how many servers are known.
    """
    config = info.config
    found = []
    if num_servers > 1 and info.num_replicas < min(num_servers, 3):
        found.append(
            f"{info.num_replicas} of {num_servers} servers store the stream: make it "
            f"{min(num_servers, 3)} (nats stream edit --replicas)"
        )
    if config["storage"] != "file":
        found.append("the stream is kept in memory")
    if config["retention"] != "limits":
        found.append(f"the stream's retention is {config['retention']}, not limits")
    if config["max_age"] or config["max_msgs"] > 0 or config["max_bytes"] > 0:
        found.append("the stream drops entries by age, number or size: remove these limits")
    if config["duplicate_window"] < DUPLICATES_SECONDS_MIN * 10**9:
        found.append(f"the stream's duplicate window is below {DUPLICATES_SECONDS_MIN} s")
    if config.get("allow_rollup_hdrs") or config.get("max_msgs_per_subject", -1) > 0:
        found.append("the stream may replace entries (rollups, max_msgs_per_subject)")
    return found


def monitors_of(settings: Settings, servers: list[str]) -> list[str]:
    """Return where the servers show their configuration."""
    if settings.log_monitors:
        return monitor_urls(settings.log_monitors)
    hosts = [urlsplit(server).hostname or "127.0.0.1" for server in servers]
    return [
        f"http://[{host}]:{MONITOR_PORT}" if ":" in host else f"http://{host}:{MONITOR_PORT}"
        for host in dict.fromkeys(hosts)
    ]


async def dangers_of_servers(monitors: list[str]) -> list[str]:
    """Return how servers may lose entries; those that do not answer are left out, unless all are.

    A server that is down now cannot confirm anything now; it is asked at the next start.
    """
    timeout = aiohttp.ClientTimeout(total=MONITOR_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        answers = await asyncio.gather(*(_dangers(session, monitor) for monitor in monitors))
    if all(answer is None for answer in answers):
        shown = ", ".join(map(without_user, monitors))
        return [
            f"no server shows its configuration at {shown}: start nats-server with http_port, or "
            "name the addresses (log_monitors)"
        ]
    return [danger for answer in answers if answer is not None for danger in answer]


async def _dangers(session: aiohttp.ClientSession, monitor: str) -> list[str] | None:
    try:
        async with session.get(f"{monitor}/jsz?config=1") as answer:
            jetstream = orjson.loads(await answer.read())
        async with session.get(f"{monitor}/varz") as answer:
            version = str(orjson.loads(await answer.read())["version"])
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError, KeyError):
        return None
    found = []
    if not (jetstream.get("config") or {}).get("sync_always"):
        found.append(
            f"{monitor}: it confirms entries before they are on disk: set "
            "jetstream { sync_interval: always }"
        )
    numbers = tuple(int(word) for word in version.split("-")[0].split(".") if word.isdigit())
    if numbers < VERSION_MIN:
        found.append(
            f"{monitor}: version {version} may lose confirmed entries: install "
            f"{'.'.join(map(str, VERSION_MIN))} or newer"
        )
    return found
