"""Index structures of a segment: one file per structure, from builder to arrays to reader.

    segment            named arrays over a run of documents: a file, mapped
    snapshot           segments, less what is deleted: what a search sees
    segment_builder    items, or several segments → one segment

    extraction         JSON → values, by field and document
    value_parsing      these → numbers, facet keys
    field_registry     path → field number
    column_values      values → columns: the first step of every builder of one
    doc_numbers        document → its record, its place in the order of insertion
    merge_arrays       the arrays of a merge, in bounded memory
    first_touch        verifies the blocks of a large file when they are touched

Text:

    term_numbering     words of a batch → numbers
    text_builder       these, inverted: the text structures of a new segment
    text_merge         the text structures of a merged segment; its lists: term_merge
    text_index         all of them, as a query reads them
    vocabulary         term → ordinal, its neighbours; with typos: edit_distance
    infixes            letters → terms that contain them
    postings           ordinal → documents, fields, frequencies
    postings_cursor    walks along a posting list
    postings_writer    writes one
    positions          where in a field a term occurs
    prefix_lists       first letters → one posting list
    prefix_counts      its entries in a batch
    prefix_sums        its entries in a merge: those of several terms
    bitset_postings    common term → bitset, and from a document to its entries
    field_lengths      words of each field of a document

Columns:

    columns            all of them at once, for the writer and the merger
    presence           field → documents that have it, by form of the value
    facet_columns      document ↔ facet values; counted by code_counts
    facet_dictionary   facet value ↔ number
    facet_rows         the codes of several facets of a document together
    number_columns     document → numbers, exact
    text_columns       document → texts, ranked
    sort_columns       document → a key that compares as an integer
    distinct_values    document → a number that stands for its value
    object_fields      fields that hold objects:
    geo_columns          points
    distance_columns     documents by distance from a point
    nested_elements      the objects of an array, as documents of their own
    external_ids       id → document
    doc_sets           sets of documents: bitset, list; in files: stored_sets
"""
