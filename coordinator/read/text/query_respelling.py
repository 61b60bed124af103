"""Another spelling of a query's words that some item has, or many times more items.

    the godfathr (0 items have godfathr)       ──▶  the godfather       a word is nowhere
    lasr printer (2 items; laser printer 311)  ──▶  laser printer       another has many times more
    oddysey (0 items)                          ──▶  odyssey             or is two edits away, if
                                                                        none is nearer
    pyton3 (0 items)                           ──▶  python3             digits stay as they are
    se7en (0 items)                            ──▶  seven               but for one inside a word,
    dostojewski (0 items)                      ──▶  dostoyevsky         and names are written in the
                                                                        way of another language, if
                                                                        nothing else is near

Candidates come from the index, counted among the items that pass the filters and have the other
words, so a key's filter hides words here, too. The likeliest of the nearest ones is proposed
(`noisy_channel`).

Cost: two round trips, and a scan of the vocabulary for each word that is corrected; up to three
more for one that nothing is near.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from common.analysis.analyzer import Token
from common.analysis.typo_budget import typo_budget
from coordinator.read.text.completions_and_near_spellings import (
    NearTerm,
    NearTerms,
    Scope,
    first_request,
)
from coordinator.read.text.noisy_channel import (
    ANY_LETTER,
    likelihood,
    transliterations,
    with_any_letter,
)

MANY_TIMES: Final = 10
"""Another spelling of an indexed word is proposed if it has this many times more hits."""
WORDS_MAX: Final = 8
"""Longer queries are not corrected."""
CANDIDATES: Final = 8
LENGTHS: Final = (4, 9)
"""Letters from which on a word may be one edit off, and two: a letter less than in searches, since
nothing is changed unasked."""
FAR_LENGTHS: Final = (4, 7)
"""The same if no word is that near: oddysey is two edits from odyssey. Of six letters, two edits
would leave too little."""


class Respelling(NamedTuple):
    """Another spelling of a query's words."""

    words: list[str]
    num_hits_min: int
    """Worth proposing if a search for it has this many hits."""


class Spelling:
    """Corrects words.

    Args:
        near: finds the words of an index.
    """

    def __init__(self, near: NearTerms) -> None:
        self._near = near

    async def corrected(
        self,
        scope: Scope,
        words: Sequence[str],
        *,
        is_last_open: bool,
        stop_words: frozenset[str],
        num_hits: int | None,
    ) -> Respelling | None:
        """Return the words in another spelling; None if there is nothing to propose.

        Args:
            scope: the items that count.
            words: of the query, folded.
            is_last_open: whether the last word may be half typed.
            stop_words: items need not have these.
            num_hits: of the query as it is; None: correct only words that are in no item.
        """
        if not 0 < len(words) <= WORDS_MAX:
            return None
        counts = await self._near.count(scope, [(word,) for word in words])
        if is_last_open and not counts[-1]:
            request = first_request(scope, words[-1], 1, is_prefix=True)
            begun = await self._near.find(scope, request, 1)
            if begun.terms:
                return await self._completed(scope, words, counts, stop_words)
        return await self._respelt(scope, words, counts, is_last_open, stop_words, num_hits)

    async def _completed(
        self, scope: Scope, words: Sequence[str], counts: list[int], stop_words: frozenset[str]
    ) -> Respelling | None:
        """Correct the words before one that is half typed, if any of them is in no item."""
        before = await self._respelt(scope, words[:-1], counts[:-1], False, stop_words, None)
        return None if before is None else Respelling([*before.words, words[-1]], 1)

    async def _respelt(
        self,
        scope: Scope,
        words: Sequence[str],
        counts: Sequence[int],
        is_last_open: bool,
        stop_words: frozenset[str],
        num_hits: int | None,
    ) -> Respelling | None:
        """Correct the words that are in no item; if each is in some, the one that gains most hits.

        The latter only with `num_hits`.
        """
        spelt = list(words)
        unknown = [i for i, count in enumerate(counts) if not count]
        known = [i for i, count in enumerate(counts) if count and words[i] not in stop_words]
        if unknown:
            for i in unknown:
                others = [spelt[other] for other in known]
                is_open = is_last_open and i + 1 == len(words)
                found = await self._candidates(scope, words[i], others, is_prefix=is_open)
                if not found:
                    found = await self._far_candidates(scope, words[i], others, is_prefix=is_open)
                if not found:
                    return None
                spelt[i] = found[0].text
                known.append(i)
            return Respelling(spelt, 1)
        if num_hits is None:
            return None
        num_hits_min = max(MANY_TIMES * num_hits, 1)
        best, place = num_hits_min, -1
        for i in known:
            others = [spelt[other] for other in known if other != i]
            for term in await self._candidates(scope, words[i], others):
                if term.distance and term.count >= best + (place >= 0):
                    best, place, chosen = term.count, i, term.text
        if place < 0:
            return None
        spelt[place] = chosen
        return Respelling(spelt, num_hits_min)

    async def _candidates(
        self, scope: Scope, word: str, others: Sequence[str], *, is_prefix: bool = False
    ) -> list[NearTerm]:
        """Return near words in the items that have the other words, too; the likeliest first."""
        letters, digits = _split_before_digits(word)
        is_open = is_prefix and not digits
        found = await self._near_letters(scope, letters, others, is_prefix=is_open)
        found = found[:CANDIDATES]
        return await self._with_digits(scope, found, digits, others) if digits else found

    async def _near_letters(
        self,
        scope: Scope,
        letters: str,
        others: Sequence[str],
        *,
        is_prefix: bool = False,
        lengths: tuple[int, int] = LENGTHS,
    ) -> list[NearTerm]:
        """Return words near one without digits."""
        typos = typo_budget(letters, lengths)
        if not typos:
            return []
        request = first_request(
            scope, letters, CANDIDATES, words=others, typos=typos, is_prefix=is_prefix
        )
        found = (await self._near.find(scope, request, CANDIDATES)).terms

        def order(term: NearTerm) -> tuple[int, int, str]:
            likely = likelihood(letters, term.text, term.count, is_prefix=is_prefix)
            return term.distance, -likely, term.text

        return sorted(found, key=order)

    async def _far_candidates(
        self, scope: Scope, word: str, others: Sequence[str], *, is_prefix: bool
    ) -> list[NearTerm]:
        """Return words that a word may be meant to be which is near no word of the index."""
        pattern = with_any_letter(word)
        if pattern is not None:
            found = await self._near_letters(scope, pattern, others, is_prefix=is_prefix)
            return [term for term in found if _has_pattern(term.text, pattern, is_prefix=is_prefix)]
        if not typo_budget(word, LENGTHS):
            return []
        for written in transliterations(word):
            found = await self._near_letters(scope, written, others, is_prefix=is_prefix)
            if found:
                return found
        if typo_budget(word, FAR_LENGTHS) == typo_budget(word, LENGTHS):
            return []
        return await self._near_letters(scope, word, others, lengths=FAR_LENGTHS)

    async def _with_digits(
        self, scope: Scope, terms: Sequence[NearTerm], digits: str, others: Sequence[str]
    ) -> list[NearTerm]:
        """Return the words of the index that are near words and these digits, the nearest first."""
        joined = [(term.text + digits, term.distance) for term in terms if term.distance]
        counts = await self._near.count(scope, [(text,) for text, _ in joined], words=others)
        found = [
            NearTerm(text, count, distance)
            for (text, distance), count in zip(joined, counts, strict=True)
            if count
        ]
        return sorted(found, key=lambda term: (term.distance, -term.count))


def _split_before_digits(word: str) -> tuple[str, str]:
    """Return the letters that a word begins with, and the rest, in which nothing is corrected."""
    end = next((i for i, character in enumerate(word) if character.isdigit()), len(word))
    return word[:end], word[end:]


def _has_pattern(word: str, pattern: str, *, is_prefix: bool) -> bool:
    """Return whether a word, or its beginning, is a pattern with one `ANY_LETTER`."""
    before, after = pattern.split(ANY_LETTER)
    rest = word[len(before) + 1 :]
    is_rest = rest.startswith(after) if is_prefix else rest == after
    return word.startswith(before) and is_rest


def respelt(text: str, tokens: Sequence[Token], words: Sequence[str]) -> str:
    """Return a text with its words replaced; those cut from one run overlap."""
    parts = []
    at = 0
    for token, word in zip(tokens, words, strict=True):
        parts.append(text[at : token.start])
        written = text[token.start : token.end] if word == token.text else word
        parts.append(written[max(0, at - token.start) :])
        at = token.end
    return "".join(parts) + text[at:]
