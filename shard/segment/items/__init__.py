"""Items as bytes → their values.

extraction      JSON → values, by field and document
value_parsing   these → numbers, facet keys
"""
