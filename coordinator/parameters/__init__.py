"""From raw parameters to typed ones: one pipeline, which collects every mistake.

Start at `parse`:

raw              query string and body, decoded
parse            the way of one request: raw → typed; of the same request again: cache
table            every parameter, once; a row of it: parameter; its schemas: value_schemas,
                 option_schemas
reader           runs the readers of the parameters given; mistakes are collected
search_draft     what has been read so far; assembly: draft → typed, with the index's defaults
typed            the results

kinds            integers, names, fields, …: what several readers take
conditions       filters and trees, with what counts leave out
filter_parser    the expression language, filter_tokens: its words
filter_objects   filters as JSON; geo: areas
facet_options    options by facet, ranges, the cube
sort_keys        orders; marks: highlights and snippets; searched_fields: where words are searched
curation         the rules that apply to one search
other_engines    hints for those who come from elsewhere
"""
