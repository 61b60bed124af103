"""The documents of a term in some fields, among few documents, against looking at every text."""

from __future__ import annotations

import random

import numpy as np
import pytest

from common.analysis.field_classes import ALL_CLASSES
from common.protocol.messages import FieldWeight
from shard.query.postings.term_lists import TermLists
from shard.query.scoring.bm25f import make_tf_norms
from shard.segment.doc_sets import bitset_of, count_docs, empty_bitset, list_all_docs
from shard.segment.field_registry import FieldRegistry
from shard.segment.text.postings_cursor import Wanted
from shard.segment.text.text_index import text_index
from tests.shard.text_model import Lists, make_segment

NUM_DOCS = 900
BITSETS = Lists(dense_docs_min=0, docs_per_entry_max=NUM_DOCS)


def made_items() -> list[dict[str, str]]:
    """Items with the word in none of the fields, in one, or in both."""
    rng = random.Random(5)
    return [
        {
            name: " ".join(["sea"] * rng.choice((0, 0, 1, 3)) + ["x"] * rng.randint(1, 2))
            for name in ("a", "b")
        }
        for _ in range(NUM_DOCS)
    ]


@pytest.mark.parametrize("lists", [Lists(), BITSETS], ids=["read", "bitset"])
@pytest.mark.parametrize("fields", ["a", "b", "ab"])
@pytest.mark.parametrize("num_wanted", [1, 5, 13, 300])
def test_the_documents_of_a_term_in_some_fields(lists: Lists, fields: str, num_wanted: int) -> None:
    registry = FieldRegistry()
    items = made_items()
    segment = make_segment(items, registry, lists)
    index = text_index(segment)
    numbers = {registry.number(name): FieldWeight(name, 1.0, 2.0) for name in fields}
    norms = make_tf_norms(
        index,
        {number: field for number, field in numbers.items() if number is not None},
        np.ones(len(index.length_fields), np.uint64),
        0.7,
    )
    term = index.vocabulary.find("sea")
    rng = random.Random(num_wanted)
    for _ in range(20):
        wanted = np.array(sorted(rng.sample(range(NUM_DOCS), num_wanted)), np.uint32)
        marked = empty_bitset(NUM_DOCS)

        TermLists(segment, norms, 1.0, empty_bitset(NUM_DOCS)).mark(
            np.array([term], np.uint32),
            np.array([ALL_CLASSES], np.uint64),
            Wanted.among(wanted, bitset_of(wanted, NUM_DOCS)),
            marked,
        )

        found = list_all_docs(marked, count_docs(marked)).tolist()
        assert found == [
            doc for doc in wanted.tolist() if any("sea" in items[doc][name] for name in fields)
        ]
