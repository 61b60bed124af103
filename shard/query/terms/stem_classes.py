"""Stem classes: the terms of a segment that have the same stem as a word.

Words of one stem share their beginning in most languages, but for irregular plurals, so the terms
that begin like the stem are stemmed: usually a few hundred (0.5 µs each), or thousands, once, where
the stem has few letters. For languages where they do not, all terms are, once per segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import xxhash

from common.analysis.field_classes import ALL_CLASSES, FieldClasses
from common.analysis.stemmer import stem, stem_all, stem_prefixes
from common.query_syntax_tree import Word
from shard.caches.derived_values import derived, derived_by_key
from shard.caches.query_cache import QUERY_CACHE_BUDGET, QueryCache
from shard.segment.text.text_index import text_index

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.segment import Segment
    from shard.segment.text.vocabulary import Vocabulary

_STEMMED_FEW: Final = 256
"""Stem classes among more terms are cached: a few letters may begin a tenth of all terms."""
_ARRAY_BYTES: Final = 120
"""The header of an array."""


def stem_forms(segment: Segment, word: Word, classes: FieldClasses) -> dict[int, int]:
    """Return the terms of the same stem as a word, with the masks of the fields where they are."""
    vocabulary = text_index(segment).vocabulary
    masks: dict[int, int] = {}
    if word.is_stemmed:
        for language in classes.languages:
            mask = ALL_CLASSES
            if classes.language_by_path:
                mask = classes.mask_of_language(language)
            for ordinal in _stem_class(segment, vocabulary, word.text, language):
                masks[ordinal] = masks.get(ordinal, 0) | mask
    return masks


def _stem_class(segment: Segment, vocabulary: Vocabulary, text: str, language: str) -> list[int]:
    """Return the ordinals of all terms with the same stem as a word, itself included."""
    wanted = stem(text, language)
    beginnings = stem_prefixes(wanted, language)
    if not beginnings:
        return []
    if beginnings != ("",):
        cache = _stem_classes(segment)
        found = cache.get((wanted, language))
        if found is None:
            ranges = [vocabulary.prefix_range(beginning) for beginning in beginnings]
            parts = [_with_stem(vocabulary, one, wanted, language) for one in ranges]
            found = parts[0] if len(parts) == 1 else np.concatenate(parts)
            if sum([last - first for first, last in ranges]) > _STEMMED_FEW:
                num_bytes = len(wanted) + _ARRAY_BYTES + found.nbytes
                QUERY_CACHE_BUDGET.keep(cache, (wanted, language), found, num_bytes)
        listed: list[int] = found.tolist()
        return listed
    hashes, ordinals = _stem_table(segment, language)
    digest = np.uint64(xxhash.xxh3_64_intdigest(wanted.encode()))
    start, end = np.searchsorted(hashes, digest, "left"), np.searchsorted(hashes, digest, "right")
    return sorted(ordinals[start:end].tolist())


def _with_stem(
    vocabulary: Vocabulary, terms: tuple[int, int], wanted: str, language: str
) -> NDArray[np.uint32]:
    """Return the ordinals of the terms of a range that have a stem."""
    first, last = terms
    stems = stem_all(vocabulary.terms(first, last), language) if last > first else []
    return np.array([first + i for i, one in enumerate(stems) if one == wanted], np.uint32)


@derived
def _stem_classes(segment: Segment) -> QueryCache[tuple[str, str], NDArray[np.uint32]]:
    """Return the stem classes that a segment remembers, by stem and language."""
    return QueryCache()


@derived_by_key
def _stem_table(segment: Segment, language: str) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Return the hashes of all terms' stems, sorted, and the terms' ordinals."""
    vocabulary = text_index(segment).vocabulary
    digest = xxhash.xxh3_64_intdigest
    first = vocabulary.num_spellings
    stems = stem_all(vocabulary.terms(first, len(vocabulary)), language)
    hashes = np.fromiter((digest(one.encode()) for one in stems), np.uint64, len(stems))
    order = np.argsort(hashes)
    return hashes[order], (order + first).astype(np.uint32)
