"""Whether requests for data are answered: not before all shards have reported what they have.

One of several hosts refuses them longer: until it has caught up with the log, and once it must not
be read any more.
"""

from __future__ import annotations

from common.errors import Unavailable
from coordinator.cluster.read_horizons import Horizons
from coordinator.cluster.shared_memory import SharedState
from coordinator.cluster.start_progress import StartProgress


class Readiness:
    """Admits requests for data, or says why not.

    Args:
        horizons: the states that searches may see.
        starting: progress of the start.

    Attributes:
        has_started: whether all shards have been serving at the same time since the start.
        is_open: whether requests for data are admitted.
    """

    def __init__(self, horizons: Horizons, starting: StartProgress) -> None:
        self._horizons = horizons
        self._starting = starting
        self._withheld: Unavailable | None = None
        self._shared: SharedState | None = None
        self.has_started = False
        self.is_open = False

    def begin(self, seq: int) -> None:
        """Admit requests: all shards serve, and have all groups up to `seq`.

        All that was on disk at startup becomes visible, unless a shared log decides.
        """
        self.has_started = True
        self._horizons.begin(seq if self._withheld is None else 0)
        self._note()

    @property
    def withheld(self) -> Unavailable | None:
        """The reason why requests for data are refused although all shards may serve."""
        return self._withheld

    @withheld.setter
    def withheld(self, error: Unavailable | None) -> None:
        self._withheld = error
        self._note()

    def share(self, shared: SharedState) -> None:
        """Begin to tell the reader coordinators."""
        self._shared = shared
        if self._withheld is not None:
            self._note()

    def _note(self) -> None:
        self.is_open = self.has_started and self._withheld is None
        if self._shared is not None:
            self._shared.publish_base(self._horizons.base)
            self._shared.publish_serving(self.is_open)

    def check(self) -> None:
        """Return if requests for data are admitted.

        Raises:
            Unavailable: `starting`, or why requests for data are refused.
        """
        if self._withheld is not None:
            raise Unavailable(self._withheld.message, code=self._withheld.code)
        if not self.has_started:
            raise Unavailable(
                self._starting.message(),
                code="starting",
                details={"progress": self._starting.shown()},
            )
