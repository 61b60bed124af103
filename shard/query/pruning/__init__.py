"""Pruning: the best k documents, without scoring those that cannot be among them.

score_bounds           what a document can score at most, by block and by group
block_max_conjunction  prunes by these: one term, or all of several
max_score_disjunction  the same where any of several terms is enough
expanded_word_top_k    the same for one word of many terms
bit_sliced_bounds      sums of bounds for 64 documents at a time, whatever the clauses are
"""
