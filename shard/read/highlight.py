"""Highlighting and snippets: finds the query's matches in the texts of a document.

    query     gren mile (gren: one typo)
    text      The Green Mile & other stories
    marked    The <em>Green</em> <em>Mile</em> &amp; other stories
    snippet   The <em>Green</em> <em>Mile</em> &amp;…                       (3 words)

The tokenizer that built the index also cuts words here and numbers them (`words_of_texts`); each
distinct one is compared with the query's words (`highlight_word_matching`), those of the best tier
are marked (`marked_words`), and texts are shown whole or cut (`snippets`).

Everything is a function of the document's bytes, the query and the options; it needs no index.
Costs grow with the texts, whatever they contain: about 50 µs for each text, 0.1 µs for each of its
words, 1 µs for each distinct word of all documents, 5 µs for each mark, and 10 ns for each distinct
word and query word that may have typos. The request limits how many bytes of a text,
and of an item, are looked at; the rest is shown without marks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from common.deadline import check_call
from common.json.strings_by_path import texts_of
from common.search_option_parsers import ALL_FIELDS
from shard.read.field_classes_of_snapshot import field_classes_of
from shard.read.grapheme_clusters import last_cut
from shard.read.marked_words import Marker, SplitText
from shard.read.snippets import MarkStyle, cut_snippet, mark_text
from shard.read.words_of_texts import WordsOfTexts

if TYPE_CHECKING:
    from common.protocol.messages import HighlightRequest, TextQuery
    from shard.segment.snapshot import Snapshot

_SPLIT_BYTES_MAX: Final = 1 << 20
"""Bytes of documents whose words are in memory at a time, about; a byte takes up to 12."""
_TEXT_BYTES_MIN: Final = 32
"""The least that a text takes from an item's byte budget."""
MARKED_FAST_BYTES: Final = 16_000
"""Marking this many bytes of documents takes 1-4 ms, the longer the shorter they are."""


class _Document:
    """The texts of one document by path, split on first use.

    Args:
        document: its bytes.
        words: splits texts.
        searched: by path, whether the query looks into it.
        text_bytes_max: bytes of each text to split into words.
        bytes_max: bytes of all texts to split into words.
    """

    def __init__(
        self,
        document: bytes,
        words: WordsOfTexts,
        searched: Mapping[str, bool],
        text_bytes_max: int,
        bytes_max: int,
    ) -> None:
        self._value = orjson.loads(document)
        self._words = words
        self._searched = searched
        self._text_bytes_max = text_bytes_max
        self._num_bytes_left = bytes_max
        self._values = list(texts_of(self._value))
        self._cut: dict[int, SplitText] = {}
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

    def texts(self, path: str) -> list[SplitText]:
        """Return the texts of a field, or of all fields inside an object of that path."""
        return [self._text(i) for i in self._families.get(path, ())]

    def is_plural(self, path: str) -> bool:
        """Return whether a field may have several texts: it is an array, or an object."""
        return len(self._families.get(path, ())) > 1 or _leads_through_array(self._value, path)

    def _text(self, i: int) -> SplitText:
        """Return a text, split up to the last whole word within the byte limits."""
        text = self._cut.get(i)
        if text is None:
            path, value = self._values[i]
            encoded = value.encode("utf-8", "replace")
            end = min(len(encoded), self._text_bytes_max, self._num_bytes_left)
            self._num_bytes_left -= min(self._num_bytes_left, max(end, _TEXT_BYTES_MIN))
            part = encoded
            if end < len(encoded):
                end = last_cut(encoded, end)
                part = encoded[:end]
            words = self._words.split(part)
            if end < len(encoded):
                # What ends at the cut may go on after it. A bigram before that may reach into it.
                whole = len(words.ends)
                while whole and words.ends[whole - 1] == end:
                    whole -= 1
                if whole < len(words.ends):
                    end = min(end, int(words.starts[whole:].min()))
                words = words.first(whole)
                if whole:
                    end = max(end, int(words.ends[-1]))
            text = SplitText(path, encoded, words, self._searched.get(path, False), end)
            self._cut[i] = text
        return text


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


class _Shown:
    """The fields of one document that a request wants to see marked, their texts split."""

    def __init__(self, parsed: _Document, request: HighlightRequest) -> None:
        self._parsed = parsed
        self._request = request
        self._highlighted = _named(request.highlight_fields or (), parsed)
        self._snipped = {
            path: num_words
            for name, num_words in request.snippet_fields
            for path in _named((name,), parsed)
        }
        paths = {**self._highlighted, **self._snipped}
        self._texts = [text for path in paths for text in parsed.texts(path)]

    def marks(self, marker: Marker, style: MarkStyle) -> dict[str, Any]:
        """Return `_highlight` and `_snippet`.

        A field that the request names is always present, marked or not; "*" adds those that have a
        mark. Fields with an array give a list in `_highlight` and their best element in `_snippet`.
        """
        check_call()
        parsed = self._parsed
        # A word's best tier is taken over all texts shown, so that all of them mark alike.
        tiers = marker.best_tiers(self._texts)
        result: dict[str, Any] = {}
        if self._request.highlight_fields is not None:
            result["_highlight"] = marks = {}
            for path, is_named in self._highlighted.items():
                found = [(text, marker.find(text, tiers)) for text in parsed.texts(path)]
                if not found or not (is_named or any(marked for _, marked in found)):
                    continue
                texts_marked = [
                    mark_text(text, marked, style, 0, len(text.encoded)) for text, marked in found
                ]
                marks[path] = texts_marked if parsed.is_plural(path) else texts_marked[0]
        if self._request.snippet_fields:
            result["_snippet"] = {
                path: max(
                    (
                        cut_snippet(text, marker.find(text, tiers), style, num_words)
                        for text in parsed.texts(path)
                    ),
                    key=lambda snippet: snippet[0],
                )[1]
                for path, num_words in self._snipped.items()
                if parsed.texts(path)
            }
        return result


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
    style = MarkStyle(request.pre, request.post, request.ellipsis)
    marks: list[dict[str, Any]] = []
    shown: list[_Shown] = []
    num_bytes = 0
    for document in documents:
        check_call()
        parsed = _Document(
            document, marker.words, searched, request.text_bytes_max, request.item_bytes_max
        )
        shown.append(_Shown(parsed, request))
        num_bytes += len(document)
        if num_bytes > _SPLIT_BYTES_MAX:
            marks += [one.marks(marker, style) for one in shown]
            shown = []
            num_bytes = 0
    return (*marks, *(one.marks(marker, style) for one in shown))


def _named(names: Sequence[str], parsed: _Document) -> dict[str, bool]:
    """Return the paths that names refer to, and whether the request names each explicitly."""
    paths: dict[str, bool] = {}
    for name in names:
        if name == ALL_FIELDS:
            for path in parsed.paths():
                paths.setdefault(path, False)
        else:
            paths[name] = True
    return paths


def is_slow_to_mark(documents: Sequence[bytes]) -> bool:
    """Return whether marking documents is likely to take more than a few milliseconds."""
    return sum(map(len, documents)) > MARKED_FAST_BYTES


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
