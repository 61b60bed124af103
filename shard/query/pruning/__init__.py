"""Pruning: the best k documents, without scoring those that cannot be among them.

score_bounds           what a document can score at most, by block and by group
single_term_top_k      prunes by these the list of one term
block_max_conjunction  the same for documents that have all of several terms
max_score_disjunction  the same where any of several terms is enough
expanded_word_top_k    the same for one word of many terms
kept_words             words of many terms that are searched again: no list is read
bit_sliced_bounds      sums of bounds for 64 documents at a time, whatever the clauses are
"""
