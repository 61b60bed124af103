"""The read path of a shard: one search over one snapshot.

Its modules:

searcher            request → response; which documents match: matching
search_cost         which searches take long, so that they run on a thread
field_classes_of_snapshot  the classes of its fields: in which language they are searched, …
corpus_statistics   what scoring needs of all shards before a search
fetch               stored items of hits and by id; their marks: highlight, of
                    words_of_texts, highlight_word_matching, marked_words, snippets and
                    grapheme_clusters
facet_value_lookup  number → value
"""
