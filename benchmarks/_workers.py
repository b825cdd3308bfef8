"""What a call on a worker costs, against a call of bare Celery with the same broker; both in turn, in one program."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import _worker_tool
from _measure import Figure, quartiles
from journal_postgres import _database, _upgrade

BROKER: Final = os.environ.get("PRAVAL_TOOLS_BENCH_BROKER", "redis://127.0.0.1:6379/15")
_START_SECONDS: Final = 60
_BATCH: Final = 100


def calling(rounds: int, calls: int = 20) -> Iterator[Figure]:
    """Yield latency and throughput of journaled calls on two worker processes; nothing where a server is missing."""
    os.environ.setdefault("PRAVAL_TOOLS_KEY", "the key of the benchmark")
    try:
        with _database() as url:
            yield from _beside_bare(_upgrade(url, "workers"), rounds, calls)
    except (ImportError, ConnectionError) as error:
        print(f"Workers are not measured: {error}", file=sys.stderr)


def _beside_bare(journal: str, rounds: int, calls: int) -> Iterator[Figure]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        variables = {"BENCH_JOURNAL": journal, "BENCH_BROKER": BROKER}
        for name, command in {
            "bare": ["celery", "-A", "_worker_tool:bare", "worker", "-c", "2", "-l", "INFO", "-Q", "bench-bare"],
            "ours": ["praval_tools", "worker", "--app", "_worker_tool:make", "--owner", "bench", "--concurrency", "2"],
        }.items():
            stack.enter_context(_start_worker(folder / f"{name}.log", command, variables))
        os.environ |= variables
        bare, registry = _worker_tool.make_bare(), stack.enter_context(_worker_tool.make())
        add, call = bare.tasks["bench.add"], registry.agent("bench").call
        latencies, ours, rates = list[float](), list[float](), list[float]()
        for number in range(rounds + 1):
            plain = _measure(lambda: add.delay(1.5, 2.5).get(timeout=30), calls)
            own = _measure(lambda: call("add", x=1.5, y=2.5), calls)
            plain_batch = _measure(lambda: _get_all([add.delay(1.5, 2.5) for _ in range(_BATCH)]), 1)
            own_batch = _measure(lambda: asyncio.run(_call_all(registry)), 1)
            if number:  # the first round warms up
                latencies.append(own / plain)
                ours.append(own)
                rates.append(plain_batch / own_batch)
        yield Figure("workers:latency", statistics.median(latencies), "x", *quartiles(latencies))
        yield Figure("workers:latency:ms", statistics.median(ours) * 1e3, "ms", *(one * 1e3 for one in quartiles(ours)))
        yield Figure("workers:throughput", statistics.median(rates), "x", *quartiles(rates))


@contextmanager
def _start_worker(log: Path, command: Sequence[str], variables: dict[str, str]) -> Iterator[None]:
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    with log.open("wb") as output:
        worker = subprocess.Popen(
            [sys.executable, "-m", *command], env={**os.environ, **variables, "PYTHONPATH": path}, stdout=output,
            stderr=output, cwd=log.parent,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + _START_SECONDS
        while " ready." not in log.read_text():
            if worker.poll() is not None or time.monotonic() > deadline:
                raise ConnectionError(log.read_text()[-500:])
            time.sleep(0.05)
        yield
    finally:
        worker.terminate()
        worker.wait(30)


def _get_all(results: Sequence[Any]) -> None:
    for result in results:
        result.get(timeout=60)


async def _call_all(registry: Any) -> None:
    agent = registry.agent("bench")
    await asyncio.gather(*(agent.acall("add", x=1.5, y=2.5) for _ in range(_BATCH)))


def _measure(work: Callable[[], object], calls: int) -> float:
    """Return the seconds of one call; wall time, since most of it is spent elsewhere."""
    start = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - start) / calls


if __name__ == "__main__":
    for figure in calling(int(sys.argv[1]) if len(sys.argv) > 1 else 5):
        print(figure)
