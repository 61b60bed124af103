"""Sources of items: files, URLs, stdin and databases; each yields JSON items in pieces.

Start at `reader_by_format`; every reader returns a `source`.
"""
