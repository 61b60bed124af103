"""`python -m facetd` is the command `facetd`."""

from coordinator.__main__ import main

main()
