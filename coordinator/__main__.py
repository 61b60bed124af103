"""`python -m coordinator` is `facetd`."""

from coordinator.cli.commands import main

main(prog_name="facetd")
