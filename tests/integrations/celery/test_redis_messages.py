# Tests of: redis_messages, worker
"""What is put into Redis past Celery, and commands to workers: a worker throws them away, and takes the next call."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest
from chaos_rig import Place, open_place

from praval_tools.integrations.celery.broker import RUN_ONCE, make_celery


def make_message(changes: dict[str, object], options: dict[str, object] | None = None) -> bytes:
    """Return a message as Celery's transport writes it, of a call that does not exist, but for fields and options."""
    properties = {
        "delivery_tag": "tag", "delivery_info": {"exchange": "", "routing_key": "x"}, "body_encoding": "base64",
    }  # fmt: skip
    message = {
        "body": base64.b64encode(json.dumps([["nobody"], {}, {}]).encode()).decode(), "content-encoding": "utf-8",
        "content-type": "application/json", "headers": {"task": RUN_ONCE, "id": "nobody", "lang": "py"},
        "properties": {**properties, **(options or {})},
    }  # fmt: skip
    return json.dumps({**message, **changes}).encode()


def nest(depth: int) -> bytes:
    """Return a message whose headers are nested so deeply."""
    return make_message({"headers": "HEADERS"}).replace(b'"HEADERS"', b'{"x": ' * depth + b"1" + b"}" * depth)


ENTRIES: dict[str, bytes] = {
    "nothing": b"", "bytes": b"\xff\xfe\x00", "half": b'{"body": "', "text": b"hello", "nested": b"[" * 100_000,
    **{text: text.encode() for text in ("[]", "{}", "1", "null", '"x"', "NaN", "1e999")},
    "another type": b'{"__type__": "x", "__value__": 1}', "a type of no text": b'{"__type__": [], "__value__": 1}',
    "a value of no type": b'{"__type__": "decimal", "__value__": {}}',
    **{
        f"{name}: {value!r}": make_message({name: value})
        for name in ("body", "headers", "properties", "content-type", "content-encoding")
        for value in (None, 1, [], "\ud800", {"x": []})
    },
    **{
        f"option {name}: {value!r}": make_message({}, {name: value})
        for name in ("delivery_tag", "delivery_info", "body_encoding", "priority", "reply_to", "correlation_id")
        for value in (None, 1, [], "x", {"exchange": 1})
    },
    **{f"{depth} deep": nest(depth) for depth in range(850, 1_000, 5)},
}  # fmt: skip
"""What is in a list of Redis, or is published, that the transport of a worker did not write."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A place with a worker that listens to Redis."""
    with open_place("redis", "sqlite", tmp_path_factory.mktemp("entries")) as place:
        place.home.start(concurrency=1)
        yield place


def check(place: Place) -> None:
    """Check that the worker is there, and takes the next call."""
    before = place.marks
    assert before + 1 == place.execute("mark", path=str(place.file)).result
    assert place.home.workers[0].process.poll() is None


@pytest.mark.parametrize("name", ENTRIES)
def test_entries_of_its_list(served: Place, name: str) -> None:
    """Broken promise: each that the transport could not read ended the worker."""
    from redis import Redis

    with Redis.from_url(served.home.broker) as client:
        client.lpush(served.home.queue, ENTRIES[name])
    check(served)


@pytest.mark.parametrize("name", ENTRIES)
def test_what_is_published(served: Place, name: str) -> None:
    """The channel of commands takes any bytes, too."""
    from redis import Redis

    with Redis.from_url(served.home.broker) as client:
        assert client.publish(f"/{client.get_connection_kwargs()['db']}.celery.pidbox", ENTRIES[name]) == 1
    check(served)


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_commands(broker: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Broken promise: whoever could send a message ended all workers, or had them take no more calls."""
    with open_place(broker, "sqlite", tmp_path_factory.mktemp("commands")) as place:
        place.home.start(concurrency=1)
        app = make_celery(place.home.broker)
        queue, hostname = place.home.queue, f"praval-tools-{place.home.workers[0].process.pid}@"
        for command, arguments in {
            "pool_shrink": {"n": 1}, "pool_restart": {}, "cancel_consumer": {"queue": queue}, "autoscale": {"max": 0},
            "rate_limit": {"task_name": RUN_ONCE, "rate_limit": "1/h"}, "shutdown": {"msg": hostname},
            "time_limit": {"task_name": RUN_ONCE, "hard": 0.01}, "revoke": {"task_id": {"x": []}}, "": {},
        }.items():  # fmt: skip
            app.control.broadcast(command, arguments=arguments)
            check(place)
        app.close()
