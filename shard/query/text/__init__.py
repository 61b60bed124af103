"""A text query over one segment: its documents and scores.

text_search       puts the results together: tiers, proximity, the best hits
prepared_query    what a query is before any segment is looked at
strategy          can the best hits be found without scoring all? by sizes: text_cost
clause_evaluation a clause → its documents and scores
clause_combination   all clauses, or some of them, together
any_clause_top_k  the best where any clause is enough, by the bounds of all
whole_field_matches  fields that are nothing but the query
score_explanation  why a hit scores what it scores
"""
