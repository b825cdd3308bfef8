# Tests of: call_server, requests, sealing, cli/worker
"""What a worker is sent: it runs what it may, once more decided, and nothing that somebody else wrote or changed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import chaos_app
import pytest
import sqlalchemy as sa
from chaos_rig import Place, open_place, place, wait_until

from praval_tools import Outcome, ToolCall, ToolRegistry, ToolUsageError
from praval_tools.integrations.celery import engine, status_reader
from praval_tools.integrations.celery.broker import RUN_AGAIN, RUN_ONCE
from praval_tools.integrations.celery.requests import WorkerAnswer, WorkerRequest, get_owner_queue
from praval_tools.integrations.celery.sealing import AlteredError, Sealer
from praval_tools.journal.storage.tables import worker_calls

__all__ = ["place"]

FORGED_BODIES: dict[str, tuple[bytes, str]] = {
    "list": (b"[]", "application/json"), "object": (b"{}", "application/json"), "text": (b'"x"', "application/json"),
    "nothing": (b"", "application/json"), "no JSON": (b"[[", "application/json"), "null": (b"null", "application/json"),
    "pickle": (b"\x80\x04N.", "application/x-python-serialize"), "YAML": (b"!!python/name:os", "application/x-yaml"),
    "other arguments": (b'[[1, 2, 3], {"a": 1}, {}]', "application/json"),
    "no call": (b'[["nobody"], {}, {}]', "application/json"),
    "embedded": (b'[["nobody"], {}, {"callbacks": [{"task": "x"}], "chain": 5, "chord": []}]', "application/json"),
    "unknown type": (b"x", "application/x-unknown"), "nested": (b"[" * 100_000, "application/json"),
}  # fmt: skip
"""Bodies that nobody of ours writes, with their content types."""

FORGED_HEADERS: dict[str, dict[str, Any]] = {
    "none": {}, "unknown task": {"task": "os.system", "id": "1"}, "a list": {"task": ["x"], "id": "1"},
    "no id": {"task": RUN_ONCE}, "wrong times": {"task": RUN_ONCE, "id": "1", "eta": "never", "expires": "x"},
    "wrong limits": {"task": RUN_ONCE, "id": "1", "timelimit": "x"},
}  # fmt: skip
"""Headers that nobody of ours writes."""

OTHER_HEADERS = (
    "shadow", "stamped_headers", "stamps", "ignore_result", "replaced_task_nesting", "retries", "root_id", "parent_id",
    "argsrepr", "kwargsrepr", "origin", "group_index", "delivery_info", "reply_to", "compression", "method",
)  # fmt: skip
"""Headers that Celery reads besides those that are checked."""


@pytest.fixture(scope="module", params=[("redis", "sqlite"), ("rabbitmq", "postgres")], ids="-".join)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A place with a worker, for all tests of forged messages."""
    with open_place(*request.param, tmp_path_factory.mktemp("forged")) as place:
        place.home.start(concurrency=1)
        yield place


class TestForgedMessages:
    def check(self, served: Place, body: bytes, content_type: str, headers: dict[str, Any]) -> None:
        """Send a message, and check that the worker is there after it, and has run nothing."""
        publish(served, body, content_type, headers)
        before = served.marks
        assert before + 1 == served.execute("mark", path=str(served.file)).result
        assert served.home.workers[0].process.poll() is None

    @pytest.mark.parametrize("task", [RUN_ONCE, RUN_AGAIN])
    @pytest.mark.parametrize("kind", FORGED_BODIES)
    def test_with_bodies_of_all_kinds(self, served: Place, kind: str, task: str) -> None:
        """They are thrown away, and the next call runs."""
        body, content_type = FORGED_BODIES[kind]
        self.check(served, body, content_type, {"task": task, "id": "forged", "lang": "py"})

    @pytest.mark.parametrize("kind", FORGED_HEADERS)
    def test_with_headers_of_all_kinds(self, served: Place, kind: str) -> None:
        """So are these."""
        self.check(served, b'[["nobody"], {}, {}]', "application/json", FORGED_HEADERS[kind])

    @pytest.mark.parametrize("name", OTHER_HEADERS)
    def test_with_other_headers_that_celery_reads(self, served: Place, name: str) -> None:
        """Broken promise: one of them ended the worker, another one kept it from taking more calls."""
        for value in (-1, "x", ["x"], {"x": "y"}):
            headers = {"task": RUN_ONCE, "id": "nobody", "lang": "py", name: value}
            self.check(served, b'[["nobody"], {}, {}]', "application/json", headers)


class TestRequests:
    """The rows in the store, which a caller writes before a worker is there."""

    def test_that_were_altered(self, place: Place) -> None:
        """A request that somebody else wrote, or took from another call, runs nothing."""
        first = place.begin("mark", path=str(place.file))
        second = place.begin("take_password", password="hunter2")
        wait_until(lambda: len(read_rows(place)) == 2)
        rows = read_rows(place)
        for call_id, request in zip(rows, [rows[key] for key in reversed(rows)], strict=True):  # each has the other's
            change_row(place, call_id, request)
        place.home.start()
        for result in (first(), second()):
            assert (Outcome.ENGINE_LOST, True) == (result.outcome, "the request cannot be used" in str(result.error))
        assert 0 == place.marks

    def test_say_nothing_to_who_reads_the_store_or_the_broker(self, place: Place) -> None:
        """Arguments are sealed in the store, and messages have none."""
        wait = place.begin("take_password", password="hunter2-and-more")
        messages = list[bytes]()
        wait_until(lambda: messages.extend(read_messages(place)) or messages)  # sent after the row was written
        texts = [*read_rows(place).values(), *messages]
        assert len(texts) >= 2
        assert not any(b"hunter2" in text or b"take_password" in text for text in texts)
        place.home.start()
        assert 16 == wait().result

    @pytest.mark.parametrize(
        ("change", "outcome", "rule", "text"),
        [
            (lambda other: other.block("mark", "ann", reason="stop"), Outcome.FORBIDDEN, "blocked",
             "Tool 'mark' is forbidden for this agent."),
            (lambda other: other.disable("mark", reason="stop"), Outcome.DISABLED, "disabled",
             "Tool 'mark' is disabled."),
        ],
        ids=["blocked", "disabled"],
    )  # fmt: skip
    def test_are_decided_again_by_the_worker(
        self, place: Place, change: Callable[[ToolRegistry], object], outcome: Outcome, rule: str, text: str
    ) -> None:
        """
        What was revoked, blocked or disabled since the call was admitted does not run.

        Broken promise: the model read by whom, and why; the decision said that the call is allowed.
        """
        wait = place.begin("mark", path=str(place.file))
        wait_until(lambda: read_rows(place))
        with place.make_registry() as other:
            change(other)
        place.home.start()
        result = wait()
        assert (outcome, text, 0) == (result.outcome, result.for_model(), place.marks)
        assert result.decision is not None and (False, rule) == (result.decision.allowed, result.decision.rule)
        assert place.registry.journal is not None
        (ended,) = place.registry.journal.events(type="agent_tool_result")
        assert (
            (outcome, text) == (ended.outcome, ended.error) and "'operator'" in ended.detail and "stop" in ended.detail
        )

    def test_that_a_worker_refuses_count_towards_no_limit(self, place: Place) -> None:
        """Broken promise: the next call, which is allowed, was limited."""
        place.registry.limits.set(tool="mark", per_minute=1)
        wait = place.begin("mark", path=str(place.file))
        wait_until(lambda: read_rows(place))
        with place.make_registry() as other:
            other.block("mark", "ann", reason="stop")
        place.home.start()
        assert Outcome.FORBIDDEN is wait().outcome
        with place.make_registry() as other:
            other.unblock("mark", "ann")
        results = [place.begin("mark", path=str(place.file))().outcome for _ in range(2)]
        assert [Outcome.OK, Outcome.LIMITED] == results

    def test_of_a_grant_that_this_call_used_up(self, place: Place) -> None:
        """The last call of a counted grant is not refused for its own use; the next one is."""
        place.registry.grant("mark", "bob", max_calls=1)
        place.home.start()
        results = [
            place.registry.execute(ToolCall(None, "mark", {"path": str(place.file)}, "bob")).outcome for _ in range(2)
        ]
        assert [Outcome.OK, Outcome.FORBIDDEN] == results

    def test_of_a_grant_with_bounds(self, place: Place) -> None:
        """The worker knows them, too."""
        place.registry.grant("mark_slowly", "bob", where={"seconds": {"maximum": 1}})
        place.home.start()
        arguments = {"path": str(place.file), "seconds": 0}
        assert 1 == place.registry.execute(ToolCall(None, "mark_slowly", arguments, "bob")).result

    def test_of_a_tool_that_is_declared_otherwise_there(self, place: Place) -> None:
        """Another signature or description runs nothing."""
        place.registry.tool("mark", owned_by=place.home.owner, replace=True, description="Something else.")(
            chaos_app.mark
        )
        place.home.start()
        result = place.execute("mark", path=str(place.file))
        assert (0, True) == (place.marks, "declared otherwise" in str(result.error))

    def test_of_calls_that_the_function_makes(self, place: Place) -> None:
        """They run in the same worker, which does not wait for itself, however few processes it has."""
        place.home.start(concurrency=1)
        assert 1 == place.execute("call_mark", path=str(place.file)).result

    def test_of_calls_of_another_owners_tool(self, place: Place) -> None:
        """Broken promise: the first call that a worker, or an agent, sent from inside of a function was an error."""
        place.home.start(concurrency=1)
        assert 1 == place.execute("call_mark_from_here", path=str(place.file)).result
        place.home.start(concurrency=1, owner=chaos_app.get_other_owner(place.home.owner))
        assert 2 == place.execute("call_mark_of_another", path=str(place.file)).result


class TestSealer:
    def test_opens_what_was_sealed_for_the_same_call(self) -> None:
        """With the same key, for the same call and the same kind; nothing else."""
        sealer, answer = Sealer(b"k" * 32), WorkerAnswer(refusal="no")
        sealed = sealer.seal("a", answer)
        assert answer == sealer.open("a", sealed, WorkerAnswer)
        for opener, call_id, data, kind in (
            (Sealer(b"o" * 32), "a", sealed, WorkerAnswer), (sealer, "b", sealed, WorkerAnswer),
            (sealer, "a", sealed, WorkerRequest), (sealer, "a", sealed[:-4] + b"AAAA", WorkerAnswer),
            (sealer, "a", b"", WorkerAnswer),
        ):  # fmt: skip
            with pytest.raises(AlteredError):
                opener.open(call_id, data, kind)

    def test_seals_half_of_a_surrogate_pair(self) -> None:
        """UTF-8 cannot carry it, but models send it, and files have such names."""
        sealer, answer = Sealer(b"k" * 32), WorkerAnswer(refusal="caf\udce9")
        assert answer == sealer.open("a", sealer.seal("a", answer), WorkerAnswer)


class TestMissingParts:
    def test_no_worker(self, place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
        """The outcome says that it did not run; the log says which command starts a worker, and for whose tools."""
        monkeypatch.setattr(engine, "_TAKE_SECONDS", 0.5)
        place.registry.tool("mark", owned_by=place.home.owner, replace=True, timeout=0.2)(chaos_app.mark)
        result = place.execute("mark", path=str(place.file))
        assert Outcome.ENGINE_LOST is result.outcome
        assert "did not run" in str(result.error) and place.home.owner not in str(result.error)
        assert f"praval-tools worker --app MODULE:REGISTRY --owner '{place.home.owner}'" in caplog.text

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({}, "needs a broker"), ({"broker": "redis://127.0.0.1:1"}, "needs a journal that its workers share"),
            ({"broker": "redis://127.0.0.1:1", "journal": "memory"}, "needs a journal that its workers share"),
        ],
    )  # fmt: skip
    def test_no_broker_or_no_journal(self, options: dict[str, Any], text: str) -> None:
        """The result says what the registry needs; nothing ran."""
        with ToolRegistry(engine="celery", **options) as registry:
            registry.tool("mark", shared=True)(chaos_app.mark)
            result = registry.execute(ToolCall("1", "mark", {"path": "x"}, "ann"))
            assert (Outcome.TOOL_ERROR, 0, True) == (result.outcome, result.attempts, text in str(result.error))

    def test_a_broker_that_cannot_be_reached(self, tmp_path: Path) -> None:
        """The call ends, and says so without the password of the URL."""
        broker = "redis://user:secret@127.0.0.1:1"
        with ToolRegistry(engine="celery", broker=broker, journal=tmp_path / "runs.db") as registry:
            registry.tool("mark", shared=True)(chaos_app.mark)
            result = registry.execute(ToolCall("1", "mark", {"path": "x"}, "ann"))
        assert (Outcome.ENGINE_LOST, False) == (result.outcome, "secret" in str(result.error))
        assert "broker" in str(result.error)

    def test_nothing_of_a_call_goes_on_when_the_registry_is_closed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The thread that looks for answers has ended: it opened the store anew."""
        monkeypatch.setattr(status_reader, "_PAUSES", ((float("inf"), 3.0),))
        with ToolRegistry(engine="celery", broker="redis://127.0.0.1:1", journal=tmp_path / "runs.db") as registry:
            registry.tool("mark", shared=True)(chaos_app.mark)
            registry.execute(ToolCall("1", "mark", {"path": "x"}, "ann"))
        assert "praval-tools-workers" not in [thread.name for thread in threading.enumerate()]

    @pytest.mark.parametrize("mark", "@/?#")
    def test_a_broker_whose_password_is_written_as_it_is(self, mark: str) -> None:
        """The registry says how it is written; half of a password was taken for a port, and shown to the model."""
        with pytest.raises(ToolUsageError, match="cannot be read.*%2F for /") as caught:
            ToolRegistry(broker=f"redis://ann:secret{mark}more@127.0.0.1:1")
        assert "secret" not in str(caught.value)

    def test_a_broker_of_another_kind(self) -> None:
        """The registry says which there are, and repeats nothing of the URL."""
        with pytest.raises(ToolUsageError) as caught:
            ToolRegistry(broker="kafka://secret@host")
        assert ("redis://" in str(caught.value), "secret" in str(caught.value)) == (True, False)


class TestCommand:
    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `praval-tools worker`."""
        command = [sys.executable, "-m", "praval_tools", "worker", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def test_without_an_owner(self) -> None:
        """It says which options there are."""
        result = self.run("--app", "praval_tools.demo:registry")
        assert (2, True) == (result.returncode, "--owner AGENT" in result.stderr and "--shared" in result.stderr)

    def test_without_a_broker(self, tmp_path: Path) -> None:
        """It says what the registry needs."""
        result = self.run("--app", "praval_tools.demo:registry", "--owner", "analyst")
        assert (1, True) == (result.returncode, "needs the broker" in result.stderr), result.stderr


def test_names_of_queues() -> None:
    """A queue is named after its owner; no name is longer than brokers take, and no two owners have one."""
    names = [get_owner_queue(owner) for owner in (None, "analyst", "ä" * 128, "ä" * 127, "shared")]
    assert ["tools:shared", "tools.analyst"] == names[:2]
    assert len(set(names)) == 5
    assert all(len(name.encode()) < 256 for name in names)


# ── what is in the store and the broker ──────────────────────────────────────────────────────────


def open_store(place: Place) -> sa.engine.Connection:
    """Return a connection to the database of the journal that writes."""
    journal = place.registry.journal
    assert journal is not None
    connection: sa.engine.Connection = journal.store._database.connect_for_writing()  # type: ignore[attr-defined]
    return connection


def read_rows(place: Place) -> dict[str, bytes]:
    """Return the sealed requests of the calls that wait, by their ids."""
    with open_store(place) as connection:
        rows = connection.execute(sa.select(worker_calls.c.id, worker_calls.c.request))
        return {call_id: bytes(request) for call_id, request in rows}


def change_row(place: Place, call_id: str, request: bytes) -> None:
    """Put another request in the place of a call's."""
    with open_store(place) as connection:
        connection.execute(sa.update(worker_calls).where(worker_calls.c.id == call_id).values(request=request))


def publish(place: Place, body: bytes, content_type: str, headers: dict[str, Any]) -> None:
    """Send a message to the workers' queue."""
    from kombu import Connection, Producer, Queue

    with Connection(place.home.broker) as connection:
        queue = Queue(place.home.queue, routing_key=place.home.queue)
        producer = Producer(connection, routing_key=place.home.queue)
        producer.publish(
            body, content_type=content_type, content_encoding="utf-8", headers=headers, declare=[queue],
            serializer=None, exchange="",
        )  # fmt: skip


def read_messages(place: Place) -> list[bytes]:
    """Return what waits in the workers' queue, and leave it there."""
    from amqp.exceptions import NotFound
    from kombu import Connection

    found = []
    with suppress(NotFound), Connection(place.home.broker) as connection:  # the first message makes the queue
        channel = connection.default_channel
        while (message := channel.basic_get(place.home.queue, no_ack=False)) is not None:
            body = message.body if isinstance(message.body, bytes) else str(message.body).encode()
            found.append((message, body + repr(message.headers).encode()))
        for message, _ in found:
            channel.basic_reject(message.delivery_tag, requeue=True)
    return [text for _, text in found]
