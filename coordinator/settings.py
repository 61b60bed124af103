"""Every setting of supervisor and coordinator: name, default, unit, and purpose.

`common.setting_sources` defines where values come from. `facetd config` prints the effective values
and their origins: these, those of the shards (`common.shard_settings`) and the limits on requests
and items (`common.limits`). All are checked here, before any process starts; shards receive theirs
in the environment.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from common import data_directory
from common.limits import Limits
from common.nearest_name import did_you_mean
from common.setting_conversion import SettingError
from common.setting_declaration import log_level_setting, log_style_setting, setting
from common.setting_sources import (
    ENVIRONMENT_PREFIX,
    Origin,
    Sources,
    environment_name,
    field_names,
    read,
    read_limits,
)
from common.shard_settings import SECTION, ShardSettings
from coordinator.addresses import (
    check_host_names,
    check_origins,
    is_loopback,
    log_servers,
    monitor_urls,
    parse_address,
)

_OTHER_VARIABLES = frozenset(
    f"{ENVIRONMENT_PREFIX}{name}"
    for name in (
        "CONFIG_FILE",
        "FAULTS",
        "KERNELS",
        "KERNELS_VOUCHED",
        "KERNEL_BUILD",
        "KERNEL_LEVELS",
        "KEY",
        "URL",
    )
)
_TEST_PREFIX = f"{ENVIRONMENT_PREFIX}TEST_"

_DATA_DIR = Path("facetd-data")
SHARDS_MAX: Final = 64


def shards_for(num_cores: int) -> int:
    """Return how many shards use some cores well: half as many.

    The coordinator takes as much processor time for a cheap search as all shards together.
    """
    return min(max(num_cores // 2, 1), SHARDS_MAX)


SHARDS_DEFAULT: Final = shards_for(len(os.sched_getaffinity(0)))


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of supervisor and coordinator."""

    # --- where
    data_dir: Path = setting(  # noqa: RUF009 - makes a field, not a shared value
        _DATA_DIR, "folder", "folder that holds all data"
    )
    snapshot_dir: str = setting("", "folder", "folder for snapshots; empty: snapshots in data_dir")
    host: str = setting(
        "127.0.0.1",
        "address",
        "address to listen on; other than loopback requires an API key or --insecure",
    )
    port: int = setting(
        3000, "port", "port of the HTTP API; 0 picks a free one", at_least=0, at_most=65_535
    )
    shards: int = setting(
        SHARDS_DEFAULT,
        "processes",
        "shard processes that the data is partitioned over; fixed once the data directory "
        "exists, which then decides the default (change it with facetd reshard)",
        at_least=1,
        at_most=SHARDS_MAX,
    )
    coordinators: int = setting(
        1,
        "processes",
        "coordinator processes that serve searches; the first one also handles all changes",
        at_least=1,
        at_most=64,
    )
    shard_addresses: tuple[str, ...] = setting(
        (),
        "host:port",
        "shards that were started separately, in order of their ordinals; empty: found "
        "through data_dir",
    )

    # --- who may
    insecure: bool = setting(
        False,
        "yes/no",
        "listen on other addresses than loopback without any API key: anyone may do anything",
    )
    allowed_hosts: tuple[str, ...] = setting(
        (),
        "host names",
        "host names to accept in the Host header, besides loopback and the address listened on",
    )
    allowed_origins: tuple[str, ...] = setting(
        (), "origins", "origins of web pages that may call the API (CORS); '*' for any"
    )

    client_requests_per_second: float = setting(
        0.0,
        "requests/s",
        "rate limit per address and API key; further requests get 429; 0: none",
        at_least=0.0,
    )
    trusted_proxies: tuple[str, ...] = setting(
        (),
        "addresses",
        "addresses or networks of proxies whose X-Forwarded-For identifies the client for "
        "rate limiting",
    )
    client_burst: int = setting(
        100, "requests", "requests that a rate-limited client may send at once", at_least=1
    )

    # --- time
    shard_timeout_ms: int = setting(
        5_000,
        "ms",
        "timeout of a read on a shard; a search that sets a longer timeout_ms, and may not be "
        "partial, gets that instead",
        at_least=1,
    )
    write_timeout_ms: int = setting(
        30_000, "ms", "timeout of a group of writes on a shard", at_least=1
    )
    configure_timeout_ms: int = setting(
        3_600_000, "ms", "timeout for all shards to rebuild an index", at_least=1
    )
    silent_shard_seconds: float = setting(
        10.0,
        "s",
        "a shard process that shows no sign of life for this long is killed and restarted",
        at_least=1.0,
    )
    stop_grace_seconds: float = setting(
        6.0, "s", "time that running requests get to finish when the service stops", at_least=0.0
    )

    # --- writing
    group_bytes: int = setting(
        8 * 1024 * 1024, "bytes", "bytes of items in one commit on a shard", at_least=64 * 1024
    )
    group_operations: int = setting(
        65_536, "operations", "operations in one commit, over all shards", at_least=1, at_most=2**31
    )
    writes_waiting_max: int = setting(
        10_000,
        "requests",
        "write requests that may queue for one index; further ones get 503 overloaded",
        at_least=1,
    )

    # --- several hosts
    log_url: str = setting(
        "",
        "nats://host:port,…",
        "log shared by several hosts (NATS JetStream); empty: single host",
    )
    log_stream: str = setting("facetd", "name", "name of the log's stream")
    log_create: bool = setting(
        False,
        "yes/no",
        "create the log from the contents of this data directory; only for the first start "
        "of the first host",
    )
    log_replicas: int = setting(
        3,
        "servers",
        "servers that store each entry of the log; applies when the log is created",
        at_least=1,
        at_most=5,
    )
    log_monitors: tuple[str, ...] = setting(
        (),
        "http://host:port",
        "monitoring addresses of the log's servers; empty: port 8222 of each server",
    )
    log_credentials: str = setting(
        "", "file", "file with NATS credentials; empty: those in log_url, if any"
    )
    log_system: str = setting(
        "",
        "user:password",
        "user of the log's system account, or a file with NATS credentials; lets hosts "
        "request an election when the log's leader is dead; empty: its servers notice after "
        "4 to 9 s",
    )
    log_unsafe: bool = setting(
        False, "yes/no", "use the log even if its configuration can lose confirmed writes"
    )

    log_compare_seconds: float = setting(
        3_600.0,
        "s",
        "interval at which hosts compare their contents item by item; 0: only on request",
        at_least=0.0,
    )
    log_host: str = setting(
        "", "name", "name of this host in status and logs; empty: host name and port"
    )
    shards_here: str = setting(
        "",
        "ordinals",
        "shards of the cluster (shards_of) that this host holds, such as 0-3 or 0,2; empty: "
        "this host holds all data",
    )
    shards_of: int = setting(
        0,
        "shards",
        "shards of the whole cluster, where each host holds some of them (shards_here)",
        at_least=0,
        at_most=64,
    )
    shard_replicas: int = setting(
        2,
        "hosts",
        "hosts that should hold each shard, where each host holds some; facetd cluster "
        "status lists shards with fewer",
        at_least=1,
        at_most=16,
    )
    rpc_listen: str = setting(
        "",
        "host:port",
        "address to listen on for other hosts, which read the shards of this one; other than "
        "loopback requires rpc_tls_cert or --insecure",
    )
    rpc_advertise: str = setting(
        "", "host:port", "address at which other hosts reach rpc_listen; empty: rpc_listen itself"
    )
    rpc_tls_cert: str = setting(
        "", "file", "file with this host's certificate for connections between hosts (PEM)"
    )
    rpc_tls_key: str = setting("", "file", "file with the private key of rpc_tls_cert (PEM)")
    rpc_tls_ca: str = setting(
        "", "file", "file with the CA certificates that sign other hosts' certificates (PEM)"
    )

    # --- searching
    result_cache_bytes: int = setting(
        0,
        "bytes",
        "size of the cache of responses, which are valid until the next write to their "
        "index; 0: no cache",
        at_least=0,
    )

    analytics_days: int = setting(
        30,
        "days",
        "retention of search and click analytics; 0: nothing is recorded",
        at_least=0,
        at_most=3_660,
    )

    # --- logs
    log_level: str = log_level_setting()
    log_style: str = log_style_setting()
    slow_query_ms: int = setting(0, "ms", "log searches that take longer; 0: none", at_least=0)
    traces: bool = setting(
        False,
        "yes/no",
        "send OpenTelemetry traces to OTEL_EXPORTER_OTLP_ENDPOINT; requires facetd[otel]",
    )

    limits: Limits = dataclasses.field(default_factory=Limits)

    @property
    def is_exposed(self) -> bool:
        """Whether others than this machine's users can connect, and that is not on purpose."""
        return not (self.insecure or is_loopback(self.host))

    @property
    def has_placed_shards(self) -> bool:
        """Whether each of several hosts holds some shards of the whole."""
        return bool(self.shards_here)

    @property
    def all_shards(self) -> int:
        """Number of shards that the data are divided over."""
        return self.shards_of or self.shards

    @property
    def own_shards(self) -> tuple[int, ...]:
        """Ordinals of the shards of this host."""
        if self.shards_here:
            return parse_ordinals(self.shards_here, self.shards_of)
        return tuple(range(self.shards))

    @property
    def rpc_address(self) -> tuple[str, int]:
        """Where this host listens for others; port 0 takes a free one."""
        return parse_address(self.rpc_listen, "rpc_listen", "10.0.0.1:3001", port_min=0)

    @property
    def snapshot_disk(self) -> str:
        """Whose disk snapshots are made on, as messages name it."""
        return "snapshot_dir" if self.snapshot_dir else "the data directory"

    @property
    def snapshot_folder(self) -> Path:
        """Absolute path of the folder where snapshots are made."""
        if self.snapshot_dir:
            return Path(self.snapshot_dir).expanduser().resolve()
        return data_directory.snapshots_folder(self.data_dir.resolve())


def names() -> list[str]:
    """Return the names of the settings that have their own flags."""
    return field_names(Settings)


def all_names() -> list[str]:
    """Return the names of all settings: the service's, the shards', the limits."""
    limits = [f"limits.{limit.name}" for limit in Limits.describe()]
    return [*names(), *field_names(ShardSettings, SECTION), *limits]


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return a warning for each variable that looks like a setting but is not.

    These are not errors: systems that run services add variables of their own (Kubernetes sets
    FACETD_SERVICE_HOST for a service called facetd).
    """
    known = {environment_name(name) for name in all_names()} | _OTHER_VARIABLES
    return [
        f"{variable} is not a setting and has no effect{did_you_mean(variable, known, 0.85)}"
        for variable in sorted(environment)
        if variable.startswith(ENVIRONMENT_PREFIX)
        and variable not in known
        and not variable.startswith(_TEST_PREFIX)
    ]


def load(
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> tuple[Settings, list[Origin]]:
    """Collect the settings from flags, environment, file and defaults.

    Args:
        flags: by name; None means "not given"; `assignments` are those of `--set`.
        environment: usually `os.environ`.
        file: TOML file; None consults FACETD_CONFIG_FILE.

    Returns:
        The settings, and the origin of every setting of the service.

    Raises:
        SettingError: a name is unknown or a value invalid; says what would be valid.
    """
    given = dict(flags or {})
    assignments = given.pop("assignments", None) or ()
    environment = os.environ if environment is None else environment
    sources = Sources.collect(environment, given, assignments, file)
    sources.refuse_unknown(all_names())
    values, origins = read(Settings, sources)
    values["host"] = values["host"].removeprefix("[").removesuffix("]")  # as in a URL: [::1]
    origins = _with_shards_of_data(values, origins)
    _check_networks(values.get("trusted_proxies", ()))
    _check_snapshot_dir(Settings(**values))
    _check_addresses(Settings(**values))
    _check_placement(Settings(**values))
    _, shard_origins = read(ShardSettings, sources, SECTION)
    limits, limit_origins = read_limits(sources)
    return Settings(**values, limits=limits), [*origins, *shard_origins, *limit_origins]


def _with_shards_of_data(values: dict[str, Any], origins: list[Origin]) -> list[Origin]:
    """Take the number of shards from the data, unless it is given: machines get other cores."""
    [given] = [one for one in origins if one.name == "shards"]
    if given.origin != "default":
        return origins
    try:
        manifest = data_directory.read_manifest(values["data_dir"])
    except data_directory.DataDirectoryError:
        return origins  # what starts on it says so
    if manifest is None:
        return origins
    values["shards"] = manifest.shards
    found = given._replace(value=manifest.shards, origin="data_dir")
    return [found if one is given else one for one in origins]


def parse_ordinals(text: str, num_shards: int) -> tuple[int, ...]:
    """Return the ordinals that a text such as `0-3,6` names, ascending.

    Raises:
        SettingError: it is malformed, or names a shard that does not exist.
    """
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        ends = (first, last if dash else first)
        if not all(one.isascii() and one.isdigit() and len(one) < 4 for one in ends):
            raise SettingError(
                f"shards_here is a list of ordinals and ranges, such as 0-3 or 0,2, not {text!r}"
            )
        found.update(range(int(ends[0]), int(ends[1]) + 1))
    if not found or max(found) >= num_shards:
        raise SettingError(
            f"shards_here names shards from 0 to {num_shards - 1} (--of {num_shards}), not {text!r}"
        )
    return tuple(sorted(found))


def _check_snapshot_dir(settings: Settings) -> None:
    """Refuse a folder in the home directory of a user that does not exist, or of an odd name."""
    try:
        folder = settings.snapshot_folder
    except RuntimeError as error:
        raise SettingError(
            f"snapshot_dir: there is no home directory for {settings.snapshot_dir}"
        ) from error
    if settings.snapshot_dir and (fault := data_directory.unusable_path(folder)):
        raise SettingError(f"snapshot_dir: {fault}")


def _check_placement(settings: Settings) -> None:
    """Refuse settings of placed shards that do not fit each other."""
    if bool(settings.shards_here) != bool(settings.shards_of):
        raise SettingError(
            "--shards-here 0-3 --of 8 go together: which shards this host holds, and of how many"
        )
    if not settings.shards_here:
        return
    settings.own_shards  # noqa: B018 - raises if malformed
    if not settings.log_url:
        raise SettingError("--shards-here needs --log nats://…: the hosts share a log")
    if settings.shard_addresses:
        raise SettingError("--shards-here and --shard exclude each other")
    if settings.coordinators > 1:
        raise SettingError(
            "--shards-here takes one coordinator: others are connected to the shards of their own "
            "host only, and other hosts would not keep the states that they read. Start without "
            "--coordinators, and put a load balancer in front of the hosts"
        )
    if not settings.rpc_listen:
        raise SettingError(
            "--shards-here needs --rpc-listen HOST:PORT, at which other hosts read the shards of "
            "this one, for example 10.0.0.1:3001"
        )
    host, _ = settings.rpc_address
    if host in ("0.0.0.0", "::") and not settings.rpc_advertise:
        raise SettingError(
            f"rpc_listen {settings.rpc_listen} is not an address for others: "
            "name one in rpc_advertise"
        )
    tls = (settings.rpc_tls_cert, settings.rpc_tls_key, settings.rpc_tls_ca)
    if any(tls) and not all(tls):
        raise SettingError("rpc_tls_cert, rpc_tls_key and rpc_tls_ca go together")
    if not any(tls) and host not in ("127.0.0.1", "::1", "localhost") and not settings.insecure:
        raise SettingError(
            f"rpc_listen {settings.rpc_listen} is beyond loopback: name rpc_tls_cert, rpc_tls_key "
            "and rpc_tls_ca, or start with --insecure (anyone on the network may then read along)"
        )


def _check_addresses(settings: Settings) -> None:
    """Refuse malformed addresses before anything is started or made."""
    if settings.log_url:
        log_servers(settings.log_url)
    monitor_urls(settings.log_monitors)
    for address in settings.shard_addresses:
        parse_address(address)
    if settings.rpc_listen:
        settings.rpc_address  # noqa: B018 - raises if malformed
    if settings.rpc_advertise:
        parse_address(settings.rpc_advertise, "rpc_advertise", "10.0.0.1:3001")
    check_host_names(settings.allowed_hosts)
    check_origins(settings.allowed_origins)


def _check_networks(texts: Sequence[str]) -> None:
    """Refuse what is neither an address nor a network."""
    for text in texts:
        try:
            ipaddress.ip_network(text, strict=False)
        except ValueError:
            raise SettingError(
                f"trusted_proxies must be addresses or networks such as 10.0.0.0/8, not {text!r}"
            ) from None


def describe() -> Iterator[tuple[str, Any, str, str]]:
    """Yield name, default, unit and meaning of every setting that has a flag, for the docs."""
    for field in dataclasses.fields(Settings):
        if field.metadata:
            yield field.name, field.default, field.metadata["unit"], field.metadata["doc"]
