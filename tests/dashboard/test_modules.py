"""The pure modules of the dashboard, run where they will run: in Chromium."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def run(modules: Any) -> Any:
    """Run `body` with a module's exports as `m` and an argument as `x`."""

    def run(module: str, body: str, argument: Any = None) -> Any:
        script = f"async (x) => {{ const m = await import('/dashboard/assets/{module}'); {body} }}"
        return modules.evaluate(script, argument)

    return run


def test_state_survives_the_url(run: Any) -> None:
    url = (
        "?q=a+%26+b&sort=x.y%3Adesc&page=3&per_page=50&view=json&explain=1&partial=1"
        "&is.f=1&is.f=%3D&not.f=2&range.f=1..2.5&join.f=any&at.f=4&find.f=q"
        "&range.g=-9007199254740993..18446744073709551615"
    )
    assert run("state.js", "return m.writeState(m.readState(x))", url) == url


@pytest.mark.parametrize(
    "url", ["", "?page=-1", "?page=x&per_page=", "?range.f=..", "?is.=1&at.f=0"]
)
def test_a_url_without_meaning_is_the_empty_state(run: Any, url: str) -> None:
    assert run("state.js", "return m.writeState(m.readState(x))", url) == ""


def test_a_new_choice_starts_again_at_first_pages(run: Any) -> None:
    """All but those of the facet itself, in which the user may be choosing on."""
    body = "return m.writeState(m.withNextMark(m.readState(x), 'f', 'new'))"

    assert run("state.js", body, "?page=3&at.f=4&at.g=5") == "?is.f=new&at.f=4"


@pytest.mark.parametrize(
    ("mark", "shown"),
    [(["a", "\ue000b\ue001"], ["a", "b*"]), (["\ue000b\ue001"], ["a", "b"])],
    ids=["each value is a text", "one is none"],
)
def test_marks_stand_at_the_values_that_they_are_of(run: Any, mark: Any, shown: Any) -> None:
    body = """
        return m.valueNodes(["a", "b"], x).map(
            (node) => node.textContent + (node.querySelector("mark") ? "*" : ""),
        );
    """

    assert run("components/item.js", body, mark) == shown


def test_request_says_what_differs_from_the_configuration(run: Any) -> None:
    body = """
        const schema = { textFields: ["name"], match: "auto", trees: [] };
        const facet = { field: "f", isConjunctive: true, size: 10 };
        return m.searchRequest(m.readState(x), schema, [facet]);
    """
    url = "?q=a&is.f=1&is.f=2&not.g=3&range.h=1..&join.f=any&sort=h:desc"
    request = run("state.js", body, url)

    assert request == {
        "query": "a",
        "page": 1,
        "per_page": 20,
        "filters": {"f": {"any": ["1", "2"]}, "h": {"gte": 1}},
        "not_filters": {"g": ["3"]},
        "facet_fields": ["f"],
        "facets": {"f": {"size": 12, "conjunction": False}},
        "match": "auto",
        "sort_field": "h",
        "order": "desc",
        "highlight": {"fields": ["name"], "pre": "\ue000", "post": "\ue001"},
    }


@pytest.mark.parametrize(
    ("name", "title"),
    [("country_languages", "Country languages"), ("", '""'), ("__", "__"), (" ", " "), ("ß", "SS")],
)
def test_any_field_has_a_title(run: Any, name: str, title: str) -> None:
    """Also the field of an empty name, which JSON allows."""
    assert run("format.js", "return m.fieldTitle(x)", name) == title


def test_indent_json_changes_only_white_space(run: Any) -> None:
    text = '{"id":9223372036854775807,"a":[],"b":{},"c":[1,{"d":"x, {y}: \\"z\\""}],"e":1.0}'
    indented = run("format.js", "return m.indentJson(x)", text)

    assert indented.startswith('{\n  "id": 9223372036854775807,\n  "a": [],\n  "b": {},')
    assert "".join(line.strip() for line in indented.split("\n")).replace('": ', '":') == text


@pytest.mark.parametrize(
    ("kind", "stats", "first", "last"),
    [
        ("linear", {"min": 1920, "max": 2023, "isWhole": True}, 1920, 2025),
        ("linear", {"min": 0, "max": 1, "isWhole": False}, 0, 1.05),
        ("linear", {"min": 0, "max": 1, "isWhole": True}, 0, 2),
        ("linear", {"min": -10.5, "max": 10, "isWhole": False}, -11, 11),
        ("linear", {"min": 7, "max": 7, "isWhole": True}, 7, 8),
        ("log", {"min": 500, "max": 24_874_500}, 500, 30_000_000),
        ("log", {"min": 0, "max": 500}, 0, 700),
    ],
)
def test_number_bins(run: Any, kind: str, stats: Any, first: float, last: float) -> None:
    bins = run("bins.js", f"return m.{kind}Bins(x)", stats)

    assert bins[0]["from"] == first
    assert bins[-1]["to"] == pytest.approx(last)
    assert bins[0]["from"] <= stats["min"]
    assert bins[-1]["to"] > stats["max"]
    assert 1 <= len(bins) <= 52
    assert all(bins[n]["to"] == bins[n + 1]["from"] for n in range(len(bins) - 1))
    assert all(one["from"] < one["to"] for one in bins)


@pytest.mark.parametrize(
    ("ends", "counts", "is_long"),
    [
        ([0, 1000], [60, 10, 5, 5], True),
        ([0, 1000], [20, 20, 30, 30], False),
        ([0, 50], [60, 10, 5, 5], False),
        ([-1, 1000], [60, 10, 5, 5], False),
        ([0, 1000], [0, 0, 0], False),
    ],
)
def test_a_long_tail_asks_for_a_log_axis(run: Any, ends: Any, counts: Any, is_long: bool) -> None:
    body = "return m.hasLongTail({ min: x[0][0], max: x[0][1] }, x[1])"

    assert run("bins.js", body, [ends, counts]) is is_long


@pytest.mark.parametrize(
    ("low", "high", "first"),
    [
        ("2024-02-28", "2024-03-02", {"from": "2024-02-28", "to": "2024-02-29"}),
        ("1999-12-31", "2001-06-01", {"from": "1999-12-01", "to": "2000-01-01"}),
        ("0099-05-05", "2020-01-01T10:00:00Z", {"from": "0050-01-01", "to": "0100-01-01"}),
    ],
)
def test_date_bins(run: Any, low: str, high: str, first: Any) -> None:
    bins = run("bins.js", "return m.dateBins(x[0], x[1])", [low, high])

    assert bins[0] == first
    assert bins[-1]["to"] > high[:10]
    assert len(bins) <= 41


def test_page_numbers(run: Any) -> None:
    numbers = "return [[1, 1], [1, 3], [5, 9], [99, 99]].map((x) => m.pageNumbers(...x))"
    assert run("components/pager.js", numbers) == [
        [1],
        [1, 2, 3],
        [1, None, 4, 5, 6, None, 9],
        [1, None, 98, 99],
    ]


def test_latest_drops_what_was_overtaken(run: Any) -> None:
    body = """
        const latest = new m.Latest();
        const after = (ms, value) => () => new Promise((done) => setTimeout(done, ms, value));
        const answers = await Promise.all([latest.run(after(60, 1)), latest.run(after(5, 2))]);
        return answers.map((answer) => (answer === m.STALE ? "stale" : answer));
    """
    assert run("api.js", body) == ["stale", 2]


def test_whole_numbers_of_many_digits_have_bins_of_their_own(run: Any) -> None:
    """Microseconds of one moment: rounded to twelve digits, all edges would be the same."""
    low = 1_700_000_000_123_401
    bins = run("bins.js", "return m.linearBins(x)", {"min": low, "max": low + 30, "isWhole": True})

    assert [one["from"] for one in bins] == list(range(low, low + 31))


def test_dates_end_with_the_year_9999(run: Any) -> None:
    bins = run("bins.js", "return m.dateBins(x[0], x[1])", ["9990-05-01", "9999-12-31"])

    edges = [one["from"] for one in bins] + [bins[-1]["to"]]
    assert edges == sorted(edges)
    assert edges[-1] > "9999-12-31"
    body = "return [m.shiftDay('9999-12-31', 1), m.shiftDay(m.shiftDay('9999-12-31', 1), -1)]"
    assert run("bins.js", body) == [edges[-1], "9999-12-31"]


def test_a_field_may_be_called_like_what_every_object_has(run: Any) -> None:
    body = "return m.choiceOf(m.EMPTY_STATE, 'constructor').selected"

    assert run("state.js", body) == []


@pytest.mark.parametrize("dots", [".", ".."])
def test_no_path_is_made_of_dots(run: Any, dots: str) -> None:
    """`DELETE /films/items/..` would remove the index: a browser resolves it before it sends it."""
    body = "try { return m.indexPath('films', 'items', x); } catch (error) { return error.code; }"

    assert run("api.js", body, dots) == "unusable_address"
