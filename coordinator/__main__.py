"""The command `facetd`, also `python -m coordinator`."""

import gc


def main() -> None:
    """Run the command of the command line."""
    gc.disable()  # collections during imports find nothing; the command's own import enables them
    from coordinator.cli.commands import main

    main(prog_name="facetd")


if __name__ == "__main__":
    main()
