"""Builds a segment, of items or of segments.

segment_builder   every structure in turn
all_columns       all columns at once
"""
