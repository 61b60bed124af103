"""Corrections: what a word that is nowhere in the index may be a misspelling of (pure).

    tolkin     tolkien 12 items    one edit away                likely
               talkin   1          one edit away, but rare      unlikely if no other word but
                                                                function words is typed
               talking  8          only its beginning is near   unlikely

Of these, a word that a likely slip leads to (`noisy_channel`) counts as if it were more frequent.
All near words match. Unlikely ones rank like words two edits away, so a stray talkin does not hide
the Tolkien that was meant. Beside other words, these tell what is meant: `scilence of the lambs` is
not about science, which many more films are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from common.query_syntax_tree import MatchKind, Word
from common.term_weights import CORRECTIONS_KNOWN_MAX
from coordinator.read.text.noisy_channel import likelihood
from coordinator.read.text.prefix_edit_distance import edit_distances

RARER: Final = 10
"""A near word is unlikely if another one is in more than this many times as many items."""
_EDITS: Final = {MatchKind.TYPO_1: 1, MatchKind.TYPO_2: 2}


class Corrections(NamedTuple):
    """The near words of a mistyped word, at the least distance that is in the index.

    Attributes:
        kind: how they match: TYPO_1 or TYPO_2.
        likely: the words that may be meant, likeliest first, with the documents of each.
        num_unlikely: documents of each of the others, added up.
    """

    kind: MatchKind
    likely: dict[str, int]
    num_unlikely: int

    def if_alone(self, word: str) -> Corrections:
        """Return the corrections of a word that is all of a query: rare words are unlikely."""
        likelihoods = {term: likelihood(word, term, freq) for term, freq in self.likely.items()}
        most = max(likelihoods.values())
        kept = {term: self.likely[term] for term, one in likelihoods.items() if one * RARER >= most}
        num_rare = sum(self.likely.values()) - sum(kept.values())
        return Corrections(self.kind, kept, self.num_unlikely + num_rare)


def choose_corrections(
    word: Word, doc_freqs: Sequence[int], near: Mapping[tuple[int, str], int]
) -> Corrections | None:
    """Return the corrections of a word that is nowhere in the index.

    Args:
        word: of a query.
        doc_freqs: live documents by `MatchKind`, of all shards.
        near: documents by kind (TYPO_1, TYPO_2) and term, of all shards.

    Returns:
        None if a document has the word in a better way, or no word is near, or too many are.
    """
    if any(doc_freqs[: MatchKind.TYPO_1]):
        return None
    kind = MatchKind.TYPO_1 if doc_freqs[MatchKind.TYPO_1] else MatchKind.TYPO_2
    known = {term: freq for (of, term), freq in near.items() if of == kind and freq > 0}
    if not 0 < len(known) <= CORRECTIONS_KNOWN_MAX:
        return None
    near_whole = [term for term in known if _is_near_whole(word, term, _EDITS[kind])]
    terms = sorted(
        near_whole or known, key=lambda term: (-likelihood(word.text, term, known[term]), term)
    )
    likely = {term: known[term] for term in terms}
    return Corrections(kind, likely, sum(known.values()) - sum(likely.values()))


def _is_near_whole(word: Word, term: str, edits: int) -> bool:
    """Return whether all of a near word is near, not just its beginning."""
    return not word.is_prefix or edit_distances(word.text, term, edits)[0] <= edits
