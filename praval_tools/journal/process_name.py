"""The name of this process in the journal."""

from __future__ import annotations

import os
import socket
from functools import cache
from typing import Final

from praval_tools.forks import handle_forks

_HOSTNAME: Final = socket.gethostname()


@cache
def get_process_name() -> str:
    """Return the name of this process in the journal: its host and its number."""
    return f"{_HOSTNAME}:{os.getpid()}"


handle_forks(get_process_name, in_child=lambda function: function.cache_clear())
