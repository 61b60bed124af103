"""Every setting of a shard process: name, default, unit, and what it is for.

They concern storage, and are called `shard.<name>` (`common.setting_sources` says where values come
from). The supervisor checks them before it starts anything, and passes them on in variables
FACETD_SHARD_<NAME>; a shard that is started alone reads these, or the file.
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from common.limits import Limits
from common.setting_declaration import setting
from common.setting_sources import Sources, read, read_limits

SECTION: Final = "shard"
MAP_BYTES_DEFAULT: Final = 64 << 30


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """The settings of a shard."""

    map_bytes_max: int = setting(
        MAP_BYTES_DEFAULT,
        "bytes",
        "largest size of data.mdb per index; its address space grows up to that",
        at_least=1 << 20,
    )
    map_watermark_percent: int = setting(
        90,
        "%",
        "share of map_bytes_max above which new items are refused; deletes still work",
        at_least=1,
        at_most=100,
    )
    free_bytes_min: int = setting(
        64 << 20,
        "bytes",
        "free disk space that writes never use (at most 3 % of the disk)",
        at_least=1,
    )
    resident_percent: int = setting(
        28,
        "%",
        "share of the files (at least 192 MiB) that stays mapped after reading",
        at_least=1,
        at_most=100,
    )
    recent_items_bytes_max: int = setting(
        8 << 20,
        "bytes",
        "memory per shard for recently read items, which stay decompressed; 0: none",
        at_least=0,
    )
    flush_docs: int = setting(
        4_096,
        "documents",
        "documents in in-memory segments that trigger a flush to files",
        at_least=1,
    )
    flush_bytes: int = setting(
        32 << 20, "bytes", "bytes of in-memory segments that trigger a flush to files", at_least=1
    )
    idle_ms: int = setting(
        1_000, "ms", "time without writes after which an index is merged further", at_least=1
    )
    switch_interval_us: int = setting(
        100,
        "µs",
        "time that a thread may hold the interpreter while another one waits",
        at_least=1,
    )
    open_indexes_max: int = setting(
        256,
        "indexes",
        "indexes that a shard keeps open; the least recently used ones are closed and "
        "reopened on demand",
        at_least=1,
    )
    slow_call_ms: int = setting(
        0, "ms", "log calls from the coordinator that take longer; 0: none", at_least=0
    )
    limits: Limits = dataclasses.field(default_factory=Limits)
    """Those of the whole service; an item that is made of two by an update must keep them too."""

    def leave_room(self, folder: Path, num_bytes: int) -> bool:
        """Return whether a folder's disk has room for this many bytes besides the reserve."""
        disk = os.statvfs(folder)
        reserve = min(self.free_bytes_min, disk.f_blocks * disk.f_frsize * 3 // 100)
        return disk.f_bavail * disk.f_frsize >= num_bytes + reserve

    @classmethod
    def of(cls, sources: Sources) -> ShardSettings:
        """Return the defaults, changed by what the sources say.

        Raises:
            SettingError: a value is wrong, or there is no such limit.
        """
        values, _ = read(cls, sources, SECTION)
        return cls(**values, limits=read_limits(sources)[0])
