"""Highlighting and snippets: finds the query's matches in the texts of a document.

    query     gren mile (gren: one typo)
    text      The Green Mile & other stories
    marked    The <em>Green</em> <em>Mile</em> &amp; other stories
    snippet   The <em>Green</em> <em>Mile</em> &amp;…                       (3 words)

The analyzer that built the index also tokenizes here, and each word is compared with the query's
words by the rules of the expansion: as typed, same stem in the field's language, synonym, spacing,
prefix, typos; phrases by adjacency. Only the best tier that the document has for a query word is
marked, as only that counts in its score: where "house" is found, "horse" is left alone.

Everything is a function of the document's bytes, the query and the options; it needs no index.
Costs grow with the texts, whatever they contain: about 2 µs for each word of a text, and 10 ns for
each distinct word and query word that may have typos. The request limits how many bytes of a text,
and of an item, are looked at; the rest is shown without marks.
"""

from __future__ import annotations

import html
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import orjson

from common.analysis.accents import is_spelling
from common.analysis.analyzer import Analyzer, Token
from common.analysis.languages import FieldClass, Languages, stem
from common.deadline import check_call
from common.json.texts import texts_of
from common.query import Word
from shard.query.bm25f import NUM_TIERS, TIER_OF_KIND
from shard.query.languages import languages_of
from shard.segment.vocabulary import TERM_PADDING, Vocabulary, finish_vocabulary

if TYPE_CHECKING:
    from common.protocol.messages import HighlightRequest, ScoredClause, TextQuery
    from shard.segment.snapshot import Snapshot

NO_TIER: Final = NUM_TIERS
"""Worse than every tier: no match."""
_ALL: Final = "*"
_TEXT_BYTES_MIN: Final = 32
"""The least that a text takes from an item's byte budget."""
_SNIPPET_WORD_BYTES: Final = 128
"""Bytes of a snippet for each of its words, with what stands between them: texts without words, or
with endless ones, are cut."""
_WEIGHT_UNIT: Final = 2.0**32
"""Weights are summed as integers, so that the order does not matter."""


@dataclass(frozen=True, slots=True)
class MarkStyle:
    """Text around marks and at the cut ends of snippets; not escaped."""

    pre: str = "<em>"
    post: str = "</em>"
    ellipsis: str = "…"


@dataclass(frozen=True, slots=True)
class _Text:
    """One text of a document, split into words."""

    path: str
    encoded: bytes
    tokens: tuple[Token, ...]
    is_searched: bool
    end: int
    """End of the part that was split into words; there are no marks past it."""


_INFIX_TIER: Final = 2


class QueryWords:
    """Finds the words of a query that a vocabulary term matches, and in which tiers.

    Terms are learned in batches: each then costs a few lookups, however many query words there are.
    """

    def __init__(self, words: Sequence[Word]) -> None:
        self._words = words
        self._same: dict[str, list[int]] = defaultdict(list)
        self._stems: dict[str, dict[str, list[int]]] = {}
        self._similar: dict[str, list[tuple[int, int, int]]] = {}
        self._known: dict[tuple[str, FieldClass], list[tuple[int, int]]] = {}
        for i, word in enumerate(words):
            alternatives = [one[0] for one in _alternatives(word) if len(one) == 1]
            if not word.is_fragment:
                alternatives.insert(0, word.text)
            for text in dict.fromkeys(alternatives):
                self._same[text].append(i)

    def learn(self, terms: Iterable[str]) -> None:
        """Find which words the terms match as prefix or with typos."""
        unknown = sorted(term.encode() for term in set(terms).difference(self._similar))
        if not unknown:
            return
        vocabulary = _vocabulary_of(unknown)
        texts = [term.decode() for term in unknown]
        self._similar.update((text, []) for text in texts)
        for i, word in enumerate(self._words):
            if word.infix:
                inside = [term for term in texts if word.text in term]
                for term in inside:
                    self._similar[term].append((i, _INFIX_TIER, 0))
            if not word.typos and not word.is_prefix:
                continue
            check_call()
            if word.typos:
                found, distances = vocabulary.similar(
                    word.text, word.typos, is_prefix=word.is_prefix
                )
                ordinals = found.tolist()
                tiers = [distance + (1 if distance == 0 else 2) for distance in distances.tolist()]
            else:
                ordinals = range(*vocabulary.prefix_range(word.text))
                tiers = [1] * len(ordinals)
            if word.is_completed:
                tiers = [0 if tier == 1 else tier for tier in tiers]
            needed = dict.fromkeys(ordinals, word.typos)
            for typos in sorted({*word.typos_by_group}, reverse=True):
                near: Iterable[int] = ()
                if typos:
                    near = vocabulary.similar(word.text, typos, is_prefix=word.is_prefix)[
                        0
                    ].tolist()
                elif word.is_prefix:
                    near = range(*vocabulary.prefix_range(word.text))
                needed.update(dict.fromkeys(near, typos))
            for ordinal, tier in zip(ordinals, tiers, strict=True):
                self._similar[texts[ordinal]].append((i, tier, needed[ordinal]))

    def tiers(self, term: str, of: FieldClass) -> Sequence[tuple[int, int]]:
        """Return the words that a learned term matches: (ordinal, tier).

        Tiers are 0 (typed, other form, synonym, spacing, completion), 1 (prefix), 2
        (inside), 3 and 4 (typos).
        """
        key = (term, of)
        tiers = self._known.get(key)
        if tiers is None:
            best: dict[int, int] = dict.fromkeys(self._same.get(term, ()), 0)
            if of.language is not None:
                best.update(dict.fromkeys(self._of_stem(term, of.language), 0))
                for i, tier in self._of_corrections(term, of):
                    best[i] = min(tier, best.get(i, tier))
            for i, tier, typos in self._similar[term]:
                allowed = self._words[i].typos_by_group
                if tier == _INFIX_TIER and not of.is_infix and self._words[i].infix != 2:
                    continue
                if not allowed or typos <= allowed[of.typos]:
                    best[i] = min(tier, best.get(i, tier))
            tiers = self._known[key] = list(best.items())
        return tiers

    def _of_stem(self, term: str, language: str) -> Sequence[int]:
        """Return the words that share a term's stem."""
        stems = self._stems.get(language)
        if stems is None:
            stems = self._stems[language] = defaultdict(list)
            for i, word in enumerate(self._words):
                if word.is_stemmed and not word.is_fragment:
                    stems[stem(word.text, language)].append(i)
        return stems.get(stem(term, language), ()) if stems else ()

    def _of_corrections(self, term: str, of: FieldClass) -> Iterator[tuple[int, int]]:
        """Yield the words with a correction that shares a term's stem: (ordinal, tier)."""
        assert of.language is not None, "without a language nothing has forms"
        for i, word in enumerate(self._words):
            allowed = word.typos_by_group
            if not word.corrections or (allowed and allowed[of.typos] < word.correction_typos):
                continue
            stems = {stem(correction, of.language) for correction in word.corrections}
            if stem(term, of.language) in stems:
                yield i, TIER_OF_KIND[word.correction_kind]


def _alternatives(word: Word) -> list[tuple[str, ...]]:
    """Return the synonyms and spacings of a word."""
    return list(dict.fromkeys([*word.synonyms, *word.spacings]))


def _vocabulary_of(terms: Sequence[bytes]) -> Vocabulary:
    """Return the vocabulary of some terms in UTF-8, ascending and distinct."""
    starts = np.zeros(len(terms) + 1, np.int64)
    np.cumsum([len(term) for term in terms], out=starts[1:])
    joined = np.frombuffer(bytearray(b"".join(terms)) + bytes(TERM_PADDING), np.uint8)
    return Vocabulary(finish_vocabulary(joined, starts))


class _PhraseMarks(NamedTuple):
    """A phrase whose words are marked where they are adjacent."""

    words: tuple[str, ...]
    is_prefix: bool
    weight: float


class Marker:
    """Finds the words of one query in texts."""

    def __init__(self, clauses: Sequence[ScoredClause], languages: Languages) -> None:
        self._languages = languages
        words: list[Word] = []
        self._weights: list[float] = []
        self._phrases: list[_PhraseMarks] = []
        for scored in clauses:
            clause = scored.clause
            if isinstance(clause, Word):
                weight = max(scored.weights[0], default=0.0)
                words.append(clause)
                self._weights.append(weight)
                phrases = [one for one in _alternatives(clause) if len(one) > 1]
                self._phrases += [_PhraseMarks(one, False, weight) for one in phrases]
            else:
                weight = sum(max(one, default=0.0) for one in scored.weights)
                self._phrases.append(_PhraseMarks(clause.words, clause.is_prefix, weight))
        self._words = QueryWords(words)

    def best_tiers(self, texts: Sequence[_Text]) -> list[int]:
        """Return, by word of the query, the best tier that the texts have."""
        best = [NO_TIER] * len(self._weights)
        searched = [text for text in texts if text.is_searched]
        by_text = [dict.fromkeys(token.text for token in text.tokens) for text in searched]
        self._words.learn(itertools.chain.from_iterable(by_text))
        for text, terms in zip(searched, by_text, strict=True):
            field_class = self._languages.class_of(text.path)
            for term in terms:
                for i, tier in self._words.tiers(term, field_class):
                    best[i] = min(best[i], tier)
        return best

    def find(self, text: _Text, tiers: Sequence[int]) -> list[tuple[int, int, float]]:
        """Return the tokens to mark: (ordinal of the token, clause, weight), ascending.

        Args:
            text: one of those passed to `best_tiers`.
            tiers: the result of `best_tiers`.
        """
        if not text.is_searched:
            return []
        field_class = self._languages.class_of(text.path)
        weights = self._weights
        found = {
            (ordinal, i, weights[i])
            for ordinal, token in enumerate(text.tokens)
            for i, tier in self._words.tiers(token.text, field_class)
            if tier <= tiers[i]
        }
        if self._phrases:
            places = _Places(text.tokens)
            for number, phrase in enumerate(self._phrases, len(weights)):
                check_call()
                found.update((i, number, phrase.weight) for i in places.of_phrase(phrase))
        return sorted(found)


class _Places:
    """The positions of the words of a text."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._by_term: dict[str, list[int]] = defaultdict(list)
        for i, token in enumerate(tokens):
            self._by_term[token.text].append(i)

    def of_phrase(self, phrase: _PhraseMarks) -> Iterator[int]:
        """Yield the ordinals of the tokens that are part of an occurrence of a phrase."""
        last = len(phrase.words) - 1
        starts: set[int] = set()
        ordinals: list[list[int]] = []
        for offset, word in enumerate(phrase.words):
            own = self._of_word(word, phrase.is_prefix and offset == last)
            positions = {self._tokens[i].position - offset for i in own}
            starts = starts & positions if offset else positions
            if not starts:
                return
            ordinals.append(own)
        for offset, own in enumerate(ordinals):
            for i in own:
                if self._tokens[i].position - offset in starts:
                    yield i

    def _of_word(self, word: str, is_prefix: bool) -> list[int]:
        """Return the ordinals of the tokens that equal a word, or begin with it."""
        if not is_prefix:
            return self._by_term.get(word, [])
        return [i for term, own in self._by_term.items() if term.startswith(word) for i in own]


def mark_text(
    text: _Text, marked: Sequence[tuple[int, int, float]], style: MarkStyle, start: int, end: int
) -> str:
    """Return ``text[start:end]`` (bytes) escaped, with marks around the marked tokens inside."""
    spans: list[list[int]] = []
    for i, _, _ in marked:
        token = text.tokens[i]
        if token.start < start or token.end > end:
            continue
        if spans and token.start < spans[-1][1]:  # bigrams of one run overlap
            spans[-1][1] = max(spans[-1][1], token.end)
        else:
            spans.append([token.start, token.end])
    pieces = []
    at = start
    for first, last in spans:
        pieces += [
            _escape(text.encoded[at:first]),
            style.pre,
            _escape(text.encoded[first:last]),
            style.post,
        ]
        at = last
    pieces.append(_escape(text.encoded[at:end]))
    return "".join(pieces)


def cut_snippet(
    text: _Text, marked: Sequence[tuple[int, int, float]], style: MarkStyle, num_words: int
) -> tuple[float, str]:
    """Return the best window of `num_words` words, marked, and its value.

    Best: greatest weight of distinct clauses, then most marks, then earliest. The window begins a
    little before its first mark, for context on both sides.
    """
    value, begin, end = _best_part(text, marked, num_words)
    if end - begin > num_words * _SNIPPET_WORD_BYTES:
        begin, end = _shortened(text, marked, begin, end, num_words * _SNIPPET_WORD_BYTES)
    head = style.ellipsis if begin > 0 else ""
    tail = style.ellipsis if end < len(text.encoded) else ""
    return value, head + mark_text(text, marked, style, begin, end) + tail


def _best_part(
    text: _Text, marked: Sequence[tuple[int, int, float]], num_words: int
) -> tuple[float, int, int]:
    """Return the value of the best window of `num_words` words, and where it begins and ends."""
    tokens = text.tokens
    if not tokens:
        return 0.0, 0, text.end
    first_position = tokens[0].position
    last_position = tokens[-1].position
    value, wanted_start = _best_window(tokens, marked, num_words)
    start = max(first_position, min(wanted_start, last_position - num_words + 1))
    inside_window = [one for one in tokens if start <= one.position < start + num_words]
    begin = 0 if start <= first_position else inside_window[0].start
    is_end = start + num_words > last_position
    end = text.end if is_end else max(one.end for one in inside_window)
    return value, begin, end


def _shortened(
    text: _Text, marked: Sequence[tuple[int, int, float]], begin: int, end: int, bytes_max: int
) -> tuple[int, int]:
    """Return the beginning and end of the part of a window that is shown if it is too long.

    It begins a little before the first mark.
    """
    starts = [text.tokens[i].start for i, _, _ in marked]
    first = next((start for start in starts if begin <= start < end), begin)
    begin = max(begin, min(first - bytes_max // 4, end - bytes_max))
    begin = _character_start(text.encoded, begin)
    return begin, _character_start(text.encoded, min(end, begin + bytes_max))


def _character_start(encoded: bytes, at: int) -> int:
    """Return where the character begins that has a byte; the end of the text stays."""
    while 0 < at < len(encoded) and encoded[at] & 0xC0 == 0x80:
        at -= 1
    return at


def _best_window(
    tokens: Sequence[Token], marked: Sequence[tuple[int, int, float]], num_words: int
) -> tuple[float, int]:
    """Return the value of the best window of `num_words` words, and where it should begin.

    A sliding window over the marks: each mark begins one, so both ends only move forward. The
    beginning is a position.
    """
    best = (0, 0, 0)
    counts: dict[int, int] = defaultdict(int)  # marks in the window, by clause
    value = end = 0
    for i, (ordinal, clause, weight) in enumerate(marked):
        start = tokens[ordinal].position
        while end < len(marked) and tokens[marked[end][0]].position < start + num_words:
            _, entering, gained = marked[end]
            if counts[entering] == 0:
                value += math.floor(gained * _WEIGHT_UNIT)
            counts[entering] += 1
            end += 1
        if (value, end - i) > best[:2]:
            slack = num_words - 1 - (tokens[marked[end - 1][0]].position - start)
            best = (value, end - i, start - slack // 2)
        counts[clause] -= 1
        if counts[clause] == 0:
            value -= math.floor(weight * _WEIGHT_UNIT)
    return best[0] / _WEIGHT_UNIT, best[2]


def _escape(encoded: bytes) -> str:
    return html.escape(encoded.decode("utf-8", "replace"))


# --- documents


class _Document:
    """The texts of one document by path, split on first use.

    Args:
        document: its bytes.
        analyzer: splits texts into words.
        searched: by path, whether the query looks into it.
        text_bytes_max: bytes of each text to split into words.
        bytes_max: bytes of all texts to split into words.
    """

    def __init__(
        self,
        document: bytes,
        analyzer: Analyzer,
        searched: Mapping[str, bool],
        text_bytes_max: int,
        bytes_max: int,
    ) -> None:
        self._value = orjson.loads(document)
        self._analyzer = analyzer
        self._searched = searched
        self._text_bytes_max = text_bytes_max
        self._num_bytes_left = bytes_max
        self._values = list(texts_of(self._value))
        self._cut: dict[int, _Text] = {}
        self._families: dict[str, list[int]] = defaultdict(list)
        for i, (path, _) in enumerate(self._values):
            self._families[path].append(i)
            dot = path.find(".")
            while dot >= 0:
                self._families[path[:dot]].append(i)
                dot = path.find(".", dot + 1)

    def paths(self) -> list[str]:
        """Return the paths of all texts, in document order."""
        return list(dict.fromkeys(path for path, _ in self._values))

    def texts(self, path: str) -> list[_Text]:
        """Return the texts of a field, or of all fields inside an object of that path."""
        return [self._text(i) for i in self._families.get(path, ())]

    def has_array(self, path: str) -> bool:
        """Return whether a path leads to an object, or to or through an array."""
        return _leads_through_array(self._value, path)

    def _text(self, i: int) -> _Text:
        """Return a text, split up to the last whole word within the byte limits."""
        text = self._cut.get(i)
        if text is None:
            path, value = self._values[i]
            encoded = value.encode("utf-8", "replace")
            end = min(len(encoded), self._text_bytes_max, self._num_bytes_left)
            self._num_bytes_left -= min(self._num_bytes_left, max(end, _TEXT_BYTES_MIN))
            part = encoded
            if end < len(encoded):
                end = _character_start(encoded, end)
                part = encoded[:end]
            tokens = [
                token
                for token in self._analyzer.tokenize_bytes(part, is_indexing=True)
                if not is_spelling(token.text)
            ]
            if end < len(encoded):
                # What ends at the cut may go on after it. A bigram before that may reach into it.
                cut = end
                while tokens and tokens[-1].end == cut:
                    end = min(end, tokens.pop().start)
                if tokens:
                    end = max(end, tokens[-1].end)
            text = _Text(path, encoded, tuple(tokens), self._searched.get(path, False), end)
            self._cut[i] = text
        return text


def _leads_through_array(value: Any, path: str) -> bool:
    if isinstance(value, list):
        return True
    if not isinstance(value, dict) or not path:
        return False
    if path in value:
        return isinstance(value[path], list | dict)
    return any(
        _leads_through_array(child, path[len(key) + 1 :])
        for key, child in value.items()
        if path.startswith(key + ".")
    )


def mark_document(
    document: bytes,
    marker: Marker,
    searched: Mapping[str, bool],
    request: HighlightRequest,
    analyzer: Analyzer,
) -> dict[str, Any]:
    """Return `_highlight` and `_snippet` of one document.

    A field that the request names is always present, marked or not; "*" adds those that have a
    mark. Fields with an array give a list in `_highlight` and their best element in `_snippet`.
    """
    check_call()
    parsed = _Document(document, analyzer, searched, request.text_bytes_max, request.item_bytes_max)
    style = MarkStyle(request.pre, request.post, request.ellipsis)
    highlighted = _named(request.highlight_fields or (), parsed)
    snipped = {
        path: num_words
        for name, num_words in request.snippet_fields
        for path in _named((name,), parsed)
    }
    # A word's best tier is taken over all texts shown, so that all of them mark alike.
    texts = [text for path in {**highlighted, **snipped} for text in parsed.texts(path)]
    tiers = marker.best_tiers(texts)
    result: dict[str, Any] = {}
    if request.highlight_fields is not None:
        result["_highlight"] = marks = {}
        for path, is_named in highlighted.items():
            found = [(text, marker.find(text, tiers)) for text in parsed.texts(path)]
            if not found or not (is_named or any(marked for _, marked in found)):
                continue
            texts_marked = [
                mark_text(text, marked, style, 0, len(text.encoded)) for text, marked in found
            ]
            marks[path] = texts_marked if parsed.has_array(path) else texts_marked[0]
    if request.snippet_fields:
        result["_snippet"] = {
            path: max(
                (
                    cut_snippet(text, marker.find(text, tiers), style, num_words)
                    for text in parsed.texts(path)
                ),
                key=lambda snippet: snippet[0],
            )[1]
            for path, num_words in snipped.items()
            if parsed.texts(path)
        }
    return result


def _named(names: Sequence[str], parsed: _Document) -> dict[str, bool]:
    """Return the paths that names refer to, and whether the request names each explicitly."""
    paths: dict[str, bool] = {}
    for name in names:
        if name == _ALL:
            for path in parsed.paths():
                paths.setdefault(path, False)
        else:
            paths[name] = True
    return paths


def mark_documents(
    snapshot: Snapshot,
    documents: Sequence[bytes],
    query: TextQuery | None,
    request: HighlightRequest,
) -> tuple[dict[str, Any], ...]:
    """Return the marks of documents, in order; without a query nothing is marked."""
    marker = Marker(query.clauses if query is not None else (), languages_of(snapshot))
    searched = {field.path: field.weight > 0 for field in query.fields} if query else {}
    analyzer = Analyzer()
    return tuple(
        mark_document(document, marker, searched, request, analyzer) for document in documents
    )
