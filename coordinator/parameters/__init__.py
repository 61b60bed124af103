"""From raw parameters to typed ones: one pipeline, which collects every mistake.

Start at `request_parsing`:

request_decoding    query string and body, decoded
request_parsing     one request, raw → typed; parsed_request_cache
parameter_table     every parameter, once; parameter_row: one of them; their JSON Schemas:
                    value_schemas, object_parameter_schemas
draft_from_parameters  runs the readers of the given parameters; mistakes: collects what is wrong
search_draft        what has been read so far
parameters_from_draft  draft → typed, with the index's defaults
parsed_parameters   the results; their parts about facets: facet_specs; field_needs: what they need
                    of the fields that they name

readers_by_parameter  one function per parameter
value_parsers       integers, names, fields, …: values that several parameters take
filter_clauses      filters and chosen nodes of trees, and which counts leave a filter out
filter_parser       the expression language; filter_tokens: its lexer
filter_objects      filters as JSON; geo: areas
facet_options       options by facet; facet_ranges_and_cube: counts by interval, joint
                    counts; tree_options: of category trees
sort_keys           sort keys; highlight_options: and of snippets; searched_fields
curation_rule_evaluation  the curation rules that apply to one search, and their effect
parameters_of_other_engines  parameters of other engines, and their equivalents here
"""
