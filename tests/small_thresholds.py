"""`facetd` for which a dozen items are many.

    python -m tests.small_thresholds serve …

Which way a search goes depends on how many documents match, how long the lists of its words are,
and how often it is repeated. The indexes of the oracles' tests are tiny: they would only see the
ways of tiny indexes. Here all ways begin at a handful, and orders are made where they are first
asked for instead of in the background.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

import coordinator.__main__
from common.protocol.messages import search_request
from coordinator.cli import commands
from coordinator.process import supervisor
from coordinator.read.facets import bucket_selection, facet_scheduling, group_counts_by_facet_value
from shard.caches.lru_cache import COLUMN_CACHE
from shard.collect.facets import facet_counts
from shard.collect.grouping import distinct_hits, group_sizes_hits_and_counts
from shard.collect.top_hits import segment_top_k
from shard.process import shard_command
from shard.query.filters import filter_only_matches
from shard.query.phrases import frequent_pairs
from shard.query.pruning import (
    expanded_word_top_k,
    kept_words,
    score_bounds,
    single_term_top_k,
)
from shard.query.terms import kept_terms_of_docs
from shard.query.text import any_clause_top_k, clause_combination, text_search
from shard.read import matching
from shard.segment.columns import facet_column_builder, facet_column_merge, text_ordinal_files
from shard.segment.columns.permutations import Permutation, Permuted
from shard.segment.segment import Segment
from shard.segment.text import bitset_postings, prefix_lists

FEW: Final = 2

THRESHOLDS: Final = (
    (search_request, "SKIPPED_MAX", FEW),
    (segment_top_k, "_WALK_MATCHES_MIN", 1),
    (segment_top_k, "_WALK_STEPS_MAX", 1_000),
    (segment_top_k, "_FOUND_SHARE", 1),
    (segment_top_k, "_SCORED_FEW", FEW),
    (text_search, "_SCORED_AT_ONCE", FEW),
    (matching, "_INSPECTED_COST", 0),
    (clause_combination, "_COUNTED_COST", 0),
    (clause_combination, "_CANDIDATES_SHARE", 1),
    (clause_combination, "_MARKED_ENTRIES_MIN", 1),
    (any_clause_top_k, "_ENTRIES_MIN", 1),
    (kept_words, "ENTRIES_MIN", 1),
    (kept_words, "DEEP_HITS_MIN", 1),
    (kept_words, "NUM_CHAMPIONS", 4),
    (kept_words, "_CODES_MAX", 8),
    (kept_terms_of_docs, "TERMS_MIN", 1),
    (single_term_top_k, "DEEP_HITS_MIN", 1),
    (single_term_top_k, "_DEEP_FACTOR", 1),
    (expanded_word_top_k, "ENTRIES_MIN", 1),
    (expanded_word_top_k, "_ENTRIES_PER_HIT", 1),
    (prefix_lists, "ENTRIES_MIN", 12),
    (prefix_lists, "ENTRIES_MAX", 12),
    (bitset_postings, "DOCS_MIN", 1),
    (frequent_pairs, "DOCS_MIN", 1),
    (filter_only_matches, "_SELECTIVE_SHARE", 1),
    (facet_column_builder, "SETS_DOCS_MIN", 1),
    (facet_column_merge, "SETS_DOCS_MIN", 1),
    (facet_counts, "_SETS_MATCHES_MIN", 1),
    (facet_counts, "ROWS_DOCS_MIN", 1),
    (facet_counts, "_ROWS_MATCHES_MIN", 1),
    (facet_counts, "_ROWS_SHARE", 1),
    (text_ordinal_files, "FILE_DOCS_MIN", 1),
    (distinct_hits, "_SELECTED_MIN", 1),
    (group_sizes_hits_and_counts, "BITS_MAX", 24),
    (group_counts_by_facet_value, "_MARKS_MAX", 24),
    (bucket_selection, "_RANKED_MAX", FEW),
    (bucket_selection, "_UNRANKED_MIN", FEW),
    (bucket_selection, "_TIES_MAX", FEW),
    (facet_scheduling, "LONG_RESPONSE_VALUES", 8),
    (facet_scheduling, "LONG_RESPONSE_KEYS", 4),
    (facet_scheduling, "BUCKETS_FAST_MAX", FEW),
)
"""Module, name of a constant, value."""


def _permutation_at_once(self: Permuted) -> Permutation | None:
    """Return the documents in order, which are sorted if they have not been."""
    key = ("permutation", self.serial)
    if COLUMN_CACHE.get(key) is None:
        self.make_permutation()
    known: Permutation | None = COLUMN_CACHE.get(key)
    return known


class _AtOnce:
    """Does what is otherwise scheduled in the background."""

    @staticmethod
    def add(key: Hashable, owner: Segment, make: Callable[[Segment], None]) -> None:
        """Do it."""
        make(owner)


def lower(assign: Callable[[object, str, object], None] = setattr) -> None:
    """Lower all thresholds of this process.

    Args:
        assign: sets an attribute, so that a test can undo it.
    """
    for module, name, value in THRESHOLDS:
        assert hasattr(module, name), name
        assign(module, name, value)
    assign(Permuted, "permutation", _permutation_at_once)
    assign(kept_words, "schedule", _AtOnce.add)
    assign(kept_terms_of_docs, "schedule", _AtOnce.add)
    assign(score_bounds, "BACKGROUND_TASKS", _AtOnce)


def run_shard(arguments: list[str]) -> None:
    """Run a shard."""
    lower()
    shard_command.main(arguments)


def run_coordinator(arguments: list[str]) -> None:
    """Run a coordinator."""
    lower()
    commands.main(arguments)


if __name__ == "__main__":
    for program, function in (("SHARD", run_shard), ("COORDINATOR", run_coordinator)):
        known = getattr(supervisor, program)
        main = f"tests.small_thresholds:{function.__name__}"
        setattr(supervisor, program, known._replace(main=main))
    coordinator.__main__.main()
