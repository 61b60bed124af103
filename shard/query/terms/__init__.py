"""Terms: the words of a vocabulary that a word of the query stands for.

expansion         a word → the terms that match it, by match kind
stem_classes      those of its stem
prefix_terms_of_docs  which terms of a half-typed word some documents have
kept_terms_of_docs    the same, known from searches before
"""
