"""Expansion: the vocabulary terms of one segment that match a word of the query.

    run, is_prefix, typos 0, English  ──▶  run      EXACT
                                           rún      SPELLING   if that was typed
                                           running  COMPLETION_STEM  same stem, begins with run
                                                               (not PREFIX: its best kind counts)
                                           jog      SYNONYM    if the configuration says so
                                           ru n     SPACING    if the coordinator says so (a phrase)
                                           runway   PREFIX     or COMPLETION, ranked near run
                                                               (so is run, if it is a fragment)
                                           forerun  INFIX      where the request or a field says so
    running, typos 0, English         ──▶  run      STEM       same stem
    shawsh, is_prefix, typos 1        ──▶  shawshank   PREFIX
                                           shewsbury   no: "shewsb", "shews" … are 2 edits away
    guitr, typos 1, English           ──▶  guitar      TYPO_1
                                           guitars     TYPO_1_FORM  if the coordinator says that
                                                                    guitar is likely to be meant;
                                           guita       TYPO_2       then other words are not

Expansion is exhaustive: it returns every matching term of the vocabulary, each in its best kind. So
the result over all segments and shards does not depend on how items are spread.

Terms of kind PREFIX may have a prefix list (`shard/segment/text/prefix_lists.py`); reading it
replaces reading theirs: `Expansion.joined`. It covers all terms with that prefix, including those
that match in a better kind, but a document with one of these is in a better tier, in which prefixes
do not count (see bm25f).

With languages by field, a stem counts only in the fields of its language, and so do typos with typo
lengths by field: each term carries a bit mask of *field classes*, each field has the bit of its own
(`FieldClasses.masks`).

Costs: see vocabulary for exact, prefix, typos, and stem_classes for stems. The segment caches the
result (`shard/caches/query_cache.py`).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
from msgspec import Struct, structs

from common.analysis.field_classes import ALL_CLASSES, FieldClasses
from common.deadline import check_call
from common.query_syntax_tree import NUM_MATCH_KINDS, MatchKind, Word
from common.term_weights import CORRECTED_FORMS_MAX
from shard.caches.derived_values import derived
from shard.caches.key_sizes import bytes_of
from shard.caches.query_cache import QUERY_CACHE_BUDGET, QueryCache
from shard.query.terms.stem_classes import stem_forms
from shard.segment.text.term_trigram_index import find_inside
from shard.segment.text.text_index import text_index

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.segment import Segment
    from shard.segment.text.text_index import TextIndex
    from shard.segment.text.vocabulary import Vocabulary

REMEMBERED_TERMS_MAX: Final = 4_096
"""Larger expansions are cached only if typos made them costly: a prefix range is cheap to find
again."""
_KIND_OF_DISTANCE: Final = np.array(
    (MatchKind.PREFIX, MatchKind.TYPO_1, MatchKind.TYPO_2), np.uint8
)
_PREFIX_RUN: Final = np.array((MatchKind.PREFIX, MatchKind.INFIX), np.uint8)
"""Where the terms of kind PREFIX begin and end, to be searched for among sorted kinds."""
_EXACT_KINDS: Final = np.array((MatchKind.EXACT,), np.uint8)
_OBJECT_BYTES: Final = 1_200
"""The objects and array headers of an expansion."""
_ALL_MASKS: Final = np.array((ALL_CLASSES,), np.uint64)


class OnlyTerm(NamedTuple):
    """The single term that matches a word in a segment: the common case, with its own fast path."""

    term: int
    kind: int
    mask: int


class Expansion(Struct, frozen=True, eq=False):
    """Terms of one segment that match a word."""

    terms: NDArray[np.uint32]
    """Ordinals, by kind, then ascending."""
    kinds: NDArray[np.uint8]
    """`MatchKind` of each."""
    masks: NDArray[np.uint64]
    """Mask of the field classes in which each counts."""
    phrases: tuple[tuple[str, ...], ...]
    """Multi-word synonyms and spacings: they match where their words stand adjacent, in order."""
    num_entries: int
    """Posting entries of all terms together."""
    only: OnlyTerm | None
    """The term, where it is the only one and there are no phrases."""
    worst: int
    """The worst (greatest) of the kinds; 0 if there is no term."""
    joined: Expansion | None
    """The same with a prefix list in place of the PREFIX terms, if there is one: same documents and
    scores, less to read.
    """
    parts: dict[int, Expansion]
    """Cache of the expansions cut off at a `MatchKind` better than the worst."""

    def __len__(self) -> int:
        return len(self.terms)

    @property
    def num_bytes(self) -> int:
        """Estimated size; `parts` shares the arrays."""
        arrays = self.terms.nbytes + self.kinds.nbytes + self.masks.nbytes
        return arrays + _OBJECT_BYTES


_NO_EXPANSION: Final = Expansion(
    np.zeros(0, np.uint32), np.zeros(0, np.uint8), np.zeros(0, np.uint64), (), 0, None, 0, None, {}
)


class TermsByKind(NamedTuple):
    """Terms of a word; the members are those of `Expansion`."""

    terms: NDArray[np.uint32]
    kinds: NDArray[np.uint8]
    masks: NDArray[np.uint64]


_Key: TypeAlias = tuple[Word, Hashable]
"""The cache key of an expansion within a segment."""


def expand_word(
    segment: Segment, word: Word, classes: FieldClasses, last: int = MatchKind.TYPO_2_FORM
) -> Expansion:
    """Return the terms that match a word, cached per segment.

    Args:
        segment: whose vocabulary.
        word: of the query.
        classes: of the fields, by the configuration.
        last: the worst kind of match to return.

    Raises:
        DeadlineExceeded: the caller has stopped waiting. Checked here because every clause of a
            query passes through, in every segment.
    """
    check_call()
    cache = expansions_of(segment)
    key = _key(word, classes)
    expansion = cache.get(key)
    if expansion is None:
        if word.spellings:
            plain = expand_word(segment, structs.replace(word, spellings=()), classes)
            expansion = _with_spellings(text_index(segment), plain, word)
        else:
            expansion = _completed_of(segment, cache, word, classes)
        if expansion is None and word.corrections:
            plain = expand_word(segment, _uncorrected(word), classes)
            likely = _with_unlikely_last(text_index(segment), plain, word)
            expansion = _with_forms(segment, likely, word, classes)
        if expansion is None:
            expansion = _expand(segment, word, classes)
        if len(expansion) <= REMEMBERED_TERMS_MAX or word.typos > 0 or word.infix:
            num_bytes = expansion.num_bytes + bytes_of(word)
            QUERY_CACHE_BUDGET.keep(cache, key, expansion, num_bytes)
    if last >= expansion.worst:
        return expansion
    part = expansion.parts.get(last)
    if part is None:
        part = expansion.parts[last] = _up_to(text_index(segment), expansion, last)
    return part


def _completed_of(
    segment: Segment, cache: QueryCache[_Key, Expansion], word: Word, classes: FieldClasses
) -> Expansion | None:
    """Return the expansion of a completed word from that of the word, if it is cached.

    Statistics ask for the word; whether it is completed follows from them. The same terms match.
    """
    if not word.is_completed:
        return None
    plain = cache.get(_key(_plain(word), classes))
    if plain is None:
        return None
    kinds = plain.kinds.copy()
    kinds[kinds == MatchKind.PREFIX] = MatchKind.COMPLETION
    found = TermsByKind(plain.terms, kinds, plain.masks)
    return _make_expansion(text_index(segment), found, plain.phrases)


def _plain(word: Word) -> Word:
    return structs.replace(word, is_completed=False)


def _uncorrected(word: Word) -> Word:
    return structs.replace(word, corrections=(), correction_kind=0)


def is_known(segment: Segment, word: Word, classes: FieldClasses) -> bool:
    """Return whether a segment caches the terms that match a word."""
    known = expansions_of(segment)
    if word.spellings:
        word = structs.replace(word, spellings=())
    if word.is_completed and _key(_plain(word), classes) in known:
        return True
    return _key(_uncorrected(word), classes) in known


@derived
def expansions_of(segment: Segment) -> QueryCache[_Key, Expansion]:
    """Return the expansions that a segment remembers."""
    return QueryCache()


def _key(word: Word, classes: FieldClasses) -> _Key:
    return word, classes.key


def _up_to(index: TextIndex, expansion: Expansion, last: int) -> Expansion:
    """Return an expansion without its terms of kinds worse than `last`."""
    end = int(expansion.kinds.searchsorted(np.uint8(last), "right"))
    found = TermsByKind(expansion.terms[:end], expansion.kinds[:end], expansion.masks[:end])
    joined = expansion.joined if last >= MatchKind.PREFIX else None
    if joined is not None:
        joined = _up_to(index, joined, last)
    return _make_expansion(index, found, expansion.phrases, joined)


def _expand(segment: Segment, word: Word, classes: FieldClasses) -> Expansion:
    """Find the terms of a word by kind, best kind first; no term appears twice for one language."""
    index = text_index(segment)
    vocabulary = index.vocabulary
    exact = None if word.is_fragment else vocabulary.find(word.text)
    stems = {} if word.is_fragment else stem_forms(segment, word, classes)
    if exact is not None:
        stems.pop(exact, None)
    if not stems and not _has_others(word):
        return _of_exact_term(index, exact)
    synonyms = _alternatives(vocabulary, word.synonyms, stems, exact)
    spacings = _alternatives(vocabulary, word.spacings, stems, exact)
    for ordinal in synonyms:
        spacings.pop(ordinal, None)
    begun, others = _split_forms(vocabulary, word, stems)
    pieces = []
    if exact is not None:
        pieces.append(TermsByKind(np.array([exact], np.uint32), _EXACT_KINDS, _ALL_MASKS))
    for kind, masks in (
        (MatchKind.COMPLETION_STEM, begun),
        (MatchKind.STEM, others),
        (MatchKind.SYNONYM, synonyms),
        (MatchKind.SPACING, spacings),
    ):
        if masks:
            forms = sorted(masks)
            pieces.append(_piece(forms, kind, [masks[form] for form in forms]))
    better = stems | dict.fromkeys([*synonyms, *spacings], ALL_CLASSES)
    pieces.append(_expand_letters(segment, word, classes, exact, better))
    found = TermsByKind(*map(np.concatenate, zip(*pieces, strict=True)))
    alternatives = dict.fromkeys([*word.synonyms, *word.spacings])
    phrases = tuple([alternative for alternative in alternatives if len(alternative) > 1])
    joined = None
    if word.is_prefix:
        joined = _join_prefix(index, word, found, phrases)
    return _make_expansion(index, found, phrases, joined)


def _has_others(word: Word) -> bool:
    """Return whether terms may match a word that are neither it nor other forms of it."""
    return bool(word.is_prefix or word.typos or word.infix or word.synonyms or word.spacings)


def _of_exact_term(index: TextIndex, exact: int | None) -> Expansion:
    """Return the expansion of a word to itself, or to nothing: the common case."""
    if exact is None:
        return _NO_EXPANSION
    num_entries = int(index.lists.entry_counts[exact])
    only = OnlyTerm(exact, MatchKind.EXACT, ALL_CLASSES)
    terms = np.array([exact], np.uint32)
    return Expansion(terms, _EXACT_KINDS, _ALL_MASKS, (), num_entries, only, 0, None, {})


def _split_forms(
    vocabulary: Vocabulary, word: Word, forms: dict[int, int]
) -> tuple[dict[int, int], dict[int, int]]:
    """Return the forms that a word may still become (if it may be half typed), and the others."""
    if not word.is_prefix or not forms:
        return {}, forms
    first, last = vocabulary.prefix_range(word.text)
    begun = {form: mask for form, mask in forms.items() if first <= form < last}
    return begun, {form: mask for form, mask in forms.items() if form not in begun}


def _expand_letters(
    segment: Segment,
    word: Word,
    classes: FieldClasses,
    exact: int | None,
    better: dict[int, int],
) -> TermsByKind:
    """Find the terms that share letters with a word (prefix, typo, infix), best kind first.

    Args:
        segment: whose vocabulary.
        word: of the query.
        classes: of the fields, by the configuration.
        exact: the term that is the word, left out.
        better: by term that matches in a better kind, the mask of the field classes where it does.
    """
    vocabulary = text_index(segment).vocabulary
    terms, kinds = _similar(vocabulary, word)
    if word.is_completed:
        kinds[kinds == MatchKind.PREFIX] = MatchKind.COMPLETION
    if exact is not None:
        is_other = terms != exact
        terms, kinds = terms[is_other], kinds[is_other]
    masks = _typo_masks(vocabulary, word, classes, terms, kinds)
    _leave_out(better, terms, masks)
    if word.infix:
        similar = TermsByKind(terms, kinds, masks)
        terms, kinds, masks = _with_infixes(segment, word, classes, exact, better, similar)
    order = np.argsort(kinds, kind="stable")
    order = order[masks[order] != 0]
    return TermsByKind(terms[order], kinds[order], masks[order])


def _join_prefix(
    index: TextIndex, word: Word, found: TermsByKind, phrases: tuple[tuple[str, ...], ...]
) -> Expansion | None:
    """Replace the terms that a word is a prefix of with the prefix list of their range.

    Args:
        index: of the segment.
        word: that may be half typed.
        found: its terms, best kind first.
        phrases: its alternatives of several words.

    Returns:
        None if there is no such list: the terms are read one by one.
    """
    terms, kinds, masks = found
    start, end = kinds.searchsorted(_PREFIX_RUN).tolist()
    if end - start <= 1:
        return None
    prefix_list = index.prefix_lists.get(index.vocabulary.prefix_range(word.text))
    if prefix_list is None:
        return None
    joined = TermsByKind(
        np.concatenate((terms[:start], np.array([prefix_list], np.uint32), terms[end:])),
        np.delete(kinds, slice(start + 1, end)),
        np.concatenate((masks[:start], _ALL_MASKS, masks[end:])),
    )
    return _make_expansion(index, joined, phrases)


def _make_expansion(
    index: TextIndex,
    found: TermsByKind,
    phrases: tuple[tuple[str, ...], ...],
    joined: Expansion | None = None,
) -> Expansion:
    terms, kinds, masks = found
    only = None
    if len(terms) == 1 and not phrases:
        only = OnlyTerm(int(terms[0]), int(kinds[0]), int(masks[0]))
    num_entries = int(index.lists.entry_counts[terms].sum())
    worst = int(kinds[-1]) if len(kinds) else 0
    return Expansion(terms, kinds, masks, phrases, num_entries, only, worst, joined, {})


def _piece(terms: list[int], kind: MatchKind, masks: list[int]) -> TermsByKind:
    return TermsByKind(
        np.array(terms, np.uint32),
        np.full(len(terms), int(kind), np.uint8),
        np.array(masks, np.uint64),
    )


def _similar(vocabulary: Vocabulary, word: Word) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Return the terms that match as prefix or with typos, ascending, and their kinds."""
    if word.typos > 0:
        terms, distances = vocabulary.similar(word.text, word.typos, is_prefix=word.is_prefix)
        return terms, _KIND_OF_DISTANCE[distances]
    if word.is_prefix:
        first, last = vocabulary.prefix_range(word.text)
        return (
            np.arange(first, last, dtype=np.uint32),
            np.full(last - first, int(MatchKind.PREFIX), np.uint8),
        )
    return np.zeros(0, np.uint32), np.zeros(0, np.uint8)


def _leave_out(
    better: dict[int, int], terms: NDArray[np.uint32], masks: NDArray[np.uint64]
) -> None:
    """Take from the masks of terms, which ascend, where they match in a better kind.

    A form that counts in some fields only still counts as prefix or typo in the others.
    """
    if better and len(terms):
        forms = np.array(sorted(better), np.uint32)
        positions = np.searchsorted(terms, forms)
        for form, position in zip(forms.tolist(), positions.tolist(), strict=True):
            if position < len(terms) and terms[position] == form:
                masks[position] &= ~np.uint64(better[form])


def _with_infixes(
    segment: Segment,
    word: Word,
    classes: FieldClasses,
    exact: int | None,
    better: dict[int, int],
    similar: TermsByKind,
) -> TermsByKind:
    """Return prefixes and typos, and after these the terms that have the word inside.

    A term that is both a typo and one of these is the latter where that counts.
    """
    mask = np.uint64(ALL_CLASSES if word.infix == 2 else classes.mask_of_infixes())
    terms, kinds, masks = similar
    found = find_inside(segment, word.text)
    known = terms[kinds <= MatchKind.PREFIX]
    found = found[np.isin(found, known, assume_unique=True, invert=True)]
    if exact is not None:
        found = found[found != exact]
    if not mask or not len(found):
        return similar
    masks[np.isin(terms, found)] &= ~mask
    found_masks = np.full(len(found), mask, np.uint64)
    _leave_out(better, found, found_masks)
    return TermsByKind(
        np.concatenate((terms, found)),
        np.concatenate((kinds, np.full(len(found), MatchKind.INFIX, np.uint8))),
        np.concatenate((masks, found_masks)),
    )


def _with_spellings(index: TextIndex, plain: Expansion, word: Word) -> Expansion:
    """Return an expansion with the terms of the spellings, after that of the folded word."""
    found = [index.vocabulary.find(term) for term, _ in word.spellings]
    spelt = sorted([term for term in found if term is not None])
    if not spelt:
        return plain
    terms, kinds, masks = _piece(spelt, MatchKind.SPELLING, [ALL_CLASSES] * len(spelt))

    def inserted(into: Expansion, joined: Expansion | None) -> Expansion:
        at = int(into.kinds.searchsorted(np.uint8(MatchKind.SPELLING)))
        found = TermsByKind(
            np.concatenate((into.terms[:at], terms, into.terms[at:])),
            np.concatenate((into.kinds[:at], kinds, into.kinds[at:])),
            np.concatenate((into.masks[:at], masks, into.masks[at:])),
        )
        return _make_expansion(index, found, into.phrases, joined)

    return inserted(plain, None if plain.joined is None else inserted(plain.joined, None))


def _with_unlikely_last(index: TextIndex, plain: Expansion, word: Word) -> Expansion:
    """Return an expansion in which the words one edit away that are no corrections are TYPO_2."""
    if word.correction_kind != MatchKind.TYPO_1:
        return plain
    likely = [index.vocabulary.find(correction) for correction in word.corrections]
    is_unlikely = plain.kinds == MatchKind.TYPO_1
    is_unlikely &= ~np.isin(plain.terms, [term for term in likely if term is not None])
    if not is_unlikely.any():
        return plain
    kinds = plain.kinds.copy()
    kinds[is_unlikely] = MatchKind.TYPO_2
    order = np.lexsort((plain.terms, kinds))
    found = TermsByKind(plain.terms[order], kinds[order], plain.masks[order])
    return _make_expansion(index, found, plain.phrases)


def _with_forms(segment: Segment, plain: Expansion, word: Word, classes: FieldClasses) -> Expansion:
    """Return an expansion with the other forms of the word's corrections.

    A form counts in fields of its language that allow as many typos as the correction has. If it
    also matches by a better kind, the better kind counts.
    """
    index = text_index(segment)
    kind = word.correction_kind + 1
    fields = _fields_of_corrections(word, classes)
    forms: dict[int, int] = {}
    for correction in word.corrections[:CORRECTED_FORMS_MAX]:
        meant = Word(correction)
        for term, mask in stem_forms(segment, meant, classes).items():
            forms[term] = forms.get(term, 0) | mask & fields
    start = int(plain.kinds.searchsorted(np.uint8(kind)))
    better = zip(plain.terms[:start].tolist(), plain.masks[:start].tolist(), strict=True)
    for term, mask in better:
        if term in forms:
            forms[term] &= ALL_CLASSES ^ mask
    forms = {term: forms[term] for term in sorted(forms) if forms[term]}
    if not forms:
        return plain
    worse = plain.masks[start:].copy()
    for position in np.flatnonzero(np.isin(plain.terms[start:], list(forms))).tolist():
        worse[position] &= np.uint64(ALL_CLASSES ^ forms[int(plain.terms[start + position])])
    is_left = worse != 0
    terms, kinds, masks = _piece(list(forms), MatchKind(kind), list(forms.values()))
    found = TermsByKind(
        np.concatenate((plain.terms[:start], terms, plain.terms[start:][is_left])),
        np.concatenate((plain.kinds[:start], kinds, plain.kinds[start:][is_left])),
        np.concatenate((plain.masks[:start], masks, worse[is_left])),
    )
    return _make_expansion(index, found, plain.phrases)


def _fields_of_corrections(word: Word, classes: FieldClasses) -> int:
    """Return the mask of the fields that allow the typos of a word's corrections."""
    if not word.typos_by_group:
        return ALL_CLASSES
    fields = 0
    for group, typos in enumerate(word.typos_by_group):
        if typos >= word.correction_typos:
            fields |= classes.mask_of_typos(group)
    return fields


def _typo_masks(
    vocabulary: Vocabulary,
    word: Word,
    classes: FieldClasses,
    similar: NDArray[np.uint32],
    kinds: NDArray[np.uint8],
) -> NDArray[np.uint64]:
    """Return, by prefix or typo of a word, the fields in which it counts."""
    masks = np.full(len(similar), ALL_CLASSES, np.uint64)
    if not word.typos_by_group:
        return masks
    is_typo = kinds > MatchKind.PREFIX
    within: dict[int, NDArray[np.bool_]] = {word.typos: np.ones(len(similar), np.bool_)}
    for group, typos in enumerate(word.typos_by_group):
        if typos not in within:
            near, _ = _similar(vocabulary, structs.replace(word, typos=typos))
            within[typos] = np.isin(similar, near)
        masks[is_typo & ~within[typos]] &= ~np.uint64(classes.mask_of_typos(group))
    somewhere = np.uint64(sum(set(classes.masks.values())))
    masks[masks & somewhere == 0] = 0
    return masks


def _alternatives(
    vocabulary: Vocabulary,
    alternatives: tuple[tuple[str, ...], ...],
    stems: dict[int, int],
    exact: int | None,
) -> dict[int, int]:
    """Return the one-word alternatives, with masks of the fields where they have no better kind."""
    masks: dict[int, int] = {}
    for alternative in alternatives:
        if len(alternative) == 1:
            ordinal = vocabulary.find(alternative[0])
            if ordinal is not None and ordinal != exact:
                mask = ALL_CLASSES & ~stems.get(ordinal, 0)
                if mask:
                    masks[ordinal] = mask
    return masks


def count_by_kind(expansion: Expansion, doc_freqs: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the sum of the terms' document frequencies by `MatchKind`.

    COMPLETION_STEM is counted with STEM: together they are the other forms of the word.
    """
    counts = np.zeros(NUM_MATCH_KINDS, np.int64)
    np.add.at(counts, expansion.kinds, doc_freqs)
    counts[MatchKind.STEM] += counts[MatchKind.COMPLETION_STEM]
    counts[MatchKind.COMPLETION_STEM] = 0
    return counts
