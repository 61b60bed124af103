"""Compresses items one by one, as codes of the words that the index has learnt.

word_codec         compresses and decompresses the items of one index
word_encoding      item → codes; word_decoding: codes → item
word_cutting       what a word is
word_dictionary    the words and their codes
word_training      learns them from items
"""
