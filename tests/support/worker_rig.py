"""Workers for tests: real processes that listen to the Redis or the RabbitMQ of this machine."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import pytest
from attrs import Factory, define

SUPPORT = Path(__file__).parent
_START_SECONDS = 60
PORTS = {"redis": 6379, "rabbitmq": 5672}
"""Where the brokers listen."""
_DATABASES = 16  # that Redis has


def get_broker(name: str) -> str:
    """Return the URL of a broker; of Redis, a database of this test process's own."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return {
        "redis": f"redis://127.0.0.1:6379/{1 + number % (_DATABASES - 1)}",
        "rabbitmq": "amqp://guest:guest@127.0.0.1:5672//",
    }[name]


@cache
def find_broker_problem(name: str) -> str:
    """Return why a broker cannot be used; empty where it can."""
    try:
        from kombu import Connection
    except ModuleNotFoundError:
        return "Celery is not installed: pip install 'praval-tools[celery]'"
    try:
        with Connection(get_broker(name), connect_timeout=3) as connection:
            connection.ensure_connection(max_retries=1, timeout=3)
    except Exception as error:  # each transport has errors of its own
        return f"no {name} answers: {type(error).__name__}"
    return ""


@define
class Worker:
    """One worker: its process, and what it says."""

    process: subprocess.Popen[bytes]
    log: Path

    def wait_until_ready(self) -> None:
        """Wait until it takes messages."""
        deadline = time.monotonic() + _START_SECONDS
        while " ready." not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            threading.Event().wait(0.02)

    def find_children(self) -> list[int]:
        """Return the processes of its pool."""
        found = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False)
        return [int(number) for number in found.stdout.split()]

    def kill(self) -> None:
        """Kill it and what it started, as a machine that fails does."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def end(self) -> None:
        """Ask it to end; Celery may wait for ever for a process that was killed."""
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        self.kill()


@define
class WorkerHome:
    """A broker, a journal and an owner, whose workers this starts and ends."""

    broker: str
    owner: str
    app: str
    journal: str
    folder: Path
    workers: list[Worker] = Factory(list)
    owners: set[str] = Factory(set)

    def start(self, concurrency: int = 2, owner: str | None = None) -> Worker:
        """Start one more worker, of another *owner*'s tools where one is named, and wait until it takes messages."""
        self.owners.add(owner or self.owner)
        log = self.folder / f"worker-{len(self.workers)}.log"
        environment = {
            **os.environ, "WORKER_JOURNAL": self.journal, "WORKER_BROKER": self.broker, "WORKER_OWNER": self.owner,
            "PYTHONPATH": os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")]),
        }  # fmt: skip
        command = [sys.executable, "-m", "praval_tools", "worker", "--app", f"{self.app}:registry"]
        command += ["--owner", owner or self.owner, "--concurrency", str(concurrency)]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, env=environment, stdout=output, stderr=output, stdin=subprocess.DEVNULL, process_group=0,
                cwd=self.folder,
            )  # fmt: skip
        worker = Worker(process, log)
        self.workers.append(worker)
        worker.wait_until_ready()
        return worker

    @property
    def queue(self) -> str:
        """The queue of its tools."""
        return f"tools.{self.owner}"

    def close(self) -> None:
        """End the workers, and delete the queue."""
        from kombu import Connection

        for worker in self.workers:
            worker.end()
        with Connection(self.broker) as connection, suppress(*connection.channel_errors):
            for owner in self.owners | {self.owner}:
                connection.default_channel.queue_delete(f"tools.{owner}")


@contextmanager
def make_worker_home(
    broker: str, journal: str, folder: Path, app: str = "worker_app", port: int | None = None
) -> Iterator[WorkerHome]:
    """Yield a place for workers of *app*, at another *port* of the broker; skip the test where that does not answer."""
    if problem := find_broker_problem(broker):
        pytest.skip(problem)
    url = get_broker(broker)
    if port is not None:
        url = url.replace(f":{PORTS[broker]}/", f":{port}/")
    home = WorkerHome(url, f"owner-{secrets.token_hex(4)}", app, journal, folder)
    try:
        yield home
    finally:
        home.close()


@contextmanager
def start_worker(broker: str, journal: str, folder: Path, app: str = "worker_app") -> Iterator[WorkerHome]:
    """Yield a place in which one worker runs."""
    with make_worker_home(broker, journal, folder, app) as home:
        home.start()
        yield home
