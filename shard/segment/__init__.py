"""Index structures of a segment: one file per structure, from builder to arrays to reader.

    segment            named arrays over a run of documents
    segment_file       the file that has them: layout, checksums, writing
    snapshot           segments minus deleted documents: what a search sees
    doc_records_and_places  document → its record, its place in the order of insertion
    doc_sets           sets of documents: bitsets and lists; in files, facet_value_sets
    field_registry     path → field number
    lazy_verification  verifies the blocks of a large file when they are touched
    merge_state        what a merge is made from; its arrays, in bounded memory: merge_allocator;
                       what comes out: merge_result

    items/             JSON → values, by field and document
    text/              the inverted index: vocabulary, postings, positions, lengths
    columns/           values by document (doc values): facets, numbers, texts, points, ids
    builder/           items, or several segments → one segment

A folder imports only from those above it; `columns` and `text` not from each other.
"""
