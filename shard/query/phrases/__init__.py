"""Phrases: fields in which words are adjacent, in order.

phrase_search        finds them
phrase_seeds         the positions of a phrase's rarest word
phrase_verification  which of these the other words follow
frequent_pairs       postings of two frequent words that are adjacent, made before
"""
