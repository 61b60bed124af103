"""Highlighting and snippets: where in a document's texts is what the query found?

    query     gren mile (gren: one typo)
    text      The Green Mile & other stories
    marked    The <em>Green</em> <em>Mile</em> &amp; other stories
    snippet   The <em>Green</em> <em>Mile</em> &amp;…                       (3 words)

Texts are cut by the same analyser as the index, and each word is compared with the query's words by
the same rules as in the expansion: as typed, same stem in the field's language, synonym, beginning,
typos; phrases by adjacency. Of these only the best tier that the document shows for a query word is
marked, as only that counts in its score: where "house" is found, "horse" is left alone.

Everything is a function of the document's bytes, the query and the options, so that it needs no
index: the texts of ten hits are cut in well under a millisecond.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from common.analysis.analyzer import Analyzer, Token
from common.analysis.languages import Languages, stem
from common.query import Word
from shard.segment.vocabulary import edit_distance

if TYPE_CHECKING:
    from common.protocol.messages import HighlightRequest, ScoredClause, TextQuery
    from shard.segment.snapshot import Snapshot

NO_TIER: Final = 4
"""Worse than every tier: the word does not match."""
_ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class MarkStyle:
    """What is put around marks and at the cut ends of snippets; not escaped."""

    pre: str = "<em>"
    post: str = "</em>"
    ellipsis: str = "…"


@dataclass(frozen=True, slots=True)
class _Text:
    """One text of a document, cut into words."""

    path: str
    encoded: bytes
    tokens: tuple[Token, ...]
    is_searched: bool


class WordMatcher:
    """Tells in which tier a vocabulary term matches a word of the query, if at all."""

    def __init__(self, word: Word) -> None:
        self._word = word
        self._synonyms = {one[0] for one in word.synonyms if len(one) == 1}
        self._known: dict[tuple[str, str | None], int] = {}

    def tier(self, term: str, language: str | None) -> int:
        """Return 0 (typed, other form, synonym), 1 (prefix), 2 or 3 (typos), or `NO_TIER`."""
        key = (term, language)
        tier = self._known.get(key)
        if tier is None:
            tier = self._known[key] = self._compare(term, language)
        return tier

    def _compare(self, term: str, language: str | None) -> int:
        word = self._word
        if term == word.text or term in self._synonyms:
            return 0
        if (
            word.is_stemmed
            and language is not None
            and stem(term, language) == stem(word.text, language)
        ):
            return 0
        if word.is_prefix and term.startswith(word.text):
            return 1
        if word.typos:
            distance = edit_distance(word.text, term, word.typos, is_prefix=word.is_prefix)
            if distance is not None:
                return 1 + distance
        return NO_TIER


class Marker:
    """Finds the words of one query in texts."""

    def __init__(self, clauses: Sequence[ScoredClause], languages: Languages) -> None:
        self._languages = languages
        self._words: list[tuple[WordMatcher, float]] = []
        self._phrases: list[tuple[tuple[WordMatcher, ...], float]] = []
        for scored in clauses:
            clause = scored.clause
            if isinstance(clause, Word):
                weight = max(scored.weights[0], default=0.0)
                self._words.append((WordMatcher(clause), weight))
                phrases = [one for one in clause.synonyms if len(one) > 1]
                self._phrases += [(_phrase_matchers(one, False), weight) for one in phrases]
            else:
                weight = sum(max(one, default=0.0) for one in scored.weights)
                self._phrases.append((_phrase_matchers(clause.words, clause.is_prefix), weight))

    def best_tiers(self, texts: Sequence[_Text]) -> list[int]:
        """Return by word of the query the best tier that the texts show."""
        best = [NO_TIER] * len(self._words)
        for text in texts:
            if text.is_searched:
                language = self._languages.of(text.path)
                terms = {token.text for token in text.tokens}
                for i, (matcher, _) in enumerate(self._words):
                    for term in terms:
                        if best[i] == 0:
                            break
                        best[i] = min(best[i], matcher.tier(term, language))
        return best

    def find(self, text: _Text, tiers: Sequence[int]) -> list[tuple[int, int, float]]:
        """Return which tokens are marked: (ordinal of the token, clause, weight), ascending."""
        if not text.is_searched:
            return []
        language = self._languages.of(text.path)
        found: set[tuple[int, int, float]] = set()
        for i, token in enumerate(text.tokens):
            for clause, (matcher, weight) in enumerate(self._words):
                if tiers[clause] != NO_TIER and matcher.tier(token.text, language) <= tiers[clause]:
                    found.add((i, clause, weight))
        for number, (matchers, weight) in enumerate(self._phrases):
            for i in _phrase_tokens(text.tokens, matchers):
                found.add((i, len(self._words) + number, weight))
        return sorted(found)


def _phrase_matchers(words: Sequence[str], is_prefix: bool) -> tuple[WordMatcher, ...]:
    last = len(words) - 1
    return tuple(
        WordMatcher(Word(word, is_prefix and i == last, is_stemmed=False))
        for i, word in enumerate(words)
    )


def _phrase_tokens(tokens: Sequence[Token], matchers: Sequence[WordMatcher]) -> Iterator[int]:
    """Yield the ordinals of the tokens that are part of an occurrence of a phrase."""
    by_position: dict[int, list[int]] = {}
    for i, token in enumerate(tokens):
        by_position.setdefault(token.position, []).append(i)
    for start in by_position:
        run: list[int] = []
        for offset, matcher in enumerate(matchers):
            fitting = [
                i
                for i in by_position.get(start + offset, ())
                if matcher.tier(tokens[i].text, None) != NO_TIER
            ]
            if not fitting:
                break
            run += fitting
        else:
            yield from run


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
    """Return the best window of so many words, marked, and how good it is.

    Best: greatest weight of different clauses, then most marks, then earliest. The window begins a
    little before its first mark, so that there is context on both sides.
    """
    tokens = text.tokens
    if not tokens:
        return 0.0, mark_text(text, (), style, 0, len(text.encoded))
    best = (0.0, 0, 0)
    first_position = tokens[0].position
    last_position = tokens[-1].position
    for i, (ordinal, _, _) in enumerate(marked):
        start = tokens[ordinal].position
        inside: dict[int, float] = {}
        count = 0
        for other, clause, weight in marked[i:]:
            if tokens[other].position >= start + num_words:
                break
            inside[clause] = max(weight, inside.get(clause, 0.0))
            count += 1
        value = (sum(inside.values()), count)
        if value > best[:2]:
            last_inside = tokens[marked[i + count - 1][0]].position
            slack = num_words - 1 - (last_inside - start)
            best = (*value, start - slack // 2)
    start = max(first_position, min(best[2], last_position - num_words + 1))
    inside_window = [one for one in tokens if start <= one.position < start + num_words]
    is_begin = start <= first_position
    is_end = start + num_words > last_position
    begin = 0 if is_begin else inside_window[0].start
    end = len(text.encoded) if is_end else max(one.end for one in inside_window)
    snippet = mark_text(text, marked, style, begin, end)
    head = "" if is_begin else style.ellipsis
    tail = "" if is_end else style.ellipsis
    return best[0], head + snippet + tail


def _escape(encoded: bytes) -> str:
    return html.escape(encoded.decode("utf-8", "replace"))


# --- documents


class _Document:
    """The texts of one document by path, cut when first asked for."""

    def __init__(self, document: bytes, analyzer: Analyzer, searched: Mapping[str, bool]) -> None:
        self._value = orjson.loads(document)
        self._analyzer = analyzer
        self._searched = searched
        self._texts: dict[str, list[_Text]] = {}

    def paths(self) -> list[str]:
        """Return the paths of all texts, in document order."""
        return list(dict.fromkeys(path for path, _ in _walk(self._value, "")))

    def texts(self, path: str) -> list[_Text]:
        """Return the texts of a field, or of all fields inside an object of that path."""
        texts = self._texts.get(path)
        if texts is None:
            inside = path + "."
            texts = self._texts[path] = [
                self._cut(own, value)
                for own, value in _walk(self._value, "")
                if own == path or own.startswith(inside)
            ]
        return texts

    def has_array(self, path: str) -> bool:
        """Return whether a path leads to more than one text or through an array."""
        return _leads_through_array(self._value, path)

    def _cut(self, path: str, value: str) -> _Text:
        encoded = value.encode("utf-8", "replace")
        tokens = self._analyzer.tokenize_bytes(encoded, is_indexing=True)
        is_searched = self._searched.get(path, False)
        return _Text(path, encoded, tuple(tokens), is_searched)


def _walk(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield path and text of every string, in document order."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, child in value.items():
            yield from _walk(child, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for child in value:
            yield from _walk(child, path)


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

    A field that is named is always there, marked or not; with "*" those that have a mark. Fields
    with an array give a list in `_highlight` and their best element in `_snippet`.
    """
    parsed = _Document(document, analyzer, searched)
    style = MarkStyle(request.pre, request.post, request.ellipsis)
    highlighted = _named(request.highlight_fields or (), parsed)
    snipped = {
        path: num_words
        for name, num_words in request.snippet_fields
        for path in _named((name,), parsed)
    }
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
    """Return the paths that names stand for, and whether each was named itself."""
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
    """Return the marks of documents, in their order; without a query nothing is marked."""
    configuration = snapshot.configuration
    languages = Languages(configuration.language, configuration.field_languages)
    marker = Marker(query.clauses if query is not None else (), languages)
    searched = {field.path: field.weight > 0 for field in query.fields} if query else {}
    analyzer = Analyzer()
    return tuple(
        mark_document(document, marker, searched, request, analyzer) for document in documents
    )
