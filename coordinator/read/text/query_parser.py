"""Query text → clauses (pure): parsed once, in the coordinator, so every shard gets the same nodes.

    the "green mile"  -horror  tom han       (as typed; every text is a valid query)
    ───────┬───────  ───┬───   ────┬───
           │            │          └ words; the last one may be incomplete
           │            └ exclusion: -word or -"…"
           └ phrase: adjacent words, in order, in one text

    clauses    Word(the) Phrase(green mile) Word(tom) Word(han, is_prefix)
    excluded   Word(horror)

`query_pieces` splits the text; `query_dictionary` has the stop words and synonyms of the index.
Rules that the picture does not show:

- An unclosed quote is a phrase up to the end of the text; its last word may be incomplete.
- Stop words are dropped as long as another word remains.
- A run of a script without spaces is split into bigrams. Where all words must match, they form a
  phrase, so a run finds its substrings; otherwise each bigram is a word of its own. A single
  character is the first half of bigrams, quoted and excluded ones, too.
- A word that has synonyms becomes one clause: itself or any alternative. So does each word of a
  sequence that has some: (new or nyc) and (york or nyc) is (new and york) or nyc. Stop words of
  such a sequence need not be typed.
- Unquoted words may also be written together or apart (`word_spacings`), or in another notation
  (`notations`), unless no typos are allowed.
- A repeated clause counts once, with its weight multiplied.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, TypeAlias

from msgspec import Struct

from common.analysis.analyzer import Analyzer, Token, is_lone_character, is_run
from common.analysis.field_classes import TypoLengths
from common.analysis.typo_budget import TYPO_LENGTHS_DEFAULT, typo_budget
from common.process.cooperative_scheduler import run_to_completion
from common.query_syntax_tree import Clause, Phrase, Word
from common.search_option_parsers import PrefixMode, TypoMode
from coordinator.read.text.numerals_and_abbreviations import notations_of
from coordinator.read.text.query_dictionary import QueryDictionary
from coordinator.read.text.query_pieces import Piece, Words, split_query
from coordinator.read.text.word_spacings import Spacing, TypedWord, is_cuttable, spacings_of

Spellings: TypeAlias = tuple[tuple[str, str], ...]
"""As `Word.spellings`: terms, each with the word as typed."""

INFIX_LETTERS_MIN: Final = 3
"""Fewer letters are inside too many words."""
WHOLE_WORDS_MAX: Final = 8
"""Longer queries are not names."""


class QueryOptions(Struct, frozen=True):
    """How words are matched: as the request says, else as the index is configured."""

    match: str = "all"
    prefix: PrefixMode = "last"
    typo: TypoMode = "auto"
    typo_lengths: tuple[int, int] = TYPO_LENGTHS_DEFAULT
    """Lengths (in letters) from which a word may be one edit off, and two."""
    infix: int = 0
    """Where words of three letters or more are found inside others: `Word.infix`."""
    drops_function_words: bool = False
    """Whether function words of the languages are dropped like stop words."""


class ParsedQuery(Struct, frozen=True):
    """Clauses that a document's texts must, may and must not match."""

    clauses: tuple[Clause, ...]
    multiplicities: tuple[int, ...]
    """How often each clause was typed."""
    excluded: tuple[Clause, ...]
    match: str
    num_words: int
    """Words that were typed, without those cut: quoted and dropped ones too, no excluded ones."""
    num_words_cut: int = 0
    """Words dropped from the end of the query because it has too many."""
    dropped_words: Words = ()
    """Function words dropped because the options say so."""
    spacings: tuple[Spacing, ...] = ()
    """Other spacings and notations of the words, whether in the index or not, except splits in two.
    """
    cuttable: Words = ()
    """Words that may be written as two."""
    spellings: tuple[tuple[str, Spellings], ...] = ()
    """Words that were typed with accents, and never without."""
    fragment: Words = ()
    """The last two words, if no space separates them and the last may be incomplete."""
    whole: Words = ()
    """All words in order, if there is nothing else in the query and a field may consist of them."""
    quoted: frozenset[str] = frozenset()
    """Words that are quoted alone: as binding as phrases, even if no item has them."""
    is_one_word: bool = False
    """Whether the query has one word besides function words, so that none tells what is meant."""

    @property
    def is_blank(self) -> bool:
        """Whether the text restricts nothing."""
        return not self.clauses and not self.excluded

    def num_required(self, num_known: int) -> int:
        """Return how many of `num_known` clauses must match."""
        if self.match == "all":
            return num_known
        if self.match.endswith("%"):
            return min(num_known, max(1, num_known * int(self.match[:-1]) // 100))
        return min(1, num_known)


NO_QUERY: Final = ParsedQuery((), (), (), "all", 0)


def _typos(
    word: str, options: QueryOptions, groups_of_fields: tuple[TypoLengths, ...]
) -> tuple[int, tuple[int, ...]]:
    """Return how many edits a word may be off, and by group of fields where these differ."""
    groups = [_edits(word, options, one) for one in (options.typo_lengths, *groups_of_fields)]
    return max(groups), tuple(groups) if len(set(groups)) > 1 else ()


def _edits(word: str, options: QueryOptions, lengths: TypoLengths) -> int:
    """Return how many edits a word may be off in fields with these typo lengths.

    "auto" decides by its length. A requested number applies to every word that keeps more than half
    of its letters, but never to words with digits or to pieces of unspaced scripts.
    """
    if lengths is None:
        return 0
    if options.typo == "auto":
        return typo_budget(word, lengths)
    is_ordinary = typo_budget(word + "xxxxx") > 0
    return min(options.typo, (len(word) - 1) // 2) if is_ordinary else 0


class _ClauseBuilder:
    """Turns the tokens of unquoted words into clauses."""

    def __init__(self, dictionary: QueryDictionary, options: QueryOptions) -> None:
        self.dictionary = dictionary
        self.options = options

    def clauses(self, tokens: Sequence[Token], is_last_open: bool) -> Iterator[Clause]:
        """Yield the clauses of consecutive words of the query."""
        at = 0
        while at < len(tokens):
            length, found = self._synonym(tokens, at, is_last_open)
            if not found:
                length = self._run_length(tokens, at)
                is_open = is_last_open and at + length == len(tokens)
                yield from self._run(tokens[at : at + length], is_open)
            else:
                yield from found
            at += length

    def _synonym(
        self, tokens: Sequence[Token], at: int, is_last_open: bool
    ) -> tuple[int, list[Clause]]:
        """Return the length and the clauses of the longest sequence from `at` with synonyms."""
        synonyms = self.dictionary.synonyms
        for length in range(min(self.dictionary.synonym_words_max, len(tokens) - at), 0, -1):
            words = tuple(token.text for token in tokens[at : at + length])
            alternatives = synonyms.get(words)
            if alternatives is None:
                continue
            if length > 1 and any(token.is_run for token in tokens[at : at + length]):
                # No term contains a space: only the phrase and its alternatives can match.
                return length, [Word(" ".join(words), False, 0, (words, *alternatives))]
            return length, [
                self._word(
                    word,
                    self._is_prefix(is_last_open and at + i + 1 == len(tokens))
                    or is_lone_character(word),
                    alternatives,
                )
                for i, word in enumerate(words)
            ]
        return 1, []

    def _word(self, text: str, is_prefix: bool, synonyms: tuple[Words, ...] = ()) -> Word:
        """Return the clause of one word."""
        typos, by_group = _typos(text, self.options, self.dictionary.typo_groups)
        return Word(
            text, is_prefix, typos, synonyms, typos_by_group=by_group, infix=self._infix(text)
        )

    def _infix(self, word: str) -> int:
        """Return where a word is found inside others."""
        return self.options.infix if len(word) >= INFIX_LETTERS_MIN and not is_run(word) else 0

    def _is_prefix(self, is_last: bool) -> bool:
        prefix = self.options.prefix
        return prefix == "all" or (prefix == "last" and is_last)

    def _run_length(self, tokens: Sequence[Token], at: int) -> int:
        """Return how many tokens from `at` belong to one unspaced run; 1 for a word."""
        length = 1
        while (
            tokens[at].is_run
            and at + length < len(tokens)
            and tokens[at + length].is_run
            and tokens[at + length].start < tokens[at + length - 1].end
        ):
            length += 1
        return length

    def _run(self, tokens: Sequence[Token], is_open: bool) -> Iterator[Clause]:
        """Yield the clauses of one word, or of one unspaced run."""
        is_prefix = self._is_prefix(is_open)
        words = [token.text for token in tokens]
        if len(words) > 1 and self.options.match in ("all", "last"):
            yield Phrase(tuple(words), is_prefix)
            return
        for i, word in enumerate(words):
            is_open_here = (is_prefix and i + 1 == len(words)) or is_lone_character(word)
            yield self._word(word, is_open_here)


def parse_query(
    text: str,
    options: QueryOptions,
    dictionary: QueryDictionary,
    analyzer: Analyzer,
    words_max: int,
) -> Generator[None, None, ParsedQuery]:
    """Parse a query text; any text is valid.

    Yields every ten microseconds or so: hundreds of words, with all ways to write them together or
    apart, take 10 ms.

    Args:
        text: as typed.
        options: of the request.
        dictionary: stop words and synonyms of the index.
        analyzer: splits text into words.
        words_max: limit of folded words; the rest are dropped.
    """
    pieces, num_words_cut = yield from split_query(text, analyzer, words_max)
    dropped = _dropped(pieces, dictionary) if options.drops_function_words else ()
    collector = _ClauseCollector(pieces, dictionary, options, dropped)
    for number, piece in enumerate(pieces):
        if not piece.is_phrase and not piece.is_excluded:
            collector.add_words(number, piece)
            continue
        yield from collector.close_row()
        collector.add_quoted_or_excluded(piece)
    yield from collector.close_row()
    spellings = () if text.isascii() else (yield from _spellings(text, pieces, analyzer))
    counts, quoted = collector.counts, collector.quoted
    return ParsedQuery(
        tuple(counts),
        tuple(counts.values()),
        tuple(collector.excluded),
        options.match,
        sum([len(piece.tokens) for piece in pieces if not piece.is_excluded]),
        num_words_cut,
        dropped,
        tuple([one for one in collector.spacings if quoted.isdisjoint(one.typed)]),
        tuple([word for word in collector.cuttable if word not in quoted]),
        spellings,
        collector.fragment,
        () if num_words_cut else _whole(pieces, dropped),
        frozenset(quoted),
        _is_one_word(counts, dictionary.function_words),
    )


class _ClauseCollector:
    """Collects the clauses of a query, piece by piece.

    Unquoted words that follow each other form a row: only within a row can words be synonyms
    together, or be written together.

    Args:
        pieces: of the query.
        dictionary: stop words and synonyms of the index.
        options: of the request.
        dropped: words to drop, apart from stop words.

    Attributes:
        counts: how often each clause was typed, in order.
        excluded: clauses that no hit may match, in order.
        spacings: other spacings and notations of the rows' words.
        cuttable: words that may be written as two.
        quoted: words that are quoted alone.
        fragment: the last two words, if no space separates them and the last may be incomplete.
    """

    def __init__(
        self,
        pieces: Sequence[Piece],
        dictionary: QueryDictionary,
        options: QueryOptions,
        dropped: Words,
    ) -> None:
        self._builder = _ClauseBuilder(dictionary, options)
        self._options = options
        self._stop_words = _effective(dictionary.stop_words, pieces).union(dropped)
        self._row: list[TypedWord] = []
        self._is_row_open = False
        self._num_words = 0
        self.counts: dict[Clause, int] = {}
        self.excluded: dict[Clause, None] = {}
        self.spacings: dict[Spacing, None] = {}
        self.cuttable: dict[str, None] = {}
        self.quoted: set[str] = set()
        self.fragment: Words = ()

    def add_words(self, number: int, piece: Piece) -> None:
        """Append the words of an unquoted piece to the row."""
        kept = [
            TypedWord(token, number, ordinal)
            for ordinal, token in enumerate(piece.tokens, self._num_words)
            if token.text not in self._stop_words
        ]
        self._num_words += len(piece.tokens)
        self._row.extend(kept)
        self._is_row_open = piece.is_open and bool(kept) and kept[-1].token is piece.tokens[-1]

    def close_row(self) -> Iterator[None]:
        """Turn the row into clauses, and begin the next one; yield after each step."""
        row = self._row
        self.fragment = self._open_pair() if self._is_row_open else ()
        for clause in self._builder.clauses([word.token for word in row], self._is_row_open):
            self._count(clause)
            yield
        if self._options.typo != 0:
            dictionary = self._builder.dictionary
            for spacing in chain(
                spacings_of(row, dictionary.function_words),
                notations_of(row, dictionary.notations),
            ):
                self.spacings[spacing] = None
                yield
            words = [word.token.text for word in row]
            self.cuttable.update({word: None for word in words if is_cuttable(word)})
        row.clear()
        self._is_row_open = False

    def _open_pair(self) -> Words:
        """Return the last two words of an open row, if no space separates them."""
        if len(self._row) < 2 or self._options.prefix != "last":
            return ()
        left, right = self._row[-2:]
        is_close = left.piece == right.piece and left.ordinal + 1 == right.ordinal
        return (left.token.text, right.token.text) if is_close and not right.token.is_run else ()

    def add_quoted_or_excluded(self, piece: Piece) -> None:
        """Add the clause of a piece that is quoted, excluded or both."""
        words = tuple([token.text for token in piece.tokens])
        is_open = piece.is_open and piece.is_phrase and self._options.prefix != "none"
        is_prefix = is_open or is_lone_character(words[-1])
        clause: Clause = Phrase(words, is_prefix) if len(words) > 1 else Word(words[0], is_prefix)
        if piece.is_excluded:
            self.excluded[clause] = None
        else:
            if isinstance(clause, Word):
                self.quoted.add(clause.text)
            self._count(clause)

    def _count(self, clause: Clause) -> None:
        self.counts[clause] = self.counts.get(clause, 0) + 1


def _dropped(pieces: Sequence[Piece], dictionary: QueryDictionary) -> Words:
    """Return the function words of a query that are not stop words; none if it has no others."""
    words = dictionary.function_words
    if not _effective(words | dictionary.stop_words, pieces):
        return ()
    typed = [
        token.text
        for piece in pieces
        if not piece.is_phrase and not piece.is_excluded
        for token in piece.tokens
    ]
    found = [word for word in typed if word in words and word not in dictionary.stop_words]
    return tuple(dict.fromkeys(found))


def _effective(stop_words: frozenset[str], pieces: Sequence[Piece]) -> frozenset[str]:
    """Return the words to drop from a query: none if nothing else restricts hits."""
    if stop_words and any(_has_content(piece, stop_words) for piece in pieces):
        return stop_words
    return frozenset()


def _has_content(piece: Piece, stop_words: frozenset[str]) -> bool:
    """Return whether a piece restricts hits without its stop words."""
    return not piece.is_excluded and (
        piece.is_phrase or any(token.text not in stop_words for token in piece.tokens)
    )


def _spellings(
    text: str, pieces: Sequence[Piece], analyzer: Analyzer
) -> Generator[None, None, tuple[tuple[str, Spellings], ...]]:
    """Return the words outside of phrases that always have accents, with their spellings.

    A word that was typed without accents as well may have any. Yields before each word.
    """
    found: dict[str, dict[str | None, str]] = {}
    for piece in pieces:
        if piece.is_excluded or (piece.is_phrase and len(piece.tokens) > 1):
            continue
        for token in piece.tokens:
            if token.is_run:
                continue  # without accents
            yield
            typed = text[token.start : token.end]
            found.setdefault(token.text, {}).setdefault(analyzer.spelling(typed), typed)
    return tuple(
        (word, tuple((term, typed) for term, typed in spellings.items() if term))
        for word, spellings in found.items()
        if None not in spellings
    )


def _whole(pieces: Sequence[Piece], dropped: Container[str]) -> Words:
    """Return all words of a query that were not dropped, if a field may consist of them.

    A run without spaces has other words in an item than in a query.
    """
    words: list[str] = []
    for piece in pieces:
        if piece.is_excluded or len(words) + len(piece.tokens) > WHOLE_WORDS_MAX:
            return ()
        for token in piece.tokens:
            if token.is_run:
                return ()
            if piece.is_phrase or token.text not in dropped:
                words.append(token.text)
    return tuple(words)


def _is_one_word(clauses: Iterable[Clause], function_words: Container[str]) -> bool:
    """Return whether clauses are one word, and function words beside it."""
    telling = [
        clause
        for clause in clauses
        if not isinstance(clause, Word) or clause.text not in function_words
    ]
    return len(telling) == 1 and isinstance(telling[0], Word)


def dropped_words(
    text: str, dictionary: QueryDictionary, analyzer: Analyzer, words_max: int
) -> Words:
    """Return the function words of a query that `QueryOptions.drops_function_words` drops."""
    pieces, _ = run_to_completion(split_query(text, analyzer, words_max))
    return _dropped(pieces, dictionary)


def words_of(clauses: Mapping[Clause, object] | Sequence[Clause]) -> list[Word]:
    """Return the words whose statistics the clauses' scores need, in order, without repeats."""
    words: dict[Word, None] = {}
    for clause in clauses:
        if isinstance(clause, Word):
            words[clause] = None
        else:
            for i, word in enumerate(clause.words):
                is_prefix = clause.is_prefix and i + 1 == len(clause.words)
                words[Word(word, is_prefix, is_stemmed=False)] = None
    return list(words)
