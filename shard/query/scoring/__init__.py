"""Scores: of a word in a document, and what changes or ranks them.

bm25f              the score of a word in a document; words of many terms
scratch_arrays     the arrays in which scores are summed
top_k_selection    the k-th greatest score, and who reaches it
boosting           factors on scores, from the values of items
boost_functions    how a value becomes a factor, and a factor a score
pinned_docs        hits that need not match the words
"""
