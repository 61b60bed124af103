"""Statistics of the live documents of a snapshot: document frequencies, lengths, fields.

The coordinator adds them up over all shards, and makes weights of the sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from common.analysis.field_classes import FieldClasses
from common.deadline import check_call
from common.protocol.messages import FieldStatistics, StatisticsRequest, StatisticsResponse
from common.query_syntax_tree import NUM_MATCH_KINDS, MatchKind, Word
from common.value_kinds_and_facet_keys import ValueKind
from shard.caches.derived_values import derived
from shard.query.bm25_statistics.filtered_statistics import (
    Visible,
    visible_doc_freqs,
    visible_docs,
    visible_field_statistics,
)
from shard.query.bm25_statistics.segment_statistics import (
    doc_freqs,
    field_statistics,
    freqs_of_near_words,
)
from shard.query.spelling.spacing_doc_freqs import (
    cut_freqs,
    cut_freqs_among,
    spacing_freq,
    spacing_freq_among,
)
from shard.query.text.whole_field_matches import whole_freq, whole_freq_among
from shard.read.field_classes_of_snapshot import field_classes_of
from shard.segment.columns.presence_and_value_kinds import Aspect, presence_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.snapshot import SegmentView, Snapshot


class _LiveDocs(NamedTuple):
    """The live documents of a segment, and what is counted among them; many counts are kept."""

    view: SegmentView

    def doc_freqs(self, word: Word, classes: FieldClasses) -> NDArray[np.int64]:
        """Return how many match a word, by kind of match."""
        return doc_freqs(self.view, word, classes)

    def near_freqs(self, word: Word, classes: FieldClasses) -> dict[tuple[int, str], int]:
        """Return how many have each term that a word may be a misspelling of, by kind and term."""
        return freqs_of_near_words(self.view, word, classes)

    def spacing_freq(self, words: tuple[str, ...]) -> int:
        """Return how many have the words next to each other, in order."""
        return spacing_freq(self.view, words)

    def whole_freq(self, words: tuple[str, ...]) -> int:
        """Return how many have a field that is nothing but these words."""
        return whole_freq(self.view, words)

    def cut_freqs(self, word: str) -> dict[int, int]:
        """Return how many have a word in two parts, by the length of the first."""
        return cut_freqs(self.view, word)


class _PassingDocs(NamedTuple):
    """The live documents of a segment that pass filters; as `_LiveDocs`."""

    visible: Visible

    def doc_freqs(self, word: Word, classes: FieldClasses) -> NDArray[np.int64]:
        return visible_doc_freqs(self.visible, word, classes)

    def near_freqs(self, word: Word, classes: FieldClasses) -> dict[tuple[int, str], int]:
        view, docs = self.visible
        return freqs_of_near_words(view, word, classes, docs)

    def spacing_freq(self, words: tuple[str, ...]) -> int:
        view, docs = self.visible
        return spacing_freq_among(view.segment, words, docs)

    def whole_freq(self, words: tuple[str, ...]) -> int:
        view, docs = self.visible
        return whole_freq_among(view.segment, words, docs)

    def cut_freqs(self, word: str) -> dict[int, int]:
        view, docs = self.visible
        return cut_freqs_among(view.segment, word, docs)


_Parts = Sequence[_LiveDocs] | Sequence[_PassingDocs]
"""By segment, the documents that statistics count."""


def statistics(snapshot: Snapshot, request: StatisticsRequest) -> StatisticsResponse:
    """Return what scoring needs to know about the live documents that pass the filters, if any."""
    classes = field_classes_of(snapshot)
    visible = []
    parts: _Parts
    if request.filters:
        visible = [visible_docs(snapshot, view, request.filters) for view in snapshot.views]
        parts = [_PassingDocs(part) for part in visible]
    else:
        parts = [_LiveDocs(view) for view in snapshot.views]
    freqs = []
    near: list[tuple[tuple[int, str, int], ...]] = []
    for word in request.words:
        check_call()
        sums = np.zeros(NUM_MATCH_KINDS, np.int64)
        for part in parts:
            sums += part.doc_freqs(word, classes)
        freqs.append(tuple(sums.tolist()))
        near.append(())
        if word.typos and not any(sums[: MatchKind.TYPO_1]):
            near[-1] = _near_words(parts, word, classes)
    of_words = (
        tuple([sum([part.spacing_freq(words) for part in parts]) for words in request.spacings]),
        tuple([sum([part.whole_freq(words) for part in parts]) for words in request.wholes]),
        tuple([_cut_freqs(parts, word) for word in request.cuts]),
        tuple(near),
    )
    num_docs = sum(len(part.docs) for part in visible) if request.filters else snapshot.num_docs
    if not request.needs_fields:
        return StatisticsResponse(num_docs, (), tuple(freqs), (), (), *of_words)
    if request.filters:
        fields = _text_fields(snapshot, map(visible_field_statistics, visible))
    else:
        fields = _all_text_fields(snapshot)
    scalar = _scalar_fields(snapshot)
    return StatisticsResponse(
        num_docs, fields, tuple(freqs), tuple(scalar), tuple(scalar.values()), *of_words
    )


def _near_words(
    parts: _Parts, word: Word, classes: FieldClasses
) -> tuple[tuple[int, str, int], ...]:
    """Return kind, term and documents of the terms that a word may be a misspelling of."""
    sums: Counter[tuple[int, str]] = Counter()
    for part in parts:
        sums.update(part.near_freqs(word, classes))
    return tuple([(kind, term, freq) for (kind, term), freq in sorted(sums.items())])


def _cut_freqs(parts: _Parts, word: str) -> tuple[tuple[int, int], ...]:
    """Return the documents that have a word in two parts, by the length of the first."""
    check_call()
    sums: dict[int, int] = {}
    for part in parts:
        for cut, freq in part.cut_freqs(word).items():
            if freq:
                sums[cut] = sums.get(cut, 0) + freq
    return tuple(sums.items())


@derived
def _all_text_fields(snapshot: Snapshot) -> tuple[FieldStatistics, ...]:
    """Return the lengths of all text fields, by path, in all items."""
    return _text_fields(snapshot, map(field_statistics, snapshot.views))


def _text_fields(
    snapshot: Snapshot, parts: Iterable[Mapping[int, tuple[int, int]]]
) -> tuple[FieldStatistics, ...]:
    """Return the lengths of all text fields, by path, summed over all segments."""
    sums: dict[int, tuple[int, int]] = {}
    for part in parts:
        for field, (num_docs, length) in part.items():
            before = sums.get(field, (0, 0))
            sums[field] = (before[0] + num_docs, before[1] + length)
    paths = snapshot.registry.paths
    found = (FieldStatistics(paths[field], *pair) for field, pair in sums.items() if pair[0])
    return tuple(sorted(found, key=lambda one: one.path))


@derived
def _scalar_fields(snapshot: Snapshot) -> dict[str, int]:
    """Return the kinds of values by path, for all paths that have, or had, any value or null.

    In order of the paths. Empty texts and arrays in arrays are of no kind: nothing is sorted or
    filtered by them, but they exist.
    """
    kinds: dict[str, int] = {}
    for view in snapshot.views:
        presence = presence_of(view.segment)
        for field in presence.fields:
            path = snapshot.registry.paths[field]
            kinds[path] = kinds.get(path, 0) | presence.kinds(field)
    return {path: kinds[path] for path in sorted(kinds)}


def fields_of(snapshot: Snapshot) -> tuple[dict[str, Any], ...]:
    """Return every field with the number of its documents and the kinds of its values.

    Deleted documents count until they are merged away.
    """
    counts: dict[int, int] = {}
    kinds: dict[int, int] = {}
    for view in snapshot.views:
        presence = presence_of(view.segment)
        for field in presence.fields:
            count = presence.count(field, Aspect.EXISTS)
            counts[field] = counts.get(field, 0) + count
            kinds[field] = kinds.get(field, 0) | presence.kinds(field)
    paths = snapshot.registry.paths
    return tuple(
        {
            "path": paths[field],
            "num_docs": counts[field],
            "kinds": [kind.name.lower() for kind in ValueKind if kinds[field] >> kind & 1],
        }
        for field in sorted(counts, key=paths.__getitem__)
    )
