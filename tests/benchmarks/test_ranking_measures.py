"""The measures of ranking, by hand and against trec_eval."""

from __future__ import annotations

import importlib
import math

import numpy as np
import pytest

from benchmarks.ranking_measures import (
    average_precision,
    evaluate,
    ndcg_at_10,
    precision_at_10,
    recall_at_1,
    recall_at_100,
    reciprocal_rank,
)

GRADES = {"a": 3, "b": 1, "c": 0, "d": 2}


def test_ndcg_compares_with_the_ideal_order() -> None:
    ideal = 3 + 2 / math.log2(3) + 1 / 2
    found = 1 + 3 / 2
    assert ndcg_at_10(["b", "x", "a"], GRADES) == pytest.approx(found / ideal)
    assert ndcg_at_10(["a", "d", "b"], GRADES) == pytest.approx(1)
    assert ndcg_at_10([], GRADES) == 0


def test_average_precision_counts_what_was_not_found() -> None:
    assert average_precision(["x", "a", "b"], GRADES) == pytest.approx((1 / 2 + 2 / 3) / 3)


def test_precision_divides_by_ten_even_if_fewer_were_found() -> None:
    assert precision_at_10(["a", "c"], GRADES) == pytest.approx(0.1)


def test_reciprocal_rank_is_that_of_the_first_relevant_item() -> None:
    assert reciprocal_rank(["c", "x", "d"], GRADES) == pytest.approx(1 / 3)
    assert reciprocal_rank(["c"], GRADES) == 0


def test_recall_is_of_all_relevant_items() -> None:
    assert recall_at_100(["a", *map(str, range(99)), "b"], GRADES) == pytest.approx(1 / 3)
    assert recall_at_1(["a", "b"], GRADES) == pytest.approx(1 / 3)


def test_queries_without_results_or_relevant_items_count_as_zero() -> None:
    judgments: dict[str, dict[str, int]] = {"1": {"a": 1}, "2": {"a": 1}, "3": {"a": 0}, "4": {}}
    measures = evaluate({"1": ["a"], "3": ["a"], "4": ["a"], "5": ["a"]}, judgments)
    assert measures["map"] == measures["ndcg@10"] == measures["recall@1"] == 0.25


def test_agrees_with_trec_eval() -> None:
    try:
        pytrec_eval = importlib.import_module("pytrec_eval")
    except ImportError:
        pytest.skip("pytrec_eval is not installed")
    rng = np.random.default_rng(1)
    items = [f"i{n}" for n in range(300)]
    judgments, runs = {}, {}
    for query in map(str, range(20)):
        judged = rng.choice(items, 30, replace=False).tolist()
        judgments[query] = {item: int(rng.integers(0, 4)) for item in judged}
        runs[query] = rng.permutation(items)[: int(rng.integers(1, 300))].tolist()
    names = {"ndcg_cut_10": "ndcg@10", "map": "map", "P_10": "p@10", "recip_rank": "mrr"}
    names["recall_100"] = "recall@100"
    scored = {q: {item: 1_000.0 - r for r, item in enumerate(run)} for q, run in runs.items()}
    theirs = pytrec_eval.RelevanceEvaluator(judgments, set(names)).evaluate(scored)
    ours = evaluate(runs, judgments)
    for their_name, our_name in names.items():
        mean = sum(measures[their_name] for measures in theirs.values()) / len(judgments)
        assert ours[our_name] == pytest.approx(mean)
