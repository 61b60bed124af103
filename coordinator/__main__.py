"""`python -m coordinator` is `facetd`."""

from coordinator.cli import main

main(prog_name="facetd")
