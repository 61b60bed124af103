"""Suggestions for a search box.

suggestions            completions of the text as typed, with exact counts
best_items             the items whose texts are suggested
memory                 lists made before
folded_texts           the words of texts and items, remembered
beginnings             what the answers about a shorter beginning of a word tell about it
"""
