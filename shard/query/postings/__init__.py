"""Posting lists, read for a query.

posting_list_scan  one list, for the wanted documents
term_lists         the lists of a segment, as a query calls them
term_plan          how each term is read: by its list or its bitset
term_conjunction   the lists of several terms, intersected
term_scores        what terms score in given documents
term_marking       documents that have any of some terms
term_counting      documents that are in enough of several lists
position_blocks    positions, where most blocks are wanted
"""
