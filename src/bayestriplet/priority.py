"""Work that can wait while a server on the same machine answers requests."""

import os
from contextlib import suppress

NICE = 10  # as far as systems have niceness: with nobody else on the machine it costs nothing


def let_others_go_first() -> None:
    """Give processes of usual priority the right of way, if this one has it too."""
    if hasattr(os, "setpriority"):
        with suppress(OSError):
            own = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, 0, max(own, NICE))
