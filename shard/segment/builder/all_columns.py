"""All columns of a segment at once: what the writer and the merger call.

    build_columns = build_facets + build_numbers + build_presence + build_ids
    merge_columns = merge_facets + merge_numbers + merge_presence + merge_ids

(`text_builder` and `text_merge` make the text structures.) A structure that every segment has is
added here, so that neither writer nor merger can miss it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from shard.segment.columns.external_ids import build_ids, merge_ids
from shard.segment.columns.facet_column_builder import build_facets
from shard.segment.columns.facet_column_merge import merge_facets
from shard.segment.columns.number_columns import build_numbers, merge_numbers
from shard.segment.columns.presence_and_value_kinds import build_presence, merge_presence
from shard.segment.merge_state import MergeState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.facet_dictionary import FacetDictionary
    from shard.segment.items.value_extraction import Extraction


def build_columns(
    extraction: Extraction, facet_fields: Mapping[int, FacetDictionary]
) -> dict[str, NDArray[Any]]:
    """Build every column of a batch.

    Args:
        extraction: the values of the batch.
        facet_fields: dictionary of every facet, by field number; they grow.

    Returns:
        Arrays by name.

    Cost: about 1 µs an item with 4 facets; 0.15 ms for a batch of 64.
    """
    return {
        **build_facets(extraction, facet_fields),
        **build_numbers(extraction),
        **build_presence(extraction),
        **build_ids(extraction),
    }


def merge_columns(state: MergeState) -> Iterator[dict[str, NDArray[Any]]]:
    """Merge every column of consecutive segments, one structure after the other.

    Args:
        state: what is merged.

    Yields:
        Arrays by name, all together equal to those of a build from the kept documents.
    """
    yield from merge_facets(state)
    yield from merge_numbers(state)
    yield merge_presence(state)
    yield merge_ids(state)
