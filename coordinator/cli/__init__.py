"""The command line of `facetd`."""
