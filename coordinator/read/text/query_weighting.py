"""Scores a query: gives its words weights, from statistics over all live documents.

    words of a query ─▶ known for this horizon?  yes ─▶ weights (common.term_weights)
                                │ no                        ▲ what is unknown: assumed absent, and
                                │                           │ counted by the search itself
                                ├─▶ other spacings, the text as a whole field
                                └─▶ words: one `statistics` call to every shard, responses added up

The statistics are those of `text_statistics_cache`, summed over all shards.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from common.process.cooperative_scheduler import LoopScheduler
from common.protocol.messages import (
    FieldWeight,
    ScoredClause,
    StatisticsResponse,
    TextQuery,
)
from common.query_syntax_tree import NUM_MATCH_KINDS, MatchKind, Word
from common.term_weights import (
    COMPLETIONS_MAX,
    WHOLE_FIELDS_MAX,
    clause_weights,
    is_completed,
    is_fragment,
    stem_factor,
    weigh_fields,
)
from coordinator.catalog.catalog import Index
from coordinator.cluster.searched_state import SearchedState
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.text.query_parser import ParsedQuery, Spellings, words_of
from coordinator.read.text.text_statistics_cache import (
    FIELD_CHOICES_REMEMBERED_MAX,
    Assumption,
    ScoredQuery,
    Statistics,
    StatisticsCache,
)
from coordinator.read.text.word_spacings import Spacing, cut_in_two, is_worthwhile

QUERY_FAST_CHARS: Final = 256
"""Parsing a longer text and computing its weights takes more than half a millisecond."""

_NO_CUTS: Final[dict[int, int]] = {}
_NO_FREQS: Final = (0,) * NUM_MATCH_KINDS

HOPELESS: Final = TextQuery((), 1, False, (), (), 0.0, 0.0, 0.0)
"""One clause must match, but there are no clauses: no document matches."""


UNRESTRICTED: Final = ScoredQuery(None, [])


def is_long_text(text: str) -> bool:
    """Return whether parsing and weights of a query take long enough to need several steps."""
    return len(text) > QUERY_FAST_CHARS


async def score_query(
    state: SearchedState,
    parse: Callable[[], Generator[None, None, ParsedQuery]],
    parameters: SearchParameters,
    cache: StatisticsCache,
    scheduler: LoopScheduler,
) -> ScoredQuery:
    """Parse a query and compute the weights of its clauses; the cache keeps the result, if it can.

    Blank text and bare punctuation restrict nothing. Where scores are not needed, no shard is asked
    for the frequencies of words.

    Args:
        state: the state to search.
        parse: begins to parse the text (`parse_query`).
        parameters: of the search.
        cache: of the index.
        scheduler: lets long texts yield the event loop.
    """
    index, horizon = state.index, state.horizon
    is_long = is_long_text(parameters.query)
    parsed = await scheduler.run(index.number, parse(), is_long=is_long)
    if parsed.is_blank:
        return UNRESTRICTED
    statistics = cache.at(horizon)
    missing = statistics.missing(parsed)
    is_guess = missing is not None and not parameters.allows_partial and cache.may_assume(missing)
    if missing is not None and not (parameters.needs_scores or missing.needs_fields):
        weighing = _weigh(index, parsed, parameters, _assuming(statistics, missing.words))
        scored = await scheduler.run(index.number, weighing, is_long=is_long)
        scored.has_made_up_weights = True
        return scored
    if missing is not None and not is_guess:
        statistics = await cache.completed(
            index, parsed, statistics, missing, state.deadline, is_partial=parameters.allows_partial
        )
    weighing = _weigh(index, parsed, parameters, statistics)
    scored = await scheduler.run(index.number, weighing, is_long=is_long)
    if missing is not None and is_guess:
        scored.assumption = Assumption(
            parsed, statistics, missing, cache.request(index, missing, statistics)
        )
    else:
        cache.remember_query(parameters.query_key, statistics, scored)
    return scored


async def score_again(
    index: Index,
    parameters: SearchParameters,
    cache: StatisticsCache,
    scored: ScoredQuery,
    parts: Sequence[StatisticsResponse],
    scheduler: LoopScheduler,
) -> ScoredQuery:
    """Recompute weights that rested on an assumption, now that the shards have counted.

    Where they found nothing, the assumption was right and the query is as it was.

    Args:
        index: that is searched.
        parameters: of the search.
        cache: of the index.
        scored: the query on its assumption.
        parts: the shards' counts.
        scheduler: lets long texts yield the event loop.
    """
    assumption = scored.assumption
    assert assumption is not None, "only a guess is weighed again"
    statistics = assumption.statistics
    cache.add_up(statistics, assumption.keys, parts)
    if not any(part.has_any for part in parts):
        scored.assumption = None
        cache.remember_query(parameters.query_key, statistics, scored)
        return scored
    weighing = _weigh(index, assumption.parsed, parameters, statistics)
    is_long = is_long_text(parameters.query)
    scored = await scheduler.run(index.number, weighing, is_long=is_long)
    cache.remember_query(parameters.query_key, statistics, scored)
    return scored


def _weigh(
    index: Index, parsed: ParsedQuery, parameters: SearchParameters, statistics: Statistics
) -> Generator[None, None, ScoredQuery]:
    """Compute the weights of a query's clauses; yield after some ten microseconds each.

    A word that occurs nowhere in the index, not even as a prefix or with a typo, is ignored as long
    as another clause is left, unless it is quoted. If none is left, nothing matches.
    """
    # Words that the statistics lack are assumed to be nowhere.
    doc_freqs = statistics.doc_freqs
    clauses: list[ScoredClause] = []
    ignored = []
    spacings = yield from _worthwhile_spacings(parsed, statistics)
    spellings = dict(parsed.spellings)
    of_stems = stem_factor(parsed.num_words)
    for clause, count in zip(parsed.clauses, parsed.multiplicities, strict=True):
        yield
        if isinstance(clause, Word):
            known = spellings.get(clause.text, ())
            clause, freqs = _with_alternatives(
                clause, statistics, spacings, is_alone=parsed.is_one_word
            )
            if known:
                clause, freqs = _with_spellings(clause, freqs, known, statistics)
            elif parsed.fragment and clause.is_prefix and clause.text == parsed.fragment[1]:
                num_together = statistics.spacing_freqs.get(parsed.fragment, 0)
                clause, freqs = _as_fragment(clause, freqs, num_together)
            if not any(freqs) and clause.text not in parsed.quoted:
                ignored.append(clause.text)
                continue
            found = [freqs]
        else:
            found = [doc_freqs[word] for word in words_of((clause,))]
        weights = tuple([_weights(freqs, statistics.num_docs, of_stems, count) for freqs in found])
        clauses.append(ScoredClause(clause, weights))
    if parsed.clauses and not clauses:
        return ScoredQuery(HOPELESS, ignored, parsed.num_words_cut, parsed.dropped_words)
    configuration = index.configuration
    has_bonus = 0 < statistics.whole_freqs.get(parsed.whole, 0) <= WHOLE_FIELDS_MAX
    query = TextQuery(
        clauses=tuple(clauses),
        required=parsed.num_required(len(clauses)),
        is_leading=parsed.match == "last",
        excluded=parsed.excluded,
        fields=_field_weights(parameters, statistics),
        k1=configuration.k1,
        b=configuration.b,
        proximity=configuration.proximity,
        whole=parsed.whole if has_bonus else (),
    )
    return ScoredQuery(query, ignored, parsed.num_words_cut, parsed.dropped_words)


def _with_alternatives(
    word: Word,
    statistics: Statistics,
    spacings: Mapping[str, Mapping[tuple[str, ...], int]],
    *,
    is_alone: bool,
) -> tuple[Word, tuple[int, ...]]:
    """Return a word with its spacings, completions and corrections, and its documents by kind."""
    freqs = statistics.doc_freqs[word]
    corrections = statistics.corrections.get(word)
    own = spacings.get(word.text)
    if own is not None:
        word = msgspec.structs.replace(word, spacings=tuple(own))
        freqs = _replaced(freqs, MatchKind.SPACING, sum(own.values()))
    if is_completed(word.text, freqs):
        word = msgspec.structs.replace(word, is_completed=True)
        freqs = _replaced(freqs, MatchKind.COMPLETION, freqs[MatchKind.PREFIX])
        freqs = _replaced(freqs, MatchKind.PREFIX, 0)
    if word.typos == 1 and freqs[MatchKind.EXACT]:
        # A word of the index: with another first letter it is another word.
        freqs = _replaced(freqs, MatchKind.TYPO_2, 0)
    if corrections is not None and own is None:
        kind, likely, num_unlikely = corrections.if_alone(word.text) if is_alone else corrections
        word = msgspec.structs.replace(word, corrections=tuple(likely), correction_kind=int(kind))
        if kind == MatchKind.TYPO_1:
            freqs = _replaced(freqs, kind, freqs[kind] - num_unlikely)
            num_further = freqs[MatchKind.TYPO_2] + num_unlikely
            freqs = _replaced(freqs, MatchKind.TYPO_2, num_further)
        # Their other forms have not been counted; their weights do not depend on it.
        freqs = _replaced(freqs, MatchKind(kind + 1), freqs[kind])
    return word, freqs


def _as_fragment(
    word: Word, freqs: tuple[int, ...], num_together: int
) -> tuple[Word, tuple[int, ...]]:
    """Return the last word as a mere beginning of others, if it is one."""
    if word.synonyms or not is_fragment(word.text, freqs, num_together):
        return word, freqs
    num_docs = freqs[MatchKind.EXACT] + freqs[MatchKind.PREFIX]
    freqs = _replaced(_replaced(freqs, MatchKind.EXACT, 0), MatchKind.STEM, 0)
    return (
        msgspec.structs.replace(word, is_fragment=True),
        _replaced(freqs, MatchKind.PREFIX, num_docs),
    )


def _with_spellings(
    word: Word, freqs: tuple[int, ...], spellings: Spellings, statistics: Statistics
) -> tuple[Word, tuple[int, ...]]:
    """Return a word with its spellings, if some but not all of its documents have one."""
    known = statistics.spacing_freqs
    spelt = sum([known.get((term,), 0) for term, _ in spellings])
    if not 0 < spelt < freqs[MatchKind.EXACT]:
        return word, freqs
    word = msgspec.structs.replace(word, spellings=spellings)
    return word, _replaced(freqs, MatchKind.SPELLING, spelt)


def _assuming(statistics: Statistics, words: Iterable[Word]) -> Statistics:
    """Return statistics in which some words, without typos, occur in every way they can match.

    What a word begins is too frequent to rank near the word: then its posting list may be stored.
    """
    assumed = {}
    for word in words:
        freqs = _replaced(_NO_FREQS, MatchKind.EXACT, 1)
        if word.is_prefix:
            freqs = _replaced(freqs, MatchKind.PREFIX, COMPLETIONS_MAX + 1)
        if word.infix:
            freqs = _replaced(freqs, MatchKind.INFIX, 1)
        assumed[word] = freqs
    return replace(statistics, doc_freqs={**statistics.doc_freqs, **assumed})


def _replaced(freqs: tuple[int, ...], kind: MatchKind, freq: int) -> tuple[int, ...]:
    return (*freqs[:kind], freq, *freqs[kind + 1 :])


def _weights(
    freqs: tuple[int, ...], num_docs: int, of_stems: float, count: int
) -> tuple[float, ...]:
    """Return the weights of a word that was typed this many times."""
    weights = clause_weights(freqs, num_docs, of_stems)
    return weights if count == 1 else tuple([count * weight for weight in weights])


def _worthwhile_spacings(
    parsed: ParsedQuery, statistics: Statistics
) -> Generator[None, None, dict[str, dict[tuple[str, ...], int]]]:
    """Return, by word, the spacings that it gets, each with its document frequency."""
    found: list[tuple[Spacing, int]] = []
    for word in parsed.cuttable:
        for cut, freq in statistics.cut_freqs.get(word, _NO_CUTS).items():
            in_two = cut_in_two(word, cut)
            if in_two is not None:
                found.append((in_two, freq))
    for spacing in parsed.spacings:
        yield
        freq = statistics.spacing_freqs.get(spacing.words, 0)
        if freq:
            found.append((spacing, freq))
    if not found:
        return {}
    typed_freqs = {
        clause.text: statistics.doc_freqs[clause][MatchKind.EXACT]
        for clause in parsed.clauses
        if isinstance(clause, Word)
    }
    chosen: dict[str, dict[tuple[str, ...], int]] = {}
    for spacing, freq in found:
        yield
        # A piece of a synonym without spaces is not a separate clause, and has no number.
        own = [typed_freqs[word] for word in spacing.typed if word in typed_freqs]
        if len(own) == len(spacing.typed) and is_worthwhile(spacing, freq, own):
            for word in spacing.typed:
                chosen.setdefault(word, {})[spacing.words] = freq
    return chosen


def _field_weights(parameters: SearchParameters, statistics: Statistics) -> tuple[FieldWeight, ...]:
    """Return the fields that the query searches: those requested, else all that have words.

    A field covers its subfields: `author` covers `author.name`.
    """
    named = parameters.search_fields
    known = statistics.field_weights.get(named)
    if known is not None:
        return known
    weights: dict[str, float] = {}
    if named is None:
        weights = dict.fromkeys(statistics.fields, 1.0)
    else:
        for one in named:
            for path in one.covered(statistics.fields):
                weights.setdefault(path, one.weight)
    weighed = weigh_fields(statistics.fields, weights, statistics.num_docs)
    result = tuple(
        FieldWeight(path, one.weight, one.average_length) for path, one in sorted(weighed.items())
    )
    if len(statistics.field_weights) < FIELD_CHOICES_REMEMBERED_MAX:
        statistics.field_weights[named] = result
    return result
