# Tests of: engine, integrations/worker, call_server, broker, status_reader
"""Workers, callers and connections that are lost at any moment: each call has one outcome, and no effect twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import chaos_app
import pytest
from chaos_rig import PLACES, Place, open_place, place, wait_until
from cutting_proxy import CuttingProxy
from store_rig import execute as execute_sql
from store_rig import get_test_database
from telemetry_rig import Collector, collector
from worker_rig import PORTS, SUPPORT, find_broker_problem

from praval_tools import JournalError, Outcome, ToolCall, ToolResult
from praval_tools.integrations.celery import engine, status_reader
from praval_tools.integrations.celery.broker import RUN_ONCE, make_celery
from praval_tools.journal.storage.worker_calls import CallState, CallStatus, WorkerCallTable

__all__ = ["collector", "place"]
ON_REDIS = pytest.mark.parametrize("place", [("redis", "sqlite")], ids="-".join, indirect=True)
ON_RABBITMQ = pytest.mark.parametrize("place", [("rabbitmq", "postgres")], ids="-".join, indirect=True)
pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs POSIX")


class TestLostWorkers:
    def test_a_process_that_is_killed_after_the_effect(self, place: Place) -> None:
        """The outcome says that nobody knows, the effect is there once, and the next call runs."""
        place.home.start()
        result = place.execute("mark_and_die", path=str(place.file), times=1)
        assert (Outcome.ENGINE_LOST, 1) == (result.outcome, place.marks)
        assert "may have done its work" in str(result.error)
        assert 2 == place.execute("mark", path=str(place.file)).result

    @ON_RABBITMQ
    def test_a_process_of_an_idempotent_tool_that_is_killed(self, place: Place) -> None:
        """It runs again, three times in all at most."""
        place.home.start()
        assert 2 == place.execute("again_mark_and_die", path=str(place.file), times=1).result
        place.file.write_text("")
        result = place.execute("again_mark_and_die", path=str(place.file), times=9)
        assert (Outcome.ENGINE_LOST, 3) == (result.outcome, place.marks)

    @ON_RABBITMQ
    def test_a_machine_that_fails(self, place: Place) -> None:
        """The call ends within half a minute, and is not run by the next worker."""
        worker = place.home.start()
        wait = place.begin("mark_slowly", path=str(place.file), seconds=60)
        place.wait_for_marks()
        worker.kill()
        place.home.start()
        assert (Outcome.ENGINE_LOST, 1) == (wait().outcome, place.marks)

    @ON_REDIS
    def test_a_machine_that_fails_while_an_idempotent_tool_runs(self, place: Place) -> None:
        """Another worker runs it."""
        worker = place.home.start()
        wait = place.begin("again_mark_slowly", path=str(place.file), seconds=2)
        place.wait_for_marks()
        worker.kill()
        place.home.start()
        assert (Outcome.OK, 2) == (wait().outcome, place.marks)

    @ON_REDIS
    def test_a_machine_that_fails_before_another_refuses_to_run_the_tool_again(self, place: Place) -> None:
        """Broken promise: the outcome said that it is forbidden, and so that it had not run."""
        worker = place.home.start()
        wait = place.begin("again_mark_slowly", path=str(place.file), seconds=60)
        place.wait_for_marks()
        worker.kill()
        with place.make_registry() as other:
            other.block("again_mark_slowly", "ann", reason="under investigation")
        place.home.start()
        result = wait()
        assert (Outcome.ENGINE_LOST, 1) == (result.outcome, place.marks)
        assert "may have done its work" in str(result.error) and "investigation" not in str(result.error)

    def test_a_worker_that_is_asked_to_end(self, place: Place) -> None:
        """What it runs ends first."""
        worker = place.home.start()
        wait = place.begin("mark_slowly", path=str(place.file), seconds=1)
        place.wait_for_marks()
        worker.process.terminate()
        assert (Outcome.OK, 1) == (wait().outcome, place.marks)
        assert 0 == worker.process.wait(30)


class TestCallsThatAreGivenUp:
    def test_never_begin_later(self, place: Place) -> None:
        """A call that was cancelled before a worker came runs on none."""
        import asyncio

        async def cancel() -> None:
            call = ToolCall("1", "mark", {"path": str(place.file)}, "ann")
            task = asyncio.create_task(place.registry.aexecute(call))
            await asyncio.sleep(0.3)
            task.cancel()
            await asyncio.wait([task])

        asyncio.run(cancel())
        assert place.registry.drain(timeout=30) == 0
        place.home.start()
        assert 1 == place.execute("mark", path=str(place.file)).result

    def test_whose_caller_is_gone_begin_only_within_their_time(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A worker that comes later runs nothing of what is left in its queue."""
        monkeypatch.setattr(engine, "_TAKE_SECONDS", 0.01)
        monkeypatch.setattr(WorkerCallTable, "give_up", lambda *_: True)  # as a caller that cannot say so any more
        monkeypatch.setattr(WorkerCallTable, "delete", lambda *_: None)
        place.registry.tool("mark", owned_by=place.home.owner, replace=True, timeout=0.01)(chaos_app.mark)
        assert Outcome.ENGINE_LOST is place.execute("mark", path=str(place.file)).outcome
        monkeypatch.undo()
        place.registry.tool("mark", owned_by=place.home.owner, replace=True)(chaos_app.mark)
        place.home.start()
        assert 1 == place.execute("mark", path=str(place.file)).result

    def test_by_a_caller_that_is_killed_while_a_worker_runs_them(self, place: Place) -> None:
        """What may have run is in doubt for the next process of the run, and is not run a second time."""
        place.home.start()
        first = begin_in_process(place, seconds=1)
        place.wait_for_marks()
        first.send_signal(signal.SIGKILL)
        first.communicate()
        output, errors = begin_in_process(place, seconds=1).communicate(timeout=60)
        assert ("in_doubt", 1) == (output.strip(), place.marks), errors

    @ON_REDIS
    def test_by_a_worker_before_their_caller_sees_that_their_time_is_over(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Broken promise: on a busy machine, the outcome of a call that took too long was that its worker is gone."""
        wait_for_change = status_reader.WatchedCall.wait

        def wait_for_end(call: status_reader.WatchedCall, seconds: float) -> CallStatus | None:
            while True:  # as a caller that gets no processor meanwhile
                status = wait_for_change(call, seconds)
                if status is not None and (status.state is CallState.LATE or status.is_lost):
                    return status

        place.home.start()
        place.registry.tool("mark_slowly", owned_by=place.home.owner, replace=True, timeout=0.5)(chaos_app.mark_slowly)
        monkeypatch.setattr(status_reader.WatchedCall, "wait", wait_for_end)
        result = place.execute("mark_slowly", path=str(place.file), seconds=60)
        assert (Outcome.TIMEOUT, 1) == (result.outcome, place.marks)


class TestMessages:
    def test_that_come_several_times(self, place: Place) -> None:
        """One worker begins the call, once, however often it is announced, meanwhile and later."""
        place.home.start()
        place.home.start()
        sender = make_celery(place.home.broker)
        wait = place.begin("mark_slowly", path=str(place.file), seconds=1)
        place.wait_for_marks()
        (call_id,) = list_call_ids(place)
        for _ in range(20):
            sender.send_task(RUN_ONCE, (call_id,), task_id=call_id, queue=place.home.queue)
        assert Outcome.OK is wait().outcome
        for _ in range(20):
            sender.send_task(RUN_ONCE, (call_id,), task_id=call_id, queue=place.home.queue)
        assert 2 == place.execute("mark", path=str(place.file)).result
        sender.close()

    def test_that_are_lost(self, place: Place) -> None:
        """A call whose message is gone is announced again."""
        wait = place.begin("mark", path=str(place.file))
        wait_until(lambda: delete_messages(place))
        place.home.start()
        assert (Outcome.OK, 1) == (wait().outcome, place.marks)


class TestConnections:
    @pytest.mark.parametrize(("broker", "store"), PLACES)
    def test_that_are_cut(self, broker: str, store: str, tmp_path: Path) -> None:
        """
        Connections to the broker and the database are cut while calls run: each ends, and none runs twice.

        Where the caller's own connection was cut while it wrote, it gets the journal's error, and may not know more.
        """
        with CuttingProxy(PORTS[broker]) as proxy, open_place(broker, store, tmp_path, proxy.port) as place:
            place.home.start(concurrency=2)
            files = [tmp_path / f"marks-{number}" for number in range(12)]
            waits = [place.begin("mark_slowly", path=str(file), seconds=0.3) for file in files]
            for _ in range(6):
                threading.Event().wait(0.3)
                proxy.cut()
                if store == "postgres":
                    end_sessions()
            outcomes = {get_outcome(wait) for wait in waits}
            assert proxy.cut_count > 0
            known = {Outcome.OK, Outcome.ENGINE_LOST} | ({None} if store == "postgres" else set())
            assert known >= outcomes, outcomes
            assert all(not file.exists() or file.stat().st_size == 1 for file in files)
            wait_until(lambda: place.execute("mark", path=str(place.file)).outcome is Outcome.OK)

    @pytest.mark.parametrize("end", ["guest:wrong@127.0.0.1:5672//", "guest:guest@127.0.0.1:5672/nowhere"])
    def test_that_are_refused(self, end: str, tmp_path: Path) -> None:
        """Broken promise: a login that RabbitMQ refuses, or a virtual host it does not know, was the tool's error."""
        if problem := find_broker_problem("rabbitmq"):
            pytest.skip(problem)
        with chaos_app.make_registry(str(tmp_path / "runs.db"), f"amqp://{end}", "bank") as registry:
            chaos_app.grant_all(registry)
            result = registry.execute(ToolCall(None, "mark", {"path": str(tmp_path / "marks")}, "ann"))
        assert Outcome.ENGINE_LOST is result.outcome and "cannot be reached" in str(result.error)


class TestTraces:
    def test_are_those_of_the_call(self, place: Place, collector: Collector) -> None:
        """What a function traces on a worker belongs to the span of its call."""
        place.home.start()
        place.registry.telemetry = collector.make_telemetry()
        trace = place.execute("tell_trace").result
        span = collector.take_span()
        assert span.context is not None
        assert [f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"] == trace


def begin_in_process(place: Place, *, seconds: float, timeout: float | None = None) -> subprocess.Popen[str]:
    """Begin a call in a run of another process, which prints its outcome."""
    program = f"""
        import chaos_app
        from praval_tools import ToolCall

        home = ({place.home.journal!r}, {place.home.broker!r}, {place.home.owner!r})
        call = ToolCall("c", "mark_slowly", {{"path": {str(place.file)!r}, "seconds": {seconds}}})
        with chaos_app.make_registry(*home) as registry, registry.run("nightly"):
            registry.tool("mark_slowly", owned_by=home[2], replace=True, timeout={timeout})(chaos_app.mark_slowly)
            print(registry.agent("ann").execute(call).outcome.value)
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", dedent(program)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def get_outcome(wait: Callable[[], ToolResult]) -> Outcome | None:
    """Return the outcome of a call; None where it could not be recorded, and its caller got the error."""
    try:
        return wait().outcome
    except JournalError as error:
        assert "cannot be reached" in str(error)
        return None


def list_call_ids(place: Place) -> list[str]:
    """Return the ids under which workers know the calls that go on."""
    import sqlalchemy as sa

    from praval_tools.journal.storage.tables import worker_calls

    journal = place.registry.journal
    assert journal is not None
    with journal.store._database.readers.connect() as connection:  # type: ignore[attr-defined]
        return list(connection.execute(sa.select(worker_calls.c.id)).scalars())


def delete_messages(place: Place) -> int:
    """Delete what waits in the queue; return how many messages that were."""
    from kombu import Connection

    with Connection(place.home.broker) as connection, suppress(*connection.channel_errors):  # there is no queue yet
        return connection.default_channel.queue_purge(place.home.queue) or 0
    return 0


def end_sessions() -> None:
    """Have PostgreSQL end all sessions that are ours."""
    execute_sql(
        get_test_database(),
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND pid <> pg_backend_pid() AND application_name = 'praval-tools'",
    )
