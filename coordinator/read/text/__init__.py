"""From the text of a query to weighted clauses, and to other spellings of it.

query_parser           text → words and phrases (query_pieces) → clauses; stop words and synonyms:
                       query_dictionary; words written together or apart: word_spacings; II for 2,
                       "st" for "saint": numerals_and_abbreviations
relaxation             what "match": "auto" tries, in order
query_weighting        clauses → weights, by the frequencies over all shards in
                       text_statistics_cache
word_corrections       what a mistyped word may be meant to be: prefix_edit_distance, noisy_channel
completions_and_near_spellings
                       words of the index near a text
query_respelling       another spelling of a query
fields_reported_by_shards  fields that items have; from statistics, too
"""
