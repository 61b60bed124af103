"""`facetd follow` with shorter waits: `impatient_follower '{"CHECK_SECONDS": 0.5}' follow …`.

The first argument has constants of `coordinator.cli.commands.follow_postgres` and their values.
"""

from __future__ import annotations

import json
import sys

from coordinator.cli.commands import follow_postgres, main

if __name__ == "__main__":
    waits = json.loads(sys.argv.pop(1))
    assert waits.keys() <= vars(follow_postgres).keys()
    vars(follow_postgres).update(waits)
    main(prog_name="facetd")
