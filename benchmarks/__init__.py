"""Measurements of facetd: against other engines, against the floor, over sizes, of relevance."""
