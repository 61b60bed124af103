"""Sources of items: files, URLs, stdin and databases; each yields JSON items in pieces.

Start at `format_dispatch`; every format has a `read` that returns a `source`.

Bytes:

    opening_and_decompression  of a file, a URL or stdin; url_fetching
    format_detection           what they are; what no format reads: unsupported_formats
    encodings                  as text

Formats:

    json_and_ndjson            cut by json_object_splitting; a list inside an object: items_path
    delimited                  CSV and TSV; what their cells are: column_type_inference; prices,
                               list_separator
    parquet, databases         typed values: rows_to_items, declared_type_conversion;
                               postgres_connection

Items:

    exact_json_codec           as JSON
    geo_points                 made of two fields
    dry_run                    checked as the service will
"""
