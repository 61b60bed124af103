"""What suggestions are derived from without asking a shard; `coordinator.read.suggestions` asks.

suggestion_results     suggestions as a response shows them
suggestion_sources     all that may be suggested, and the best of each source in turn
typed_text             the text as typed
best_text_of_item      of each item found, the text that has most of the typed words
suggestion_cache       cached lists
folded_words_cache     the folded words of texts and items
prefix_narrowing       suggestions derived from those for a shorter prefix of the word
"""
