"""Values by document, field by field.

batch_values_by_column  values → columns: the first step of every builder of one
presence_and_value_kinds  field → documents that have it, by form of the value
facet_columns      document ↔ facet values; made by facet_column_builder and
                   facet_column_merge, counted by code_counting
facet_rows         the codes of several facets of a document together
number_columns     document → numbers, exact
text_ordinal_columns  document → texts, as ranks; after a merge: text_ordinal_merge; on disk:
                   text_ordinal_files; made before a search needs them:
                   text_ordinal_preparation
iso_dates          dates among texts: when they are
cached_date_seconds  the same as a column of seconds, for boosts
sort_columns       document → a key that compares as an integer (sort_keys); the documents in that
                   order: permutations
joint_orders       documents by several of these
columns_carried_over_merges  what a merged segment has of those that were made on first use
grouping_keys      document → a number that stands for its value
text_hashes        text → 64 bits, the same in all segments and shards
external_ids       id → document

object_columns     fields that hold objects:
geo_columns          points
distance_columns     documents by distance from a point
nested_elements      the objects of an array, as documents of their own
"""
