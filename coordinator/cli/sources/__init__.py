"""Sources of items: files, URLs, stdin and databases; each yields JSON items in pieces.

Start at `format_dispatch`; every format has a `read` that returns a `source`.
"""
