"""Posting lists, read for a query.

posting_list_scan  one list, for the wanted documents
term_conjunction   the lists of several terms, intersected
term_counting      documents that are in enough of several lists
position_blocks    positions, where most blocks are wanted
"""
