"""Responses in the form of Algolia's protocol (pure).

An item becomes a hit: `objectID` is its `id` as text, or a digest of its content;
`_highlightResult` and `_snippetResult` mirror the item's shape, with `{"value", "matchLevel",
"matchedWords"}` in place of each text, and `fullyHighlighted` where a word of it is marked. Texts
arrive escaped and marked with private-use characters.
They leave with the request's tags and unescaped, since this protocol's clients escape them.
"""

from __future__ import annotations

import hashlib
import html
import re
import threading
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final, NamedTuple

import orjson

from common.analysis.accented_spellings import is_spelling
from common.analysis.analyzer import Analyzer, Token
from common.analysis.typo_budget import typo_budget
from coordinator.algolia.parameter_errors import translated_warning
from coordinator.algolia.parameter_interactions import POST, PRE
from coordinator.algolia.search_request import AlgoliaSearch, Style
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.facets.facet_result_types import FacetResult
from coordinator.read.hit_rendering import Projection
from coordinator.read.search_results import FacetPage, SearchResult, Timings
from coordinator.read.text.prefix_edit_distance import edit_distances
from coordinator.read.text.query_pieces import wanted_words


class _Analyzers(threading.local):
    """One analyzer a thread: long responses are made on several."""

    def __init__(self) -> None:
        self.own = Analyzer()


_analyzers: Final = _Analyzers()
_POINTS: Final = "_geoloc"
_MARKED: Final = re.compile(f"{PRE}([^{PRE}{POST}]*){POST}")
_WHOLLY_MARKED: Final = re.compile(rf"(?:{PRE}[^{PRE}{POST}]*{POST}|[^\w{PRE}{POST}]|_)*")
"""Matches a text without a letter or digit outside of its marks."""


def search_answer(requested: AlgoliaSearch, result: SearchResult, total_us: int) -> dict[str, Any]:
    """Return the response to one search, which took this long."""
    search, style = requested.search, requested.style
    form = _form_of(search, style)
    answer: dict[str, Any] = {
        # Encoded one by one: as objects, all of them together would take many times as much.
        "hits": [orjson.Fragment(orjson.dumps(_hit(item, form))) for item in result.items],
        "nbHits": result.total,
        **_page_members(search, style, result),
    }
    if result.cursor is not None:
        answer["cursor"] = result.cursor
    answer |= {
        "facets": {facet.field: counts_of(facet) for facet in result.facets},
        "facets_stats": _stats_by_field(result.facets),
        **_exhaustive_members(search, result),
        "query": search.query,
        "params": requested.params,
        "index": requested.name,
        "renderingContent": style.rendering_content,
        **_time_members(result.timings, total_us),
    }
    if result.rules:
        answer["appliedRules"] = [{"objectID": name} for name in dict.fromkeys(result.rules)]
    if result.rule_data:
        answer["userData"] = result.rule_data
    if result.warnings:
        answer["message"] = "; ".join(map(translated_warning, result.warnings))
    if style.members is not None:
        answer = {name: value for name, value in answer.items() if name in style.members}
    return answer


def _page_members(search: SearchParameters, style: Style, result: SearchResult) -> dict[str, Any]:
    """Return the members that say which page it is, as it was requested: by offset or number."""
    size = result.per_page
    if style.has_offset:
        return {"offset": search.skip, "length": size}
    return {
        "page": result.page - 1,
        "nbPages": -(-result.total // size) if size else 0,
        "hitsPerPage": size,
    }


def _stats_by_field(facets: Iterable[FacetResult]) -> dict[str, dict[str, Any]]:
    """Return the statistics of the facets that have numbers."""
    return {
        facet.field: {
            "min": facet.stats.min,
            "max": facet.stats.max,
            "avg": facet.stats.avg,
            "sum": facet.stats.sum,
        }
        for facet in facets
        if facet.stats is not None and facet.stats.count
    }


def _exhaustive_members(search: SearchParameters, result: SearchResult) -> dict[str, Any]:
    """Return the members that say what is exact: all, unless a shard is missing or a list ends."""
    is_whole = result.shards.ok == result.shards.total
    values_max = {spec.configuration.field: spec.configuration.size for spec in search.facets}
    has_all_values = all(len(one.buckets) < values_max[one.field] for one in result.facets)
    return {
        "exhaustive": {
            "facetsCount": is_whole,
            "facetValues": is_whole and has_all_values,
            "nbHits": is_whole,
            "rulesMatch": True,
            "typo": is_whole,
        },
        "exhaustiveFacetsCount": is_whole,
        "exhaustiveNbHits": is_whole,
        "exhaustiveTypo": is_whole,
    }


def _time_members(timings: Timings, total_us: int) -> dict[str, Any]:
    """Return the members that say how long the search took, in milliseconds."""
    return {
        "processingTimeMS": total_us // 1000,
        "serverTimeMS": total_us // 1000,
        "processingTimingsMS": {
            "search": timings.search_us // 1000,
            "facets": timings.facets_us // 1000,
            "sort": timings.sort_us // 1000,
            "total": total_us // 1000,
        },
    }


def facet_query_response(main: Mapping[str, Any], facet: str) -> dict[str, Any]:
    """Return the response to a query that another search answers: the same members, its facet."""
    counts, stats = main.get("facets", {}), main.get("facets_stats", {})
    own = {
        "hits": [],
        "facets": {facet: counts.get(facet, {})},
        "facets_stats": {facet: stats[facet]} if facet in stats else {},
    }
    return {name: own.get(name, value) for name, value in main.items()}


def counts_of(facet: FacetResult) -> dict[str, int]:
    """Return values and counts of a facet, without zeros."""
    return {bucket.key: bucket.doc_count for bucket in facet.buckets if bucket.doc_count}


def facet_response(page: FacetPage, typed: str, style: Style, total_us: int) -> dict[str, Any]:
    """Return the response to a search for facet values."""
    return {
        "facetHits": [
            {
                "value": bucket.key,
                "highlighted": highlighted_value(bucket.key, typed, style),
                "count": bucket.doc_count,
            }
            for bucket in page.facet.buckets
            if bucket.doc_count
        ],
        "exhaustive": {"facetsCount": True},
        "exhaustiveFacetsCount": True,
        "processingTimeMS": total_us // 1000,
    }


def highlighted_value(value: str, typed: str, style: Style) -> str:
    """Return a facet's value with the beginnings of its words marked that were typed.

    Of a word that has been mistyped, the words nearby are marked, whole.
    """
    analyzer = _analyzers.own
    tokens = [
        one for one in analyzer.tokenize(value, is_indexing=True) if not is_spelling(one.text)
    ]
    found: list[tuple[int, int]] = []
    for word in analyzer.words(typed):
        begun = [one for one in tokens if one.text.startswith(word)]
        found += [(one.start, _end_of_beginning(value, one, word)) for one in begun]
        typos = 0 if begun else typo_budget(word)
        if typos:
            near = (one for one in tokens if min(edit_distances(word, one.text, typos)) <= typos)
            found += [(one.start, one.end) for one in near]
    pieces = []
    at = 0
    for start, end in _joined(found):
        pieces += [value[at:start], style.pre, value[start:end], style.post]
        at = end
    return "".join([*pieces, value[at:]])


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans in order; those that overlap or touch become one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def _end_of_beginning(value: str, token: Token, word: str) -> int:
    """Return where the part of a token ends that has a word, which it begins with."""
    end = token.start + 1
    while end < token.end and not _analyzers.own.fold(value[token.start : end]).startswith(word):
        end += 1
    while end < token.end and unicodedata.category(value[end])[0] == "M":
        end += 1
    return end


# --- hits -------------------------------------------------------------------------------------


def object_of(document: bytes, retrieved: Sequence[str] | None = None) -> dict[str, Any]:
    """Return a stored item in the form of Algolia's protocol."""
    item = orjson.loads(document)
    shown = Projection(retrieved, None).of_item(item)
    return {**shown, "objectID": object_id(item)}


def object_id(item: Mapping[str, Any]) -> str:
    """Return an item's id as text; of one without, a digest of its content.

    Pages tell hits apart by it, so it must differ; it finds no item.
    """
    id_ = item.get("id")
    if id_ is not None:
        return str(id_)
    return f"_{hashlib.blake2b(orjson.dumps(item), digest_size=12).hexdigest()}"


class _HitForm(NamedTuple):
    """The form of all hits of a response."""

    style: Style
    retrieved: Projection
    highlighted: Projection
    has_marks: bool
    """Whether items come with `_highlight`; otherwise that may be a field of their own."""
    has_snippets: bool
    """The same of `_snippet`."""
    shows_points: bool
    """Whether hits show their points as `_geoloc`, whatever field has them."""
    words: frozenset[str]
    """Of the query, folded, without excluded ones; a text that has all has the level "full"."""


def _form_of(search: SearchParameters, style: Style) -> _HitForm:
    marks = search.marks
    return _HitForm(
        style,
        Projection(style.retrieved, style.excluded or None),
        Projection(None if "*" in style.highlighted else style.highlighted, None),
        marks is not None and marks.highlight_fields is not None,
        marks is not None and bool(marks.snippet_fields),
        (style.retrieved is None or _POINTS in style.retrieved) and _POINTS not in style.excluded,
        frozenset(wanted_words(search.query, _analyzers.own)),
    )


def _hit(document: bytes, form: _HitForm) -> dict[str, Any]:
    """Return the hit of an item, which a search returns with its marks."""
    item, style, words = orjson.loads(document), form.style, form.words
    marks = item.pop("_highlight", {}) if form.has_marks else {}
    snippets = item.pop("_snippet", {}) if form.has_snippets else {}
    result = {**form.retrieved.of_item(item), "objectID": object_id(item)}
    points = None if style.geo_field is None else item.get(style.geo_field)
    if isinstance(points, dict | list) and form.shows_points:
        result.setdefault(_POINTS, points)  # map widgets look for points there only
    if style.highlighted:
        marked = {
            path: iter(texts if isinstance(texts, list) else [texts])
            for path, texts in marks.items()
        }
        result["_highlightResult"] = {
            name: _highlighted(value, name, marked, style, words)
            for name, value in form.highlighted.of_item(item).items()
        }
    if style.has_snippets:
        result["_snippetResult"] = _snippets(item, snippets, style, words)
    return result


def _highlighted(
    value: Any, path: str, marked: Mapping[str, Iterator[str]], style: Style, words: frozenset[str]
) -> Any:
    """Return a value with each text in it replaced by its highlight result.

    Args:
        value: of the item.
        path: dotted path to the value.
        marked: the remaining marked texts by path, in the order of the item.
        style: tags.
        words: of the query.
    """
    if isinstance(value, list):
        elements = [_highlighted(one, path, marked, style, words) for one in value]
        return [one for one in elements if _matches(one)] if style.restricts_arrays else elements
    if isinstance(value, dict):
        return {
            name: _highlighted(one, f"{path}.{name}", marked, style, words)
            for name, one in value.items()
        }
    if isinstance(value, str):
        while path and path not in marked:  # a whole object may have been named
            path = path.rpartition(".")[0]
        text = next(marked[path], None) if path else None
        return _mark(value, style, frozenset()) if text is None else _marked(text, style, words)
    return _mark("" if value is None else orjson.dumps(value).decode(), style, frozenset())


def _matches(tree: Any) -> bool:
    if isinstance(tree, list):
        return any(map(_matches, tree))
    if "matchLevel" in tree and isinstance(tree["matchLevel"], str):
        return bool(tree["matchLevel"] != "none")
    return any(map(_matches, tree.values()))


def _marked(text: str, style: Style, words: frozenset[str]) -> dict[str, Any]:
    """Return the highlight result of a marked and escaped text."""
    return _mark(html.unescape(text), style, words)


def _mark(text: str, style: Style, words: frozenset[str]) -> dict[str, Any]:
    marked = list(dict.fromkeys(word.lower() for word in _MARKED.findall(text)))
    if not marked:
        return {"value": text, "matchLevel": "none", "matchedWords": []}
    return {
        "value": text.replace(PRE, style.pre).replace(POST, style.post),
        "matchLevel": "full" if _has_all(marked, words) else "partial",
        "fullyHighlighted": _WHOLLY_MARKED.fullmatch(text) is not None,
        "matchedWords": marked,
    }


def _has_all(marked: Sequence[str], words: frozenset[str]) -> bool:
    """Return whether marked words stand for all words of a query.

    A marked word stands for those that it begins with, one after the other: it may be a longer form
    of one, or several written together. Any other, such as a synonym, stands for one.
    """
    found: set[str] = set()
    num_others = 0
    for one in marked:
        rest = _folded(one)
        begins = [word for word in words if rest.startswith(word)]
        num_others += not begins
        while begins:
            longest = max(begins, key=len)
            found.add(longest)
            rest = rest[len(longest) :]
            begins = [word for word in words if rest.startswith(word)]
    return len(found) + num_others >= len(words)


@lru_cache(4_096)
def _folded(marked: str) -> str:
    """Return a marked word as words of a query are, folded; the hits of a page share most."""
    return "".join(wanted_words(marked, _analyzers.own))


def _snippets(
    item: Mapping[str, Any], snippets: Mapping[str, str], style: Style, words: frozenset[str]
) -> dict[str, Any]:
    """Return snippets in the shape of the item; for an array, its best element.

    Of an array of texts and objects, the texts have the snippet.
    """
    result: dict[str, Any] = {}
    for path, text in snippets.items():
        *parents, last = path.split(".")
        if any(parent in snippets for parent in accumulate(parents, "{}.{}".format)):
            continue
        node: dict[str, Any] = result
        value: Any = item
        for name in parents:
            node = node.setdefault(name, {})
            value = value.get(name) if isinstance(value, dict) else None
        value = value.get(last) if isinstance(value, dict) else None
        shown = _marked(text, style, words)
        shown = {name: shown[name] for name in ("value", "matchLevel")}
        node[last] = [shown] if isinstance(value, list) else shown
    return result
