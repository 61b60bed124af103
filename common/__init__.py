"""What both kinds of process need: messages, framing, errors, limits, analysis, JSON scanning.

An index and its items:

    index_configuration  its facets, fields, languages …; parsed by index_configuration_parser,
                         with index_configuration_value_checks
    search_option_parsers  how to search and count: options that it shares with requests
    settings_of_other_engines  settings of other engines, and what takes their place
    value_kinds_and_facet_keys  the values of items; changes of stored ones: partial_updates
    query_syntax_tree  the abstract syntax of a search
    term_weights       statistics → weights
    moments            texts that are dates, and when they are
    boosts             factors from numbers and dates; curation_rules: what is pinned or hidden
    item_ids           what may be an id; item_placement: id → shard
    string_sort_kernels  texts by code points
    field_path_hash    a field, while an item is read
    key_arena          many texts in one array of bytes
    facet_dictionary   a facet's value ↔ its number
    distinct_values    of an array, by sorting
    nearest_name       what a mistyped name was meant to be

A process:

    setting_sources    where settings come from; setting_declaration, setting_conversion: what they
                       may be; those of shards: shard_settings
    limits             every bound, with unit and reason
    errors             every error, with code and status; those of decoding: decode_errors
    deadline           when a response is due
    hits_page_byte_limit  on the items of a page of hits
    data_directory     its layout and its owner; who listens where: endpoint_files
    disk_errors        what the disk refuses, as errors with a remedy
    durable_files      files that survive a crash; long ones: chunked_file_io

Folders: analysis (text → words), json (bytes → items), kernels (compiled functions), process (what
a process is made of), protocol (calls between processes).
"""
