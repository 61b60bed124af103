"""`python -m facetd` is the command `facetd`."""

from coordinator.cli.commands import main

main(prog_name="facetd")
