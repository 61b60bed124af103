"""Suggestions for a search box.

suggestions            completions of the text as typed, with exact counts
best_items             the items whose texts are suggested
memory                 cached lists
folded_texts           the words of texts and items, cached
beginnings             suggestions derived from those for a shorter beginning of the word
"""
