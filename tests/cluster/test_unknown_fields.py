"""Fields that no item has: warnings of configurations, and errors or warnings of requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from common.nearest_name import GUESSES_MAX
from tests.cluster.conftest import FILMS, Index, error_of, on_three_shards
from tests.service import Client, Reply

pytestmark = on_three_shards

BOOST = {"boost": {"ratng": {"log": 1}}}
RULES = {"rules": [{"bury": ["yaer < 1995"]}]}


def changed(client: Client, method: str, path: str, document: Any) -> Reply:
    body = json.dumps(document).encode()
    return client.request(method, path, body, {"content-type": "application/json"})


@pytest.mark.parametrize(
    ("document", "path", "meant"),
    [
        (BOOST, "boost.ratng", "rating"),
        (RULES, "rules[0]", "year"),
        ({"display": {"title": "nmae"}}, "display.title", "name"),
        ({"infix": ["nmae"]}, "infix[0]", "name"),
        ({"algolia": {"attributeForDistinct": "tagss"}}, "algolia.attributeForDistinct", "tags"),
    ],
)
def test_every_route_names_it(films: Index, document: Any, path: str, meant: str) -> None:
    before = films.get("configuration").json
    address = f"{films.path}/configuration"
    for method in ("POST", "PUT", "PATCH"):
        for question in ("?preview=true", ""):
            reply = changed(films.client, method, address + question, document)
            assert reply.status == 200
            (warning,) = (one for one in reply.json["warnings"] if one.startswith(f"{path} names "))
            assert warning.endswith(f", which no item has; did you mean {meant}?")
    restored = films.client.post(address, before).json["warnings"]
    assert not any("which no item has" in one for one in restored)


@pytest.mark.parametrize(
    ("boost", "message"),
    [
        ({"ratng": {"log": 1}}, "no item has a number to boost by in 'ratng'; fields with numbers"),
        ({"name": {"linear": 1}}, "no item has a number to boost by in 'name'; fields with numbe"),
        ({"born": {"decay": "9d"}}, "no item has a date or number to boost by in 'born'; fields w"),
    ],
)
def test_the_boost_of_a_search_names_a_field_with_numbers(
    films: Index, boost: Any, message: str
) -> None:
    error = error_of(films.post("search", {"boost": boost}))
    assert (error["code"], error["param"]) == ("invalid_boost", f"boost.{next(iter(boost))}")
    assert error["message"].startswith(message)
    for fitting in ({"rating": {"log": 1}}, {"seen": {"linear": 1}}, {"name": {"decay": "9d"}}):
        assert films.search(boost=fitting)["pagination"]["total"] == 6


def test_fields_become_known_with_their_items(index: Index) -> None:
    # No items yet: nothing is known of fields.
    assert index.configure({**BOOST, "aggregations": {"tgas": {}}}).json["warnings"] == []
    index.put(FILMS)
    wanted = [
        "aggregations.tgas names 'tgas', which no item has; did you mean tags?",
        "boost.ratng names 'ratng', which no item has; did you mean rating?",
    ]
    path = f"{index.path}/configuration"
    for document in ({}, {"typo": 0}, {"boost": {"ratng": {"log": 2}}}):
        reply = changed(index.client, "PATCH", path, document)
        assert (reply.status, reply.json["warnings"]) == (200, wanted)
    index.put([{"id": 7, "ratng": 1, "tgas": "a"}])
    assert changed(index.client, "PATCH", path, {}).json["warnings"] == []
    # Without items again, nothing is known again.
    assert index.client.post(f"{index.path}/items/delete", {"filter": "id > 0"}).status == 200
    assert changed(index.client, "PATCH", path, {"boost": {"zzz": {"log": 2}}}).status == 200


def test_rules_ask_for_points_and_elements_that_the_index_has(client: Client) -> None:
    index = Index(client, "rules-of-places")
    near = {"hide": [9], "filter": "_geoRadius(48, 16, 2000)"}
    index.configure({"geo_fields": ["shop"], "rules": [near]})
    index.put(
        [
            {"id": 1, "shop": {"lat": 48, "lng": 16}, "sizes": [{"size": 1}]},
            {"id": 2, "shop": {"lat": 40, "lng": 16}, "_geo": {"lat": 48, "lng": 16}},
        ]
    )
    assert index.ids() == [1]
    assert index.ids(rules=[near]) == [1]
    for rule, message in (
        ({"bury": ["sizes{size > 1}"]}, "the nested fields of the configuration are none"),
        ({"filter": "_geoRadius(_geo, 48, 16, 2000)"}, "the geo_fields of the configuration are s"),
    ):
        error = error_of(index.configure({"geo_fields": ["shop"], "rules": [rule]}))
        assert (error["code"], error["param"]) == ("invalid_configuration", "rules[0]")
        assert message in error["message"]
        error = error_of(index.post("search", {"rules": [rule]}))
        assert (error["code"], error["param"]) == ("invalid_rules", "rules[0]")
        assert message in error["message"]
    index.client.delete(index.path)


@pytest.mark.parametrize(
    ("asked", "code", "param"),
    [
        ({"filters": {"raitng": [8]}}, "unknown_facet", "filters.raitng"),
        ({"filter": "NOT raitng = 8"}, "unknown_facet", "filter"),
        ({"sort": ["raitng:desc"]}, "unknown_sort_field", "sort"),
        ({"sort_field": "raitng"}, "unknown_sort_field", "sort_field"),
        ({"distinct": "raitng"}, "invalid_distinct", "distinct"),
        ({"boost": {"raitng": {"log": 1}}}, "invalid_boost", "boost.raitng"),
        ({"facets": {"raitng": {}}}, "unknown_facet", "facets.raitng"),
        ({"facets": {"tags": {"stats": ["raitng"]}}}, "invalid_facets", "facets.tags.stats"),
        ({"facets": {"name": {"stats": ["raitng"]}}}, "invalid_facets", "facets.name.stats"),
        ({"facet_ranges": {"raitng": {"interval": 1}}}, "invalid_facet_ranges",
         "facet_ranges.raitng"),
        ({"facet_cube": {"field": "raitng", "interval": 1}}, "invalid_facet_cube",
         "facet_cube.field"),
        ({"rules": [{"filter": "raitng > 1"}]}, "unknown_facet", "rules"),
    ],
)  # fmt: skip
def test_what_decides_the_hits_is_an_error_that_says_what_was_meant(
    films: Index, asked: Any, code: str, param: str
) -> None:
    for reply in (films.post("search", asked), films.get("search", **asked)):
        error = error_of(reply)
        assert (error["code"], error["param"]) == (code, param)
        assert error["message"].endswith("; did you mean rating?")
    error = error_of(films.client.post("/_search", {"searches": [{"index": films.name, **asked}]}))
    assert (error["code"], error["param"]) == (code, f"searches[0].{param}")


@pytest.mark.parametrize("key", ["-rating", "rating desc", "rating_DESC"])
def test_order_as_other_programs_write_it_is_answered_with_ours(films: Index, key: str) -> None:
    error = error_of(films.post("search", {"sort": [key]}))
    assert error["message"].endswith('; write "rating:desc"')


@pytest.mark.parametrize(
    ("key", "advice"), [("relevance:desc", '"_score:desc"'), ("random()", '"_random:42"')]
)
def test_an_order_that_is_no_field_is_named(films: Index, key: str, advice: str) -> None:
    error = error_of(films.post("search", {"sort": [key]}))
    assert f"; write {advice} for " in error["message"]
    films.search(sort=advice.strip('"'))


def test_an_order_by_points_is_answered_with_one_by_distance(films: Index) -> None:
    films.put([{"id": 8, "at": {"lat": 1, "lng": 2}}])
    for geo_fields, key, meant in (
        (["at"], "_geo(1,2):desc", '; write "at(1,2)"'),
        ([], "_geo(1,2)", ""),
    ):
        films.configure({"geo_fields": geo_fields})
        error = error_of(films.post("search", {"sort": key}))
        known = "fields with values are at.lat, at.lng, id, name, rating, seen, tags, year"
        assert error["message"].endswith(known + meant)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"sort": "at:desc"}, 'sort[0] names points, which have no order; write "at(48.2,16.4)"'),
        ({"sort_field": "at"}, "sort_field names points, which have no order; sort takes"),
        ({"distinct": "at"}, "distinct names points, which do not tell items apart"),
        ({"distinct": {"field": "at"}}, "distinct.field names points"),
        ({"facets": {"at": {}}}, "facets.at has points, which are counted by facet_ranges"),
        ({"facet_ranges": {"at": {"interval": 1}}}, "facet_ranges.at must be"),
        ({"boost": {"at": {"log": 1}}}, "boost.at has points"),
    ],
)
def test_points_are_no_values_whatever_else_items_have_there(
    films: Index, asked: Any, message: str
) -> None:
    """With `null` in the field of one item, some of these were let through."""
    films.configure({"geo_fields": ["at"]})
    for other in ({"lat": 1, "lng": 2}, None, "a text", 5):
        films.put([{"id": 8, "at": other}])
        assert error_of(films.post("search", asked))["message"].startswith(message)


def test_filters_find_that_a_point_or_an_object_exists(films: Index) -> None:
    films.configure({"geo_fields": ["at"]})
    films.put([{"id": 8, "at": {"lat": 1, "lng": 2}}, {"id": 9, "maker": {"name": "Ann"}}])
    for field, found in (("at", [8]), ("maker", [9])):
        assert films.ids(filters={field: {"exists": True}}) == found
        assert films.ids(filter=f"{field} EXISTS") == found
        assert len(films.ids(filters={field: {"exists": False}}, per_page=99)) == 7


def test_a_mistyped_index_is_answered_with_the_nearest(films: Index) -> None:
    near = f"{films.path}x"
    error = error_of(films.client.post(f"{near}/search", {}))
    meant = f"there is no index {near[1:]!r}; did you mean {films.name}?"
    assert error["message"].startswith(f"{meant} POST a configuration")
    assert error["fault"] == meant
    error = error_of(films.client.request("GET", "/collections"))
    assert error["message"] == "there is no index 'collections'; GET /_indexes lists the indexes"
    assert "POST a configuration" in error_of(films.client.get("/zzzzzz/search"))["message"]


def test_some_field_to_search_must_be_known(films: Index) -> None:
    message = "no item has a value in 'nmae'; fields with texts are name, tags; did you mean name?"
    for text in ({"query": "green"}, {"query": ""}, {"similar_to": 1}):
        asked: dict[str, Any] = {**text, "search_fields": ["nmae^3"]}
        for reply in (films.post("search", asked), films.get("search", **asked)):
            error = error_of(reply)
            assert (error["code"], error["param"]) == ("invalid_search_fields", "search_fields")
            assert error["message"] == message
    facet = {"name": "tags", "search_query": "green", "search_fields": ["nmae"]}
    assert error_of(films.post("facet", facet))["message"] == message
    assert films.ids(query="green", search_fields=["name", "tags"]) == [1]
    assert films.ids(query="green", search_fields=["year"]) == []


def test_numbers_are_not_searched_and_that_is_said(films: Index) -> None:
    """A search of titles and years finds nothing by the year."""
    begins = "search_fields names 'year', in which no item has a text; only texts are searched"
    for asked in ({"query": "green"}, {"query": "1995"}):
        (warning,) = films.search(**asked, search_fields=["name", "year^2"])["meta"]["warnings"]
        assert warning.startswith(begins)
    preview = f"{films.path}/configuration?preview=true"
    document = {"searchable_fields": ["name", "year"]}
    (warning,) = changed(films.client, "PATCH", preview, document).json["warnings"]
    named = "searchable_fields[1] names 'year', in which no item has a text; only texts are"
    assert warning.startswith(named)


NAMED: list[tuple[Any, str]] = [
    ({"query": "green", "search_fields": ["nmae", "name^2"]}, "search_fields names 'nmae'"),
    ({"not_filters": {"nmae": ["x"], "tags": ["nobody"]}}, "not_filters.nmae names 'nmae'"),
    ({"filter": "nmae NOT EXISTS"}, "filter names 'nmae'"),
    ({"filter": "id > 0 AND NOT (nmae IS NULL OR nmae EXISTS)"}, "filter names 'nmae'"),
    ({"filter": "nmae IS NOT EMPTY OR id > 0"}, "filter names 'nmae'"),
    ({"filters": {"nmae": {"exists": False}}}, "filters.nmae names 'nmae'"),
    ({"fields": ["nmae", "id", "_score"]}, "fields names 'nmae'"),
    ({"exclude_fields": ["nmae"]}, "exclude_fields names 'nmae'"),
    ({"query": "green", "highlight": {"fields": ["nmae", "tags"]}}, "highlight names 'nmae'"),
    ({"query": "green", "snippet": ["nmae:5", "name:5"]}, "snippet names 'nmae'"),
    (
        {"rules": [{"pin": [1]}, {"when": {"filters": {"nmae": "a", "id": 1}}, "hide": [2]}]},
        "rules[1].when.filters.nmae names 'nmae'",
    ),
]


@pytest.mark.parametrize(("asked", "begins"), NAMED)
def test_what_only_shows_hits_is_a_warning(films: Index, asked: Any, begins: str) -> None:
    wanted = [f"{begins}, in which no item has a value; did you mean name?"]
    answer = films.search(**asked)
    assert answer["meta"]["warnings"] == wanted
    assert answer["pagination"]["total"] == (1 if "query" in asked else 6)
    assert films.get("search", **asked).json["meta"]["warnings"] == wanted
    searches = {"searches": [{"index": films.name, **asked}]}
    (result,) = films.client.post("/_search", searches).json["results"]
    assert result["meta"]["warnings"] == wanted
    merged = films.client.post("/_search", {**searches, "merge": True}).json
    assert merged["meta"]["searches"][0]["warnings"] == wanted


def test_known_fields_and_whole_items_are_no_warning(films: Index) -> None:
    films.put([{"id": 8, "studio": {"name": "A24", "city": None}, "grid": [["a"]]}])
    for asked in (
        {"fields": ["studio", "studio.name", "id", "grid", "seen"], "highlight": True},
        {"query": "a24", "search_fields": ["studio"], "snippet": True},
        {"query": "a", "search_fields": ["grid"], "exclude_fields": ["studio.name"]},
        {"facet_fields": ["tags", "born"], "facets": {"name": {}, "rating": {}}},
    ):
        warnings = films.search(**asked)["meta"].get("warnings", [])
        listed = "the facets are seen, tags, year, name, rating"
        said = f"facet_fields names 'born', which is not a facet; {listed}"
        assert warnings == [said] * ("tags" in str(asked))
    warnings = films.search(facet_fields=["tgas", "year"])["meta"]["warnings"]
    assert warnings == ["facet_fields names 'tgas', which is not a facet; did you mean tags?"]


def test_a_pattern_that_no_value_of_a_facet_has_says_what_a_text_is(films: Index) -> None:
    def warnings(**asked: str) -> list[str]:
        meta = films.get("facet", name="tags", **asked).json["meta"]
        return list(meta.get("warnings", []))

    (said,) = warnings(query="godfather")
    assert said.startswith("no value is 'godfather': here, query is a pattern of whole values")
    assert "search_query is a text of the items" in said
    assert not warnings(query="godfather*")
    assert not warnings(query="Drama")
    assert not warnings(facet_query="godfather")


@pytest.mark.parametrize(
    ("asked", "compared"),
    [
        ({"filter": "rating > abc"}, "'rating' with the text 'abc', but items have only numbers"),
        ({"filter": "tags = a OR year > abc"}, "'year' with the text 'abc', but items have only n"),
        ({"filter": "NOT name < 5"}, "'name' with the number '5', but items have only texts"),
        ({"filters": {"name": {"lte": 2.5}}}, "'name' with the number '2.5', but items have only "),
        ({"filters": {"tags": {"lt": 1}}}, "'tags' with the number '1', but items have only texts"),
        ({"not_filters": {"rating": {"gt": "x"}}}, "'rating' with the text 'x', but items have on"),
        ({"filter": 'name != ""'}, "'name' with \"\", which equals no value; IS EMPTY finds em"),
        ({"filter": "tags = a OR name IN ['', b]"}, "'name' with \"\", which equals no value"),
        ({"filters": {"name": ["a", ""]}}, "'name' with \"\", which equals no value"),
        ({"filters": {"tags": {"none": ""}}}, "'tags' with \"\", which equals no value"),
        ({"not_filters": {"tags": [""]}}, "'tags' with \"\", which equals no value"),
    ],
)
def test_comparisons_that_no_item_can_meet_are_a_warning(
    films: Index, asked: Any, compared: str
) -> None:
    (warning,) = films.search(**asked)["meta"]["warnings"]
    assert warning.startswith(f"a condition compares {compared}")
    error = error_of(films.post("items/delete", asked))
    assert (error["status"], error["message"]) == (400, warning)
    assert films.search(per_page=0)["meta"].get("warnings") is None


def test_areas_and_distances_without_any_point_are_a_warning(films: Index) -> None:
    """Degrees that are texts make no point, and nothing said so."""
    films.put([{"id": 8, "_geo": {"lat": "48.2", "lng": "16.4"}}])
    wanted = "no item has a point in '_geo'; a point is an object of two numbers, such as "
    area = {"filter": "NOT _geoRadius(48, 16, 2000)"}
    radius = {"_geo": {"radius": {"lat": 48, "lng": 16, "metres": 1}}}
    for asked in (
        area,
        {"filters": radius},
        {"sort": ["_geo(48,16)"]},
        {"facet_ranges": {"_geo": {"grid": 3}}},
        {"query": "green", "boost": {"_geo": {"decay": 100, "origin": {"lat": 1, "lng": 2}}}},
    ):
        (warning,) = films.search(**asked)["meta"]["warnings"]
        assert warning.startswith(wanted)
    error = error_of(films.post("items/delete", area))
    assert (error["code"], error["message"].startswith(wanted)) == ("invalid_filters", True)
    assert films.get("items", sort="_geo(48,16)").status == 200
    films.put([{"id": 8, "_geo": [{"lat": 48.2, "lng": 16}]}])
    assert films.search(**area)["meta"].get("warnings") is None
    assert films.post("items/delete", area).status == 200


def test_comparisons_with_what_items_have_are_no_warning(films: Index) -> None:
    for expression in ("year > 1990", "year 1 TO 2", "name > b", 'name > "5"', "NOT year < 5"):
        assert "warnings" not in films.search(filter=expression)["meta"]


def test_a_star_stands_for_all_fields(films: Index) -> None:
    whole = films.search()["data"]["items"]
    for fields in (["*"], ["id", "*"], "*"):
        answer = films.search(fields=fields)
        assert answer["data"]["items"] == whole
        assert "warnings" not in answer["meta"]
    assert films.get("search", fields="*").json["data"]["items"] == whole
    without = films.search(fields=["*"], exclude_fields=["tags"])["data"]["items"]
    assert without == [{n: one for n, one in item.items() if n != "tags"} for item in whole]
    for excluded in ({"exclude_fields": ["id", "*"]}, {"fields": ["id"], "exclude_fields": "*"}):
        nothing = films.search(**excluded)
        assert nothing["data"]["items"] == [{}] * len(whole)
        assert "warnings" not in nothing["meta"]


def test_a_star_among_facet_fields_stands_for_all_facets(films: Index) -> None:
    everything = films.search(per_page=0)
    assert everything["data"]["aggregations"]
    for facet_fields in (["*"], ["tags", "*"], "*"):
        asked = films.search(per_page=0, facet_fields=facet_fields)
        assert asked["data"]["aggregations"] == everything["data"]["aggregations"]
        assert asked["meta"].get("warnings") is None
    assert films.get("search", facet_fields="*", per_page=0).json["data"] == everything["data"]


def test_a_star_among_search_fields_stands_for_all_others(films: Index) -> None:
    asked: dict[str, Any] = {"query": "green", "show": ["score"], "per_page": 9}
    expected = films.search(**asked)
    for fields in ("*", ["*"], ["*", "name^1"]):
        answer = films.search(**asked, search_fields=fields)
        assert answer["data"] == expected["data"]
        assert "warnings" not in answer["meta"]
    weighted = films.search(**asked, search_fields=["*", "name^9"])
    assert weighted["data"] == films.search(**asked, search_fields=["name^9", "*"])["data"]
    assert weighted["pagination"] == expected["pagination"]
    assert weighted["data"] != expected["data"]
    (warning,) = films.search(**asked, search_fields=["nmae", "*"])["meta"]["warnings"]
    assert warning.startswith("search_fields names 'nmae'")
    configured = {"searchable_fields": ["name^9", "*"]}
    assert (
        changed(films.client, "PATCH", f"{films.path}/configuration", configured).json["warnings"]
        == []
    )
    assert films.search(**asked)["data"] == weighted["data"]
    path = f"/1/indexes/{films.name}/query"
    reply = films.client.post(path, {"query": "green", "restrictSearchableAttributes": ["*"]})
    assert (reply.status, reply.json["nbHits"]) == (200, expected["pagination"]["total"])


def test_a_field_named_by_a_star_makes_no_others_known(films: Index) -> None:
    films.put([{"id": 9, "*": "Kept"}])
    assert films.ids(filter="'*' = Kept") == [9]
    assert error_of(films.post("search", {"search_fields": ["nmae"]}))["param"] == "search_fields"
    reply = films.post("items/delete", {"not_filters": {"stauts": ["keep"]}})
    assert error_of(reply)["param"] == "not_filters.stauts"
    preview = f"{films.path}/configuration?preview=true"
    assert changed(films.client, "PATCH", preview, BOOST).json["warnings"]


def test_an_empty_index_knows_no_fields(index: Index) -> None:
    index.configure({})
    for asked, _ in NAMED:
        assert "warnings" not in index.search(**asked)["meta"]
    assert index.ids(query="a", search_fields=["nmae"]) == []
    assert index.ids(not_filters={"nmae": ["a"]}) == []


def test_what_is_empty_or_null_everywhere_is_known(films: Index) -> None:
    films.configure({"nested": ["sizes"], "geo_fields": ["at"]})
    films.put([{"id": 8, "maker": {}, "sold": None, "labels": [], "notes": "", "grid": [[1]]}])
    for expression, found in (
        ("maker IS EMPTY", [8]), ("sold IS NULL", [8]), ("labels IS EMPTY", [8]),
        ("notes IS EMPTY", [8]), ("grid EXISTS", [8]), ("sizes EXISTS", []), ("at EXISTS", []),
    ):  # fmt: skip
        answer = films.search(filter=expression)
        assert [item["id"] for item in answer["data"]["items"]] == found, expression
        assert "warnings" not in answer["meta"]
    for expression in ("notes = a", "grid = 1"):  # exist, but have no value to compare
        assert error_of(films.post("search", {"filter": expression}))["code"] == "unknown_facet"
    (warning,) = films.search(filter="sizes{price EXISTS}")["meta"]["warnings"]
    assert warning == "filter names 'sizes.price', in which no item has a value"
    same = {"sizes": {"same": {"price": {"exists": True}}}}
    (warning,) = films.search(filters=same)["meta"]["warnings"]
    assert warning == "filters.sizes.same.price names 'sizes.price', in which no item has a value"


@pytest.mark.parametrize(
    ("chosen", "param"),
    [
        ({"not_filters": {"stauts": ["keep"]}}, "not_filters.stauts"),
        ({"filter": "stauts NOT EXISTS"}, "filter"),
        ({"filter": "NOT stauts IS NULL"}, "filter"),
        ({"filters": {"stauts": {"exists": False}}}, "filters.stauts"),
        ({"filter": "NOT stauts = keep"}, "filter"),
    ],
)
def test_a_change_is_not_wider_than_meant(films: Index, chosen: Any, param: str) -> None:
    for reply in (
        films.post("items/delete", chosen),
        films.post("items/update", {**chosen, "fields": {"seen": True}}),
        films.get("items", **chosen),
    ):
        error = error_of(reply)
        assert (error["code"], error["param"]) == ("unknown_facet", param)
    assert films.search(filters={"seen": [True]})["pagination"]["total"] == 1
    films.put([{"id": 9, "name": "Kept", "stauts": "keep"}])
    assert films.post("items/delete", chosen).status == 200
    assert 9 in films.ids() or "NULL" in str(chosen)
    assert 1 not in films.ids()


@pytest.mark.parametrize(
    "chosen",
    [
        {"filter": "status NOT EXISTS"},
        {"filter": "NOT status = kept"},
        {"filters": {"status": {"exists": False}}},
        {"not_filters": {"status": ["kept"]}},
    ],
)
def test_an_update_may_ask_for_the_fields_that_it_sets(films: Index, chosen: Any) -> None:
    """Also before any item has them, and though another field is called alike."""
    films.put([{"id": 9, "stauts": "x"}])
    update = {**chosen, "fields": {"status": "kept"}}
    for updated in (7, 0):
        reply = films.post("items/update", update)
        assert (reply.status, reply.json["updated"]) == (200, updated)
    assert len(films.ids(filter="status = kept")) == 7


def test_an_update_may_ask_for_what_is_inside_the_objects_that_it_sets(films: Index) -> None:
    update = {"filter": "maker.name NOT EXISTS", "fields": {"maker": {"name": "A24"}}}
    assert films.post("items/update", update).json["updated"] == 6
    error = error_of(films.post("items/update", {**update, "filter": "makers.name NOT EXISTS"}))
    assert (error["code"], error["param"]) == ("unknown_facet", "filter")


def test_the_algolia_protocol_names_its_own_parameters(films: Index) -> None:
    path = f"/1/indexes/{films.name}/query"
    error = films.client.post(path, {"restrictSearchableAttributes": ["nmae"]})
    assert error.status == 400
    assert error.json["message"].startswith("no item has a value in 'nmae'")
    for asked, begins in (
        ({"restrictSearchableAttributes": ["nmae", "name"]}, "restrictSearchableAttributes"),
        ({"attributesToRetrieve": ["nmae", "objectID"]}, "attributesToRetrieve"),
        ({"attributesToRetrieve": "*,-nmae"}, "attributesToRetrieve"),
        ({"attributesToHighlight": ["nmae"], "query": "green"}, "attributesToHighlight"),
        ({"attributesToSnippet": ["nmae:3", "*:9"]}, "attributesToSnippet"),
    ):
        wanted = f"{begins} names 'nmae', in which no item has a value; did you mean name?"
        assert films.client.post(path, asked).json["message"] == wanted
        queries = {"requests": [{"indexName": films.name, **asked}]}
        (result,) = films.client.post("/1/indexes/*/queries", queries).json["results"]
        assert result["message"] == wanted
    without_names: tuple[dict[str, Any], ...] = (
        {"attributesToRetrieve": ["*"]},
        {"restrictSearchableAttributes": ""},
        {"restrictSearchableAttributes": []},
        {"restrictSearchableAttributes": None},
        {"attributesToRetrieve": None, "attributesToHighlight": "", "attributesToSnippet": []},
    )
    for silent in without_names:
        reply = films.client.post(path, silent)
        assert (reply.status, "message" in reply.json) == (200, False), silent


@pytest.mark.parametrize("parameter", ["fields", "facet_fields"])
def test_only_the_first_unknown_names_are_compared_with_all_fields(
    films: Index, parameter: str
) -> None:
    """Comparing 100 names with 900 fields held up all other requests for 2.5 seconds."""
    names = [f"{place}tags" for place in range(100)]
    warnings = films.search(**{parameter: names}, per_page=1)["meta"]["warnings"]
    assert len(warnings) == len(names)
    meant = [one.endswith("did you mean tags?") for one in warnings]
    assert meant == [True] * GUESSES_MAX + [False] * (len(names) - GUESSES_MAX)
