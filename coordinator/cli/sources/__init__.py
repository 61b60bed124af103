"""Sources of items: files, URLs, stdin and databases; each yields JSON items in pieces."""
