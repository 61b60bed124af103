"""Text analysis, for queries and items alike: characters, words, stems, stop words.

analyzer            text → folded words
tokenizer           the kernel that cuts them
character_tables    what each code point is; in the tables that
                    character_tables_build computes, stored by code_point_table
accented_spellings  what folding removes, as terms of their own
stemmer             word → stem; stop_words
edit_distance_kernels  how many typos two words are apart; how many a word may be off:
                    typo_budget
field_classes       fields whose words match alike: their language, typos, infixes
collation           the order of texts in a language, named in collation_names
collation_tables    what it is read from: the file that collation_build writes
"""
