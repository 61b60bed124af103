"""Other spellings of a word.

completions_and_near_spellings
                   words of the index near a mistyped one, for corrections and suggestions
spacing_doc_freqs  words written as one or as two
"""
