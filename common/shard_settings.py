"""Every setting of a shard process: name, default, unit, and what it is for.

They concern storage, and are called `shard.<name>` (`common.settings` says where values come from).
The supervisor checks them before it starts anything, and passes them on in variables
FACETD_SHARD_<NAME>; a shard that is started alone reads these, or the file.
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from common.limits import Limits
from common.settings import Sources, read, read_limits, setting

SECTION: Final = "shard"
MAP_BYTES_DEFAULT: Final = 64 << 30


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """The settings of a shard."""

    map_bytes_max: int = setting(
        MAP_BYTES_DEFAULT,
        "bytes",
        "greatest size of data.mdb per index; address space only",
        at_least=1 << 20,
    )
    map_watermark_percent: int = setting(
        90,
        "%",
        "of map_bytes_max in use from which items are refused; deletes go on",
        at_least=1,
        at_most=100,
    )
    free_bytes_min: int = setting(
        64 << 20,
        "bytes",
        "of the disk (but at most 3 % of it) that writes leave free",
        at_least=1,
    )
    resident_percent: int = setting(
        28,
        "%",
        "of the files (but at least 192 MiB) that stay mapped after they were read",
        at_least=1,
        at_most=100,
    )
    recent_items_bytes_max: int = setting(
        8 << 20,
        "bytes",
        "of items that were read lately and stay unpacked in memory per shard; 0: none",
        at_least=0,
    )
    flush_docs: int = setting(
        4_096,
        "documents",
        "of segments in memory from which they are written to files",
        at_least=1,
    )
    flush_bytes: int = setting(
        32 << 20, "bytes", "of segments in memory from which they are written to files", at_least=1
    )
    idle_ms: int = setting(
        1_000, "ms", "without a write after which an index is merged further", at_least=1
    )
    switch_interval_us: int = setting(
        100,
        "µs",
        "for which a thread may hold the interpreter while another one waits",
        at_least=1,
    )
    open_indexes_max: int = setting(
        256,
        "indexes",
        "open at a time per shard; those used longest ago close, and open again when needed",
        at_least=1,
    )
    slow_call_ms: int = setting(
        0, "ms", "calls of the coordinator that take longer are logged; 0: none", at_least=0
    )
    limits: Limits = dataclasses.field(default_factory=Limits)
    """Those of the whole service; an item that is made of two by an update must keep them too."""

    def leave_room(self, folder: Path, num_bytes: int) -> bool:
        """Whether so many bytes fit on the disk of a folder without touching the reserve."""
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
