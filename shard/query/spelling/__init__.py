"""Other spellings of a word.

near_terms   words of the index near a mistyped one, for corrections and suggestions
spacings     words written as one or as two
"""
