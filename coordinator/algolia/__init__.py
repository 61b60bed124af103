"""Algolia's protocol: its parameters, filters, responses and settings in terms of ours (pure).

search_request          one search, as requested
parameter_table         the parameters that are honoured; those that are not: unsupported_parameters
search_draft            what the parameters have said so far: raw parameters of ours and filters
parameter_readers       one function a parameter; filters and geo among them
parameter_interactions  what depends on several parameters
disjunctive_query_combining  the queries of a page → fewer searches
responses               results in Algolia's form

settings_translation    an index's settings ↔ its configuration
stored_rules_and_synonyms  kept in its configuration; in terms of ours: rule_translation,
                        synonym_translation
object_changes          changes of items
keys                    API keys

parameter_errors        errors that name parameters as Algolia does
unsupported_endpoints   pages that facetd does not have
"""
