"""Builds segments, from items or by merging segments.

segment_builder   every structure of a batch in turn
segment_merge     every structure of several segments in turn
all_columns       all columns at once
"""
