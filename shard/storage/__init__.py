"""LMDB, the truth, and the files derived from it.

    lmdb_environment     the LMDB environment of an index
    readers_writer_lock  many readers of it, or one writer alone
    lmdb_meta_page       its meta pages, checked before LMDB trusts them
    lmdb_page_check      its other pages, checked before LMDB follows them
    storage_errors       errors of the disk, and of damaged files
    lmdb_codecs          encodes its keys and values
    stored_documents     record → the bytes that a client sent
    compression_dictionaries  of words or of zstd, trained on the first items of an index
    item_batch_decoding  checks and decodes the items of a page in one pass
    item_compression/    items as sequences of words
    write_group_log      recent write groups, and the counters
    tombstones           dead records of older groups
    newest_write_group_extent  shards that the newest group changes, where several hosts share a log
    change_source_positions  how far the followed databases have been read
    manifest             names the derived files, and the state that they reflect
    verify_and_warm_up   after a start: reads files before they are needed
    mapped_page_release  bounds how much of them is in memory

`FORMAT.md` describes every byte on disk.
"""
