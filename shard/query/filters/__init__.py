"""Filters: which documents of a segment pass.

filter_bitsets       a filter → the bitset of its documents
filter_intersection  the same of several, by group
field_filters        its leaves: filters on one field
starts_with_and_contains  facet values by prefix or substring, without case and accents
filter_only_matches  matches of a search without text; few documents are tested one by one
disjunctive_facets   matches without the clauses of one facet, for its own counts
"""
