"""Infix search finds the same terms as a scan."""

from __future__ import annotations

import pytest

from common.analysis.accented_spellings import is_spelling
from shard.segment.field_registry import FieldRegistry
from shard.segment.text.term_trigram_index import find_inside
from shard.segment.text.text_index import text_index
from tests.shard.text_model import make_segment


@pytest.mark.parametrize("word", ["abc", "bcd", "001", "12001", "zzz", "äöü", "ab1200", "abcdäöü"])
def test_all_terms_with_a_word_inside_are_found(word: str) -> None:
    items = [{"a": f"ab{i:05}cd abcd{i:x} äöü{i}abcdäöü"} for i in range(3_000)]
    segment = make_segment(items, FieldRegistry())
    vocabulary = text_index(segment).vocabulary
    terms = vocabulary.terms(0, len(vocabulary))

    found = find_inside(segment, word).tolist()

    assert found == [i for i, term in enumerate(terms) if word in term and not is_spelling(term)]
