"""`facetd follow` with shorter waits: `impatient_follower '{"CHECK_SECONDS": 0.5}' follow …`.

The first argument has constants of `coordinator.cli.following.table_follower` and their values.
"""

from __future__ import annotations

import json
import sys

from coordinator.cli.commands import main
from coordinator.cli.following import table_follower

if __name__ == "__main__":
    waits = json.loads(sys.argv.pop(1))
    assert waits.keys() <= vars(table_follower).keys()
    vars(table_follower).update(waits)
    main(prog_name="facetd")
