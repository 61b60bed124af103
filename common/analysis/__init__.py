"""Text analysis, for queries and items alike: characters, words, stems, stop words.

analyzer            text → folded words
tokenizer           the kernel that cuts them
characters          what each code point is; computed by character_rules, stored by code_point_table
accented_spellings  what folding removes, as terms of their own
languages           stems, and which language a field has; stop_words
collation           the order of texts in a language, named in collation_names
collation_tables    what it is read from: the file that collation_build writes
"""
