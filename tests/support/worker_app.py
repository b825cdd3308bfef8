"""What a worker of the tests loads: the tools of the contract, as the tests declare them in their own process."""

from __future__ import annotations

import os
from pathlib import Path

import engine_tools
from engine_rig import make_registry

_journal = os.environ["WORKER_JOURNAL"]
_owner = os.environ["WORKER_OWNER"]

registry = make_registry(
    "celery", Path(_journal) if _journal.startswith("/") else _journal, _owner, broker=os.environ["WORKER_BROKER"]
)
for _name, _function in {
    "slow": engine_tools.note_slowly, "slow_later": engine_tools.note_later, "masked": engine_tools.fail,
    "asked": engine_tools.add, "alone": engine_tools.note_slowly,
}.items():  # fmt: skip
    registry.tool(_name, shared=True, owned_by=_owner, engine="celery")(_function)
