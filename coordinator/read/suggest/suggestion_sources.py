"""What may be suggested, by source, and the best of each source in turn (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

from msgspec import Struct, structs

from coordinator.read.suggest.folded_words_cache import FoldedWordsCache
from coordinator.read.suggest.suggestion_results import UNCOUNTED, Suggestion


class SuggestionSources(Struct, frozen=True):
    """What may be suggested, by source, the best first."""

    searches: list[Suggestion]
    texts: list[Suggestion]
    values: list[Suggestion]
    words: list[Suggestion]

    def having_items(self, counts: Mapping[str, int]) -> SuggestionSources:
        """Leave out what is known to have no items."""
        return SuggestionSources(
            *[
                [one for one in source if one.count != UNCOUNTED or counts.get(one.text) != 0]
                for source in structs.astuple(self)
            ]
        )

    def in_turn(
        self, size: int, words: dict[str, tuple[str, ...]], folded: FoldedWordsCache
    ) -> tuple[list[Suggestion], int]:
        """Return the best of each source in turn, each text once.

        And how many of each source were considered.

        Args:
            size: how many suggestions, at most.
            words: of texts; those of the listed ones are added.
            folded: has the words of texts.
        """
        listed: dict[tuple[str, ...], Suggestion] = {}
        num_rows = 0
        for num_rows, row in enumerate(zip_longest(*structs.astuple(self)), 1):
            for one in row:
                if one is None:
                    continue
                if one.text not in words:
                    words[one.text] = folded.words(one.text)
                listed.setdefault(words[one.text] or (one.text,), one)
                if len(listed) == size:
                    return list(listed.values()), num_rows
        return list(listed.values()), num_rows
