"""Text analysis, for queries and items alike: characters, words, stems, stop words.

analyzer            text → folded words
tokenizer           the kernel that cuts them
characters          what each code point is; computed by character_rules, stored by code_point_table
accented_spellings  what folding removes, as terms of their own
stemmer             word → stem; stop_words
field_languages     which language a field has; with typos and infixes, how its words match
collation           the order of texts in a language, named in collation_names
collation_tables    what it is read from: the file that collation_build writes
"""
