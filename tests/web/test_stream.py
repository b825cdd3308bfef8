"""Streams of server-sent events: news of other processes, resuming, limits, heart-beats, sessions that end."""

# Tests of: feed, event_stream

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from activity_rig import Server, serve_journal
from journal_rig import intent, note, record, result
from mcp_client_rig import wait_until

from praval_tools.journal import Item, open_store
from praval_tools.web.activity import event_stream
from praval_tools.web.activity.event_stream import EventStream
from praval_tools.web.activity.feed import Feed, TooManyStreamsError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The journal."""
    return tmp_path / "runs.db"


@pytest.fixture
def server(path: Path) -> Iterator[Server]:
    """A server over an empty journal."""
    with serve_journal(path) as server:
        yield server


def _iter_events(answer: httpx.Response) -> Iterator[dict[str, str]]:
    """Yield the events of a stream, without comments."""
    event: dict[str, str] = {}
    for line in answer.iter_lines():
        if not line and "event" in event:
            yield event
            event = {}
        elif line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            event[name] = value


class TestNews:
    def test_what_another_writer_records_is_announced(self, server: Server, path: Path) -> None:
        """Of its topic alone; the number of the event goes with it."""
        other = open_store(path)
        with httpx.stream("GET", f"{server.url}/activity/stream?topic=run:b", timeout=30) as answer:
            assert "text/event-stream" in answer.headers["content-type"]
            wait_until(lambda: server.activity.feed.stream_count)
            other.append([intent("a", "a", tool="t"), note()])
            other.append([intent("c", "b", tool="t"), result("c", "b", tool="t")])
            event = next(_iter_events(answer))
        assert ("news", "4") == (event["event"], event["id"]) or "3" == event["id"]
        other.close()
        wait_until(lambda: server.activity.feed.stream_count == 0)

    def test_a_reader_that_comes_back_learns_what_it_missed(self, server: Server, path: Path) -> None:
        """By the number of the latest event that it knew; one that knows all waits."""
        with open_store(path) as other:  # type: ignore[attr-defined]
            other.append([intent("a", "a", tool="t")])
            seq = other.last_seq()
        wait_until(lambda: server.activity.index.progress.seq >= seq)
        for header in ("0", str(seq - 1)):
            url, known = f"{server.url}/activity/stream?topic=calls&after=99", {"last-event-id": header}
            with httpx.stream("GET", url, headers=known, timeout=30) as answer:
                assert str(seq) == next(_iter_events(answer))["id"]

    def test_an_approval_is_news_of_its_own(self, path: Path) -> None:
        """Events of other kinds are not."""

        async def follow() -> int | None:
            feed = Feed()
            with feed.subscribe("approvals", "s", 0) as subscription:
                feed.publish([record("c", type="agent_tool_call", call_id="c")])
                nothing = await subscription.wait(0.01)
                asked = Item((record("q", type="approval_asked", call_id="c"),)).records
                feed.publish([_number(asked[0], 7)])
                return nothing or await subscription.wait(30)

        assert 7 == asyncio.run(follow())

    def test_there_is_no_other_topic(self, server: Server) -> None:
        """A stream of anything else is refused."""
        assert 404 == httpx.get(f"{server.url}/activity/stream?topic=x").status_code


def _number(one: Any, seq: int) -> Any:
    import msgspec

    return msgspec.structs.replace(one, seq=seq)


class TestLimits:
    def test_a_session_has_a_number_of_streams_and_all_have_one(self) -> None:
        """One more is refused; one that ends makes room."""

        async def open_many() -> None:
            feed = Feed(max_streams=3, max_streams_of_session=2)
            with feed.subscribe("calls", "a", 0), feed.subscribe("calls", "a", 0):
                with pytest.raises(TooManyStreamsError), feed.subscribe("calls", "a", 0):
                    raise AssertionError
                with feed.subscribe("calls", "b", 0):
                    with pytest.raises(TooManyStreamsError), feed.subscribe("calls", "c", 0):
                        raise AssertionError
                assert 2 == feed.stream_count
            assert 0 == feed.stream_count

        asyncio.run(open_many())

    def test_a_person_has_a_number_of_streams_in_all_sessions(self) -> None:
        """Whoever logs in again and again takes none of the others' streams."""

        async def open_many() -> int:
            feed, opened = Feed(), 0
            with ExitStack() as stack:
                for number in range(13 * 8):
                    with suppress(TooManyStreamsError):
                        stack.enter_context(feed.subscribe("calls", f"s{number % 13}", 0, person="vera"))
                        opened += 1
                stack.enter_context(feed.subscribe("calls", "other", 0, person="olga"))
            return opened

        assert 16 == asyncio.run(open_many())

    def test_who_opens_too_many_gets_a_status(self, server: Server) -> None:
        """By the status, which a browser does not try again."""
        url = f"{server.url}/activity/stream?topic=calls"
        with httpx.Client(timeout=30) as client:
            streams = [client.stream("GET", url) for _ in range(8)]
            for stream in streams:
                stream.__enter__()
            assert 429 == client.get(url).status_code
            for stream in streams:
                stream.__exit__(None, None, None)
        wait_until(lambda: server.activity.feed.stream_count == 0)

    def test_a_reader_that_does_not_read_is_dropped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """After some seconds, and one notice at most waits for it."""
        monkeypatch.setattr(event_stream, "SEND_SECONDS", 0.05)

        async def stream() -> int:
            feed = Feed()

            async def receive() -> Any:
                await asyncio.Event().wait()

            async def send(message: Any) -> None:
                if b"news" in message.get("body", b""):
                    await asyncio.Event().wait()  # its connection takes nothing more

            response = EventStream(feed, "calls", session="a", seq=0, is_session_live=lambda: True)
            task = asyncio.ensure_future(response({"type": "http"}, receive, send))
            while not feed.stream_count:
                await asyncio.sleep(0)
            for seq in range(1, 1_000):
                feed.publish([_number(record("c", call_id="c"), seq)])
            await asyncio.wait_for(task, 30)
            return feed.stream_count

        assert 0 == asyncio.run(stream())

    def test_a_stream_ends_with_its_session(self) -> None:
        """At the next heart-beat, which keeps it open until then."""

        async def stream() -> bytes:
            sent, lives = list[bytes](), iter([True, True, False])

            async def receive() -> Any:
                await asyncio.Event().wait()

            async def send(message: Any) -> None:
                sent.append(message.get("body", b""))

            response = EventStream(
                Feed(), "calls", session="a", seq=0, is_session_live=lambda: next(lives), heartbeat=0.01
            )
            await asyncio.wait_for(response({"type": "http"}, receive, send), 30)
            return b"".join(sent)

        text = asyncio.run(stream())
        assert 2 == text.count(b": heart-beat")
        assert text.endswith(b"event: end\ndata: The session is over.\n\n")
