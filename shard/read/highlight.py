"""Highlighting and snippets: finds the query's matches in the texts of a document.

    query     gren mile (gren: one typo)
    text      The Green Mile & other stories
    marked    The <em>Green</em> <em>Mile</em> &amp; other stories
    snippet   The <em>Green</em> <em>Mile</em> &amp;…                       (3 words)

The tokenizer that built the index also cuts words here and numbers them (`words_of_texts`). The
query's words are looked up in the vocabulary of these (`highlight_word_matching`), those of the
best tier are marked (`marked_words`), and texts are shown whole or cut (`snippets`).

Everything is a function of the document's bytes, the query and the options; it needs no index.
Costs grow with the texts, whatever they contain: about 150 µs for each request, 20 µs for each
document, 10 µs for each of its texts, 0.2 µs for each word, 4 µs for each mark, and 10 ns for each
distinct word and query word that may have typos. The request limits how many bytes of a text, and
of an item, are looked at; the rest is shown without marks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

import orjson

from common.deadline import check_call
from common.json.strings_by_path import texts_of
from common.search_option_parsers import ALL_FIELDS
from shard.read.field_classes_of_snapshot import field_classes_of
from shard.read.grapheme_clusters import last_cut
from shard.read.marked_words import Mark, Marker, SplitText
from shard.read.snippets import MarkStyle, cut_snippet, mark_text
from shard.read.words_of_texts import Words

if TYPE_CHECKING:
    from common.protocol.messages import HighlightRequest, TextQuery
    from shard.segment.snapshot import Snapshot

T = TypeVar("T")

_SPLIT_BYTES_MAX: Final = 1 << 20
"""Bytes of documents whose words are in memory at a time, about; a byte takes up to 12."""
_TEXT_BYTES_MIN: Final = 32
"""The least that a text takes from an item's byte budget."""
MARKED_FAST_BYTES: Final = 16_000
"""Marking this many bytes of documents takes 1-2 ms, unless they are hundreds of tiny texts."""
MARKED_FAST_QUOTES: Final = 2_000
"""The texts with so many take 5 to 10 ms: each has two in a document, and two around its name."""


class _Wanted:
    """What a request wants to see marked, prepared for all documents.

    Args:
        request: of the search.
        searched: by path, whether the query looks into it.
    """

    def __init__(self, request: HighlightRequest, searched: Mapping[str, bool]) -> None:
        self.request = request
        self.searched = searched
        self.style = MarkStyle(request.pre, request.post, request.ellipsis)
        names = {*(request.highlight_fields or ()), *(name for name, _ in request.snippet_fields)}
        self._firsts = {"", *(name.partition(".")[0] for name in names)}
        self._has_all = ALL_FIELDS in names

    def members(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return the members of an item among which are those that the request names.

        What a path names begins with the path's first part: `a.b` may be a key, or lead through an
        object. Only the empty key is in no path.
        """
        if self._has_all:
            return item
        firsts = self._firsts
        return {key: value for key, value in item.items() if key.partition(".")[0] in firsts}


class _Document:
    """The texts of one document that are marked.

    Args:
        document: its bytes.
        wanted: which texts, and how many bytes of them are split into words.
    """

    def __init__(self, document: bytes, wanted: _Wanted) -> None:
        request = wanted.request
        self._wanted = wanted
        self._value = wanted.members(orjson.loads(document))
        self._values = texts_of(self._value)
        self._families: dict[str, list[int]] = defaultdict(list)
        for i, (path, _) in enumerate(self._values):
            self._families[path].append(i)
            dot = path.find(".")
            while dot >= 0:
                self._families[path[:dot]].append(i)
                dot = path.find(".", dot + 1)
        self._highlighted = self._named(request.highlight_fields or ())
        self._snipped = {
            path: num_words
            for name, num_words in request.snippet_fields
            for path in self._named((name,))
        }
        paths = {**self._highlighted, **self._snipped}
        shown = dict.fromkeys(i for path in paths for i in self._families.get(path, ()))
        self._rank_of = {i: rank for rank, i in enumerate(shown)}
        self._encoded = [self._values[i][1].encode("utf-8", "replace") for i in shown]
        self.parts = _parts_to_split(self._encoded, request)
        """Of each text that is shown, what is split into words."""

    def split(self, words: Iterator[Words]) -> list[SplitText]:
        """Return the texts, given the words of each of the `parts`."""
        return [self._split_text(i, next(words)) for i in self._rank_of]

    def marks(self, marked: Sequence[tuple[SplitText, Sequence[Mark]]]) -> dict[str, Any]:
        """Return `_highlight` and `_snippet`.

        A field that the request names is always present, marked or not; "*" adds those that have a
        mark. Fields with an array give a list in `_highlight` and their best element in `_snippet`.

        Args:
            marked: the texts with their marks.
        """
        result: dict[str, Any] = {}
        request, style = self._wanted.request, self._wanted.style
        if request.highlight_fields is not None:
            result["_highlight"] = highlights = {}
            for path, is_named in self._highlighted.items():
                found = self._of(path, marked)
                if not found or not (is_named or any(marks for _, marks in found)):
                    continue
                shown = [
                    mark_text(text, marks, style, 0, len(text.encoded)) for text, marks in found
                ]
                highlights[path] = shown if self._is_plural(path) else shown[0]
        if request.snippet_fields:
            result["_snippet"] = {
                path: max(
                    (
                        cut_snippet(text, marks, style, num_words)
                        for text, marks in self._of(path, marked)
                    ),
                    key=lambda snippet: snippet[0],
                )[1]
                for path, num_words in self._snipped.items()
                if path in self._families
            }
        return result

    def _named(self, names: Sequence[str]) -> dict[str, bool]:
        """Return the paths that names refer to, and whether they are named explicitly."""
        paths: dict[str, bool] = {}
        for name in names:
            if name == ALL_FIELDS:
                for path, _ in self._values:
                    paths.setdefault(path, False)
            else:
                paths[name] = True
        return paths

    def _of(self, path: str, shown: Sequence[T]) -> list[T]:
        """Return those of the texts shown that a field has, or all fields in an object."""
        return [shown[self._rank_of[i]] for i in self._families.get(path, ())]

    def _is_plural(self, path: str) -> bool:
        """Return whether a field may have several texts: it is an array, or an object."""
        return len(self._families[path]) > 1 or _leads_through_array(self._value, path)

    def _split_text(self, i: int, words: Words) -> SplitText:
        """Return a text that is split up to its last whole word within the byte limits."""
        path, rank = self._values[i][0], self._rank_of[i]
        encoded, end = self._encoded[rank], len(self.parts[rank])
        if end < len(encoded):
            # What ends at the cut may go on after it. A bigram before that may reach into it.
            whole = len(words.ends)
            while whole and words.ends[whole - 1] == end:
                whole -= 1
            if whole < len(words.ends):
                end = min(end, int(words.starts[whole:].min()))
            words = words.between(0, whole)
            if whole:
                end = max(end, int(words.ends[-1]))
        return SplitText(path, encoded, words, self._wanted.searched.get(path, False), end)


def _parts_to_split(encoded: Sequence[bytes], request: HighlightRequest) -> list[bytes]:
    """Return the beginnings of an item's texts, within the byte limits of a request."""
    num_bytes_left = request.item_bytes_max
    parts: list[bytes] = []
    for text in encoded:
        end = min(len(text), request.text_bytes_max, num_bytes_left)
        num_bytes_left -= min(num_bytes_left, max(end, _TEXT_BYTES_MIN))
        parts.append(text if end == len(text) else text[: last_cut(text, end)])
    return parts


def _leads_through_array(value: Any, path: str) -> bool:
    """Return whether a path leads to an object, or to or through an array."""
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


def mark_all(
    documents: Sequence[bytes],
    marker: Marker,
    searched: Mapping[str, bool],
    request: HighlightRequest,
) -> tuple[dict[str, Any], ...]:
    """Return `_highlight` and `_snippet` of documents, in order.

    Many documents are split before the first is marked: what their words match is found for all of
    them at once.
    """
    wanted = _Wanted(request, searched)
    marks: list[dict[str, Any]] = []
    parsed: list[_Document] = []
    num_bytes = 0
    for document in documents:
        check_call()
        parsed.append(_Document(document, wanted))
        num_bytes += len(document)
        if num_bytes > _SPLIT_BYTES_MAX:
            marks += _marks_of(parsed, marker)
            parsed = []
            num_bytes = 0
    return (*marks, *_marks_of(parsed, marker))


def _marks_of(parsed: Sequence[_Document], marker: Marker) -> list[dict[str, Any]]:
    """Return `_highlight` and `_snippet` of documents whose words are split together."""
    words = iter(marker.words.split([part for one in parsed for part in one.parts]))
    texts = [one.split(words) for one in parsed]
    matching = iter(marker.matching_words([text for own in texts for text in own]))
    marks: list[dict[str, Any]] = []
    for document, own in zip(parsed, texts, strict=True):
        check_call()
        found = marker.marks_of(own, list(islice(matching, len(own))))
        marks.append(document.marks(list(zip(own, found, strict=True))))
    return marks


def is_slow_to_mark(documents: Sequence[bytes]) -> bool:
    """Return whether marking documents is likely to take more than a few milliseconds."""
    num_quotes = sum([one.count(b'"') for one in documents])
    return sum(map(len, documents)) > MARKED_FAST_BYTES or num_quotes > MARKED_FAST_QUOTES


def mark_documents(
    snapshot: Snapshot,
    documents: Sequence[bytes],
    query: TextQuery | None,
    request: HighlightRequest,
) -> tuple[dict[str, Any], ...]:
    """Return the marks of documents, in order; without a query nothing is marked."""
    marker = Marker(query.clauses if query is not None else (), field_classes_of(snapshot))
    searched = {field.path: field.weight > 0 for field in query.fields} if query else {}
    return mark_all(documents, marker, searched, request)
