"""Algolia's parameters that are ignored, and those and settings that cannot be honoured (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from common.errors import InvalidRequest
from common.nearest_name import did_you_mean
from coordinator.algolia.parameter_errors import UNHONOURED, wrong
from coordinator.algolia.parameter_readers import plain
from coordinator.algolia.parameter_table import BY_NAME

IGNORED: Final = frozenset(
    (
        *("analytics", "analyticsTags", "clickAnalytics", "userToken", "percentileComputation"),
        "enableABTest",
    )
)
"""Parameters for analytics by Algolia."""

_NO: Final = (False,)
_EMPTY: Final[tuple[Any, ...]] = ("", [])
UNSUPPORTED: Final[Mapping[str, tuple[tuple[Any, ...], str]]] = {
    "similarQuery": (("",), "POST /{index}/search with similar_to finds what is like an item"),
    "optionalFilters": (_EMPTY, "filters do not change the order of hits"),
    "sumOrFiltersScores": (_NO, "filters have no scores"),
    "aroundLatLngViaIP": (_NO, "addresses are not looked up; send aroundLatLng"),
    "aroundPrecision": ((), "distances are compared exactly"),
    "minimumAroundRadius": ((), "there is no automatic radius; send aroundRadius"),
    "naturalLanguages": (_EMPTY, "languages are a matter of the index's configuration"),
    "ruleContexts": (_EMPTY, "rules have no contexts; they hold for a query, filters or a period"),
    "enablePersonalization": (_NO, "there is no personalization"),
    "personalizationImpact": ((), "there is no personalization"),
    "enableReRanking": ((True, False), "there is no re-ranking"),
    "reRankingApplyFilter": (_EMPTY, "there is no re-ranking"),
    "getRankingInfo": (_NO, "ask POST /{index}/search with show=score_details"),
    "ranking": ((), "ranking is a matter of the index's configuration (boost, rules)"),
    "customRanking": ((), "ranking is a matter of the index's configuration (boost, rules)"),
    "relevancyStrictness": ((100,), "no hit is left out for its rank"),
    "minWordSizefor1Typo": ((), "typo_lengths in the index's configuration has it"),
    "minWordSizefor2Typos": ((), "typo_lengths in the index's configuration has it"),
    "allowTyposOnNumericTokens": (_NO, "digits are never mistyped"),
    "disableTypoToleranceOnAttributes": (
        _EMPTY,
        "field_typo_lengths in the index's configuration has it",
    ),
    "disableExactOnAttributes": (_EMPTY, "exact words count more in all fields"),
    "exactOnSingleWordQuery": ((), "exact words count more in all fields"),
    "alternativesAsExact": ((), "exact words count more in all fields"),
    "advancedSyntaxFeatures": (
        (["exactPhrase", "excludeWords"], ["excludeWords", "exactPhrase"]),
        "phrases and exclusions go together",
    ),
    "decompoundQuery": ((True, False), "compounds are not split"),
    "mode": (("keywordSearch",), "there is no search by vectors"),
    "semanticSearch": ((), "there is no search by vectors"),
    "replaceSynonymsInHighlight": (_NO, "texts are shown as they are"),
    "minProximity": ((1,), "proximity is configured per index"),
    "attributeCriteriaComputedByMinProximity": (_NO, "ranking has no criteria"),
    "attributeCriteriaComputedBy": ((), "ranking has no criteria"),
    "explain": (_EMPTY, "ask POST /{index}/search with show=score_details"),
    # settings of an index
    "unretrievableAttributes": (_EMPTY, "keys do not hide fields; leave them out of the objects"),
    "paginationLimitedTo": ((), "every page of hits can be asked for"),
    "maxFacetHits": ((), "it is a parameter of searches for facet values alone"),
    "disableTypoToleranceOnWords": (_EMPTY, "typos are a matter of fields and lengths"),
    "disablePrefixOnAttributes": (_EMPTY, "words may be half typed in all fields or in none"),
    "separatorsToIndex": (("",), "which characters belong to words is fixed"),
    "keepDiacriticsOnCharacters": (("",), "words match with and without accents"),
    "customNormalization": (({},), "letters are folded by fixed rules"),
    "attributesToTransliterate": (_EMPTY, "texts are searched in their own script"),
    "camelCaseAttributes": (_EMPTY, "texts are divided into words alike in all fields"),
    "decompoundedAttributes": (({},), "compounds are not split"),
    "allowCompressionOfIntegerArray": ((True, False), "numbers are stored as they are"),
    "attributesToIndex": ((), "its name is searchableAttributes"),
}
"""By parameter: the values that ask for what happens anyway, and why no others are supported."""


def is_known(name: str) -> bool:
    """Return whether there is such a parameter, which may be one that cannot be honoured."""
    return name in BY_NAME or name in UNSUPPORTED or name in IGNORED


def check_unsupported(name: str, value: Any) -> None:
    """Reject parameters that cannot be honoured or do not exist.

    Raises:
        InvalidRequest: code unsupported_parameter or unknown_parameter.
    """
    unsupported = UNSUPPORTED.get(name)
    if unsupported is None:
        near = did_you_mean(name[:100], [*BY_NAME, *UNSUPPORTED], 0.5)
        hint = near or f"; known are {', '.join(BY_NAME)}"
        raise InvalidRequest(
            f"unknown parameter {name[:100]!r}{hint}",
            code="unknown_parameter",
            param=name[:100],
        )
    neutral, reason = unsupported
    given = plain(value)
    if not any(
        given == one and isinstance(given, bool) == isinstance(one, bool) for one in neutral
    ):
        raise wrong(name, f"cannot be honoured: {reason}", UNHONOURED)
