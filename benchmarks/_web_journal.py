"""A journal of a million events, of 10,000 tools and 1,000 agents, for the measurements of the operator's page."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from praval_tools.journal import INTENT, Item, Record
from praval_tools.journal.storage.sql_store import SqlStore

TOOLS: Final = 10_000
AGENTS: Final = 1_000
_CALLS_PER_RUN: Final = 50
_DAYS: Final = 30
_GROUP: Final = 400
_HEAD: Final = (
    '{{"v":1,"type":"{type}","id":"{id}","time":"{time}","process":"bench:1","tool_call_id":"{call}",'
    '"tool_name":"{tool}","agent":"{agent}","run_id":{run},'
)
_CALL: Final = (
    '"arguments":{"path":"data/sales-2026.csv","rows":100,"where":"region = north"},"decision":{"allowed":true,'
    '"rule":"%s","reason":"It may"},"chain":[],"fingerprint":"9f86d081884c7d65","attempt":1}'
)
_RESULT: Final = '"outcome":"ok","result":{"rows":100,"columns":["day","sum"]},"latency_ms":%.3f,"attempts":1}'
_ERROR: Final = (
    '"outcome":"%s","error":"The server did not answer","error_type":"OSError","latency_ms":%.3f,"attempts":1}'
)
_REFUSED: Final = (
    '"outcome":"%s","arguments":{"path":"data/sales-2026.csv"},"decision":{"allowed":false,"rule":"%s",'
    '"reason":"Nobody gave it"},"error":"It may not call it"}'
)
_RULES: Final = ("owner", "granted", "category", "shared", "listed")


def write_journal(store: SqlStore, events: int, *, tools: int = TOOLS, agents: int = AGENTS, seed: int = 1) -> None:
    """Append *events* events of calls to a store: half in runs of 50 calls, a few failed, refused and in doubt."""
    chance = random.Random(seed)
    items, count = list[Item](), 0
    for number in range(events):
        made = list(_iter_items(chance, number, events, tools, agents))
        items += made
        count += len(made)
        if len(items) >= _GROUP or count >= events:
            store.append(items)
            items = []
        if count >= events:
            return


def _iter_items(chance: random.Random, number: int, events: int, tools: int, agents: int) -> Iterator[Item]:
    began = datetime.now(UTC) - timedelta(days=_DAYS) * (1 - 2 * number / events)
    tool = f"team{number % 7}.tool_{int(tools * chance.random() ** 2):05}"  # some are called far more often
    agent = f"agent-{int(agents * chance.random() ** 2):04}"
    run = f"run-{number // _CALLS_PER_RUN:06}" if number % (2 * _CALLS_PER_RUN) < _CALLS_PER_RUN else None
    call, luck = f"call-{number:07}", chance.random()

    def build(type: str, suffix: str, tail: str, attempt: int | None, seconds: float) -> Item:
        moment = began + timedelta(seconds=seconds)
        head = _HEAD.format(
            type=type, id=f"e{number:07}{suffix}", time=moment.isoformat(), call=call, tool=tool, agent=agent,
            run="null" if run is None else f'"{run}"',
        )  # fmt: skip
        record = Record(
            type=type, body=(head + tail).encode(), id=f"e{number:07}{suffix}", time=moment, process="bench:1",
            run_id=run, call_id=call, agent=agent, tool=tool, attempt=attempt,
        )  # fmt: skip
        return Item((record,))

    if luck < 0.04:
        outcome = chance.choice(("forbidden", "limited", "invalid_arguments"))
        yield build("call_refused", "r", _REFUSED % (outcome, "no_permission"), 1 if run else None, 0)
        return
    yield build("agent_tool_call", "c", _CALL % chance.choice(_RULES), INTENT, 0)
    latency = chance.lognormvariate(3, 1.2)
    if run is not None and luck > 0.999:
        return
    tail = _RESULT % latency if luck < 0.95 else _ERROR % (chance.choice(("tool_error", "timeout")), latency)
    yield build("agent_tool_result", "e", tail, 1, latency / 1_000)


def make_journal(path: Path, events: int) -> float:
    """Create the journal at *path*; return the seconds that it took."""
    start = time.perf_counter()
    store = SqlStore(path)
    try:
        write_journal(store, events)
    finally:
        store.close()
    return time.perf_counter() - start
