"""Text analysis, for queries and items alike: characters, words, stems, stop words."""
