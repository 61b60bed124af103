"""From the bytes of items to their values.

value_extraction  JSON → values, by field and document
value_parsing   values → numbers, facet keys
"""
