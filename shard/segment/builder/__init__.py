"""Builds segments, from items or by merging segments.

segment_builder   every structure in turn
all_columns       all columns at once
"""
