"""A completed word is expanded alike whether the word itself has been looked up before or not."""

from __future__ import annotations

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from common.analysis.field_classes import FieldClasses
from common.query_syntax_tree import Word
from shard.query.terms.expansion import expand_word, is_known
from shard.segment.field_registry import FieldRegistry
from tests.shard.text_model import make_segment

CLASSES = FieldClasses("en", {"b": None})
TEXTS = st.lists(
    st.sampled_from(["run", "runs", "runner", "runway", "rum", "jog", "running"]), max_size=6
).map(" ".join)


@given(
    st.lists(st.fixed_dictionaries({"a": TEXTS, "b": TEXTS}), min_size=1, max_size=4),
    st.sampled_from(["run", "ru", "jog"]),
    st.integers(0, 2),
)
def test_what_is_known_of_a_word_serves_its_completion(
    items: list[dict[str, str]], text: str, typos: int
) -> None:
    plain = Word(text, True, typos, (("jog",),))
    completed = msgspec.structs.replace(plain, is_completed=True)
    fresh = expand_word(make_segment(items, FieldRegistry()), completed, CLASSES)
    segment = make_segment(items, FieldRegistry())
    assert not is_known(segment, completed, CLASSES)
    expand_word(segment, plain, CLASSES)
    assert is_known(segment, completed, CLASSES)
    found = expand_word(segment, completed, CLASSES)
    for name in ("terms", "kinds", "masks"):
        assert np.array_equal(getattr(found, name), getattr(fresh, name))
    assert (found.phrases, found.num_entries, found.only, found.worst, found.joined) == (
        (fresh.phrases, fresh.num_entries, fresh.only, fresh.worst, fresh.joined)
    )
