"""Hits by value of a field (`distinct`).

distinct   the best hits of every value
groups     sizes, hits and facet counts by value
"""
