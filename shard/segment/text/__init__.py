"""The inverted index of a segment: which words its documents have, and where.

text_index         all of it, as a query reads it
vocabulary         term → ordinal, its neighbours
term_trigram_index  letters → terms that contain them (infixes)
postings           ordinal → documents, fields, frequencies
postings_cursor    walks along a posting list
postings_writer    writes one
positions          where in a field a term occurs
prefix_lists       first letters → one posting list
prefix_entries_in_batch  its entries: words of a batch, counted
prefix_entries_in_merge  its entries: those of several terms, added up
bitset_postings    common term → bitset, and from a document to its entries
field_lengths      words of each field of a document (norms)

term_numbering     words of a batch → numbers
text_builder       these, inverted: the text structures of a new segment
text_merge         the text structures of a merged segment; its terms and their lists:
                   vocabulary_and_postings_merge
"""
