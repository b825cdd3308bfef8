"""Calls and prompts that differ are different ones on replay, whatever is hidden in what is recorded of them."""

# Tests of: journal/digests, runs/matching, runs/model_log

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest

from praval_tools import Allow, Outcome, Secret, ToolCall, ToolRegistry
from praval_tools.errors import ReplayMismatchError
from praval_tools.loop import StopReason, ToolLoop
from praval_tools.testing import fake_model

PASSWORD, PIN = "hunter2-hunter2", "swordfish"
ENCODED = b64encode(PASSWORD.encode()).decode()
PAIRS = [
    (PASSWORD, ENCODED),
    (PASSWORD, PASSWORD.encode().hex()),
    ("https://x/?t=a+b hunter2-hunter2", "https://x/?t=a+b hunter2%2Dhunter2"),
    (PASSWORD + PIN, PASSWORD),
    (PASSWORD + PIN, PASSWORD * 2),
    ('{"password": "x1x1x1", "a": 1}', '{"password":"x1x1x1","a":1}'),
    ('{"key": "hunter2-hunter2"}', '{"key": "hunter2-hunter2hunter2-hunter2"}'),
]
RAN: list[str] = []


@contextmanager
def open_registry(path: Path, default: str = "") -> Iterator[ToolRegistry]:
    """Open a registry whose tool `send` notes in `RAN` what it sends."""
    with ToolRegistry(journal=path / "runs.db") as registry:

        @registry.tool("send", shared=True)
        def send(
            body: str, password: Annotated[str, Secret] = default, pin: Annotated[str, Secret] = "", count: int = 1
        ) -> str:
            """Send a letter."""
            RAN.append(body)
            return body[::-1]

        RAN.clear()
        yield registry


def send_in_run(
    registry: ToolRegistry, body: str, *, call_id: str | None = None,
    match: Literal["content", "id", "position"] = "content",
) -> Any:  # fmt: skip
    """Send *body* in run `r`, with the secrets."""
    with registry.run("r", match=match):
        arguments = {"password": PASSWORD, "pin": PIN, "body": body}
        return registry.execute(ToolCall(call_id, "send", arguments, "ann"))


class TestCallsThatDiffer:
    """
    Broken promise: texts in which the same markers were recorded counted as equal, so that the second call was not
    made, and got the result of the first.
    """

    @pytest.mark.parametrize("first, second", PAIRS)
    def test_are_both_made(self, first: str, second: str, tmp_path: Path) -> None:
        """In the process that made the first one, and in the next."""
        with open_registry(tmp_path) as registry:
            assert first[::-1] == send_in_run(registry, first).result
        with open_registry(tmp_path) as registry:
            results = [send_in_run(registry, body).result for body in (second, first)]
            replayed = [send_in_run(registry, body).replayed for body in (first, second)]

        assert ([second[::-1], first[::-1]], [second]) == (results, RAN)
        assert [True, True] == replayed

    @pytest.mark.parametrize(
        "value, text",
        [
            (date(2020, 1, 1), "2020-01-01"),
            (b"abc", "YWJj"),
            (UUID(int=5), str(UUID(int=5))),
            ({1, 2}, [1, 2]),
            (timedelta(1), "P1D"),
            (Decimal(1), "1"),
        ],
        ids=["date", "bytes", "UUID", "set", "timedelta", "Decimal"],
    )
    @pytest.mark.parametrize("more", [{}, {"password": PASSWORD}], ids=["plain", "secret"])
    def test_as_values_and_as_text(self, value: Any, text: Any, more: Any, tmp_path: Path) -> None:
        """Broken promise: a call with a value that is not JSON stood for the one with its text, which was not made."""
        for arguments in ({"body": value, **more}, {"body": text, **more}):
            with ToolRegistry(journal=tmp_path / "runs.db") as registry:

                @registry.tool("send", owned_by="ann")
                def send(body: str | list[int], password: str = "") -> str:
                    """Send."""
                    return "sent"

                with registry.run("r"):
                    result = registry.execute(ToolCall(None, "send", arguments, "ann"))
        assert (result.outcome, result.replayed) == (Outcome.OK, False)

    @pytest.mark.parametrize("first, second", PAIRS)
    @pytest.mark.parametrize("call_id, match", [("c", "content"), ("c", "id"), (None, "position")])
    def test_are_refused_in_one_place(
        self, call_id: str | None, match: Literal["content", "id", "position"], first: str, second: str, tmp_path: Path
    ) -> None:
        """Under one id or at one position; the error quotes no secret, and says why they differ."""
        with open_registry(tmp_path) as registry:
            send_in_run(registry, first, call_id=call_id, match=match)
        with open_registry(tmp_path) as registry:
            with pytest.raises(ReplayMismatchError) as caught:
                send_in_run(registry, second, call_id=call_id, match=match)

            assert send_in_run(registry, first, call_id=call_id, match=match).replayed
        assert [] == RAN
        assert not [secret for secret in (PASSWORD, ENCODED, PIN) if secret in str(caught.value)]
        assert "They may differ in what is hidden or cut." in str(caught.value)

    @pytest.mark.parametrize("first, second", PAIRS)
    def test_are_both_approved(self, first: str, second: str) -> None:
        """A person sees each of them."""
        with ToolRegistry(journal="memory") as registry:

            @registry.tool("send", shared=True, requires_approval=True)
            def send(password: Annotated[str, Secret], pin: Annotated[str, Secret], body: str) -> str:
                """Send a letter."""
                return body

            asked: list[object] = []
            registry.set_approval_handler(lambda request: asked.append(request.arguments["body"]) or Allow(by="eve"))

            assert [first, second] == [send_in_run(registry, body).result for body in (first, second)] == asked

    @pytest.mark.parametrize("first, second", PAIRS)
    def test_begin_other_conversations(self, first: str, second: str, tmp_path: Path) -> None:
        """A prompt is not answered with the reply to another one."""
        prompts = [f"password: {PASSWORD}; pin: {PIN}; send {body}" for body in (first, second)]
        with open_registry(tmp_path) as registry:
            assert "One." == ToolLoop(registry.agent("ann"), fake_model("One.")).run(prompts[0], "r").text
        with open_registry(tmp_path) as registry:
            with pytest.raises(ReplayMismatchError):
                ToolLoop(registry.agent("ann"), fake_model("Two.")).run(prompts[1], "r")

            assert "One." == ToolLoop(registry.agent("ann"), fake_model()).run(prompts[0], "r").text

    def test_are_other_calls_of_a_step_that_is_asked_for_again(self) -> None:
        """A model that is asked once more for what the journal does not keep may ask for another call."""
        ran: list[str] = []
        with ToolRegistry(journal="memory") as registry:

            @registry.tool("send", shared=True, requires_approval=True)
            def send(password: Annotated[str, Secret], body: str) -> str:
                """Send a letter."""
                ran.append(body)
                return "sent"

            calls = [
                ToolCall(name, "send", {"password": PASSWORD, "body": body})
                for name, body in (("a", PASSWORD), ("b", ENCODED), ("c", ENCODED))
            ]
            loop = ToolLoop(registry.agent("ann"), fake_model(*calls, "Done."))
            assert StopReason.APPROVAL_REQUIRED is loop.run("Go.", "r").reason
            ended = loop.resume("r")
            registry.approvals.answer(ended.waiting[0], Allow())

            assert ("Done.", [ENCODED]) == (loop.resume("r").text, ran)


class TestCallsThatAreEqual:
    @pytest.mark.parametrize("body", [PAIRS[0][1], PAIRS[3][0], PAIRS[5][0]])
    def test_are_made_once(self, body: str, tmp_path: Path) -> None:
        """However they are passed: as values or JSON text, in any order, and with what coercion repairs."""
        arguments: dict[str, object] = {"password": PASSWORD, "pin": PIN, "body": body, "count": 2}
        turned = {**dict(reversed(arguments.items())), "count": "2"}
        ways = [arguments, json.dumps(arguments, indent=1), turned, json.dumps(turned), {**arguments, "count": 2.0}]
        with open_registry(tmp_path) as registry:
            for number, way in enumerate(ways):
                for other in (way, *ways):
                    with registry.run(f"{number}"):
                        result = registry.execute(ToolCall(None, "send", other, "ann"))

                    assert (Outcome.OK, number + 1) == (result.outcome, len(RAN)), (way, other)

    def test_do_not_depend_on_which_secrets_are_known(self, tmp_path: Path) -> None:
        """Where any are hidden; the secret default of a tool may be another one in another process."""
        for number, default in enumerate((PASSWORD, PIN, PASSWORD + " or")):
            with open_registry(tmp_path, default) as registry, registry.run("r"):
                body = f"{PASSWORD} or {PIN}"
                result = registry.execute(ToolCall(None, "send", {"body": body}, "ann"))

                assert (Outcome.OK, number > 0) == (result.outcome, result.replayed)

    def test_show_nothing_by_their_digests(self) -> None:
        """Each journal has a key of its own, so that nobody can try passwords on the rest of a call."""
        digests = set()
        for _ in range(2):
            with ToolRegistry(journal="memory") as registry:

                @registry.tool("log_in", shared=True)
                def log_in(password: str) -> str:
                    """Log in."""
                    return "in"

                with registry.run("r"):
                    registry.execute(ToolCall("c", "log_in", {"password": "4711"}, "ann"))
                digests |= {event.digest for event in registry.journal.events(type="agent_tool_call")}

        assert 2 == len(digests)
