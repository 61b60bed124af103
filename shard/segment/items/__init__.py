"""From the bytes of items to their values.

value_extraction        JSON → values, by field and document
numbers_and_facet_keys  values → numbers, facet keys
"""
