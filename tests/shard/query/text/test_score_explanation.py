"""The parts of a hit's score name what each word and phrase contributes."""

from __future__ import annotations

from common.analysis.field_classes import FieldClasses
from common.protocol.messages import FieldWeight, ScoredClause, TextQuery
from common.query_syntax_tree import NUM_MATCH_KINDS, Phrase
from shard.query.text.prepared_query import PreparedQuery
from shard.query.text.score_explanation import explain_score
from shard.query.text.text_search import match_text
from shard.segment.field_registry import FieldRegistry
from shard.segment.snapshot import SegmentView
from tests.shard.text_model import make_segment, scores_of


def test_a_phrase_is_explained_by_its_occurrences_in_each_field() -> None:
    registry = FieldRegistry()
    segment = make_segment(
        [{"title": "the green mile", "text": "green mile after green mile"}, {"text": "a mile"}],
        registry,
    )
    weights = (2.0, *[0.0] * (NUM_MATCH_KINDS - 1))
    clause = ScoredClause(Phrase(("green", "mile")), (weights, weights))
    fields = (FieldWeight("title", 3.0, 3.0), FieldWeight("text", 1.0, 4.0))
    query = TextQuery((clause,), 1, False, (), fields, 0.9, 0.6, 0.2)
    view = SegmentView(segment)
    prepared = PreparedQuery(query, registry, FieldClasses())

    explanation = explain_score(view, prepared, 0)

    assert explanation is not None
    (part,) = explanation["parts"]
    assert [part["kind"], part["term"]] == ["phrase", "green mile"]
    assert [
        (one["term"], one["match"], one["field"], one["frequency"], one["length"])
        for one in part["occurrences"]
    ] == [("green mile", "phrase", "text", 2, 5), ("green mile", "phrase", "title", 1, 3)]
    assert explanation["score"] == scores_of(match_text(view, prepared, None, None))[0]
