"""Hits and facets as the command line prints them."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.cli.search_output import HIGHLIGHT_MARKS, print_answer


def answer_of(counts: list[int], **facet: Any) -> dict[str, Any]:
    buckets = [{"key": str(10 + i / 2), "doc_count": count} for i, count in enumerate(counts)]
    return {
        "pagination": {"total": sum(counts), "page": 1, "per_page": 0},
        "data": {
            "items": [],
            "aggregations": {"price": {"title": "P", "buckets": buckets, **facet}},
        },
        "meta": {"took_us": 900},
    }


STATISTICS = {"facet_stats": {"min": 10, "max": 899.5, "avg": 1.0, "sum": 1.0, "count": 9}}


def test_numbers_that_do_not_repeat_are_a_range(capsys: pytest.CaptureFixture[str]) -> None:
    print_answer(answer_of([1] * 9, **STATISTICS))
    shown = capsys.readouterr().out
    assert "P\n10 to 899.5\n" in shown
    assert "█" not in shown


@pytest.mark.parametrize(
    ("counts", "facet"), [([2, 1, 1, 1, 1], STATISTICS), ([1] * 9, {}), ([1, 1], STATISTICS)]
)
def test_other_values_have_bars(
    capsys: pytest.CaptureFixture[str], counts: list[int], facet: dict[str, Any]
) -> None:
    print_answer(answer_of(counts, **facet))
    shown = capsys.readouterr().out
    assert shown.count("█") >= len(counts)
    assert " to " not in shown


def test_a_hit_is_not_wrapped_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    answer = answer_of([])
    values = {f"field{n}": "x" * 50 for n in range(8)}
    answer["data"]["items"] = [{"id": 1, "title": "Sea", **values}]
    answer["pagination"] = {"total": 1, "page": 1, "per_page": 20}
    print_answer(answer)
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "field0" in line)
    assert all(f"field{n} {'x' * 50}" in line for n in range(8))


def test_a_field_with_the_name_of_marks_is_no_marks(capsys: pytest.CaptureFixture[str]) -> None:
    answer = answer_of([])
    answer["data"]["items"] = [{"id": 1, "title": "Sea", "_highlight": "own"}]
    print_answer(answer)
    assert "Sea" in capsys.readouterr().out


def test_marked_texts_are_shown_as_they_were_written(capsys: pytest.CaptureFixture[str]) -> None:
    """The service escapes what it marks, for pages."""
    answer = answer_of([])
    before, after = HIGHLIGHT_MARKS
    title, notes = 'Lamp "Sun" & <b>', ["it's &amp;", "b"]
    marked = {
        "title": f"{before}Lamp{after} &quot;Sun&quot; &amp; &lt;b&gt;",
        "notes": [f"{before}it&#x27;s{after} &amp;amp;", "b"],
    }
    answer["data"]["items"] = [{"id": 1, "title": title, "notes": notes, "_highlight": marked}]
    print_answer(answer)
    shown = capsys.readouterr().out
    assert title in shown
    assert "notes it's &amp;, b" in shown
