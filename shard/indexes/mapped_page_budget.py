"""The budget of a shard's mapped pages: a share of the size of the files that are open."""

from __future__ import annotations

from common.process.mapped_pages import FilePart
from common.shard_settings import ShardSettings
from shard.indexes.open_indexes import OpenIndexes
from shard.storage.mapped_page_release import RESIDENT_BYTES_MIN, PageBudget


def page_budget(indexes: OpenIndexes, num_shards: int, settings: ShardSettings) -> PageBudget:
    """Return what keeps the resident pages of open indexes near their budget."""

    def resident_bytes_max() -> int:
        sizes = [index.partition.file_bytes for index in indexes.all()]
        share = sum(sizes) * settings.resident_percent // 100
        return max(RESIDENT_BYTES_MIN // num_shards, share)

    def release_items(part: FilePart) -> None:
        for index in indexes.all():
            index.partition.environment.release_pages(part)

    def release_segments(part: FilePart) -> None:
        for index in indexes.all():
            index.partition.release_pages(part)

    return PageBudget(
        resident_bytes_max, release_items=release_items, release_segments=release_segments
    )
