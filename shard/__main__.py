"""`python -m shard`, also `facetd shard`: one shard process."""

from shard.process.shard_command import main

if __name__ == "__main__":
    main(prog_name="facetd shard")
