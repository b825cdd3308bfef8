"""Runs under concurrency, and what repeats a recorded call: one result per call id, one place per run."""

from __future__ import annotations

from socket import gaierror
from ssl import SSLError
from typing import Annotated, Any

import pytest
from runs_rig import Rig, add_outer_tool, path, rig  # noqa: F401

from praval_tools import (
    Allow,
    NotOwnerError,
    Outcome,
    Secret,
    Tool,
    ToolAccessError,
    ToolCall,
    ToolExecutionError,
    ToolRegistry,
    ToolUsageError,
)
from praval_tools.errors import ReplayMismatchError, RunBusyError, ToolInDoubtError, UnusedCallsError


class TestMatching:
    def test_content_counts_equal_calls(self, rig: Rig) -> None:
        """Without ids the n-th equal call gets the n-th recorded result; one more runs."""
        seen: list[int] = []

        @rig.registry.tool("count", owned_by="ann")
        def count() -> int:
            """Count."""
            seen.append(1)
            return len(seen)

        tools = rig.registry.toolset("ann")
        with rig.registry.run("r"):
            assert [1, 2] == [tools.call("count"), tools.call("count")]
        with rig.registry.run("r"):
            assert [1, 2, 3] == [tools.call("count") for _ in range(3)]

    def test_a_doubtful_call_hides_no_result(self, rig: Rig) -> None:
        """Of equal calls, one in doubt does not stand before those that ended; what comes after them is in doubt."""
        ran: list[int] = []

        @rig.registry.tool("stop", owned_by="ann")
        def stop() -> int:
            """Be interrupted the first time."""
            ran.append(1)
            if len(ran) == 1:
                raise KeyboardInterrupt
            return len(ran)

        def once() -> tuple[Outcome, Any]:
            result = rig.registry.execute(ToolCall(None, "stop", {}, "ann"))
            return result.outcome, result.result

        with rig.registry.run("r"):
            with pytest.raises(KeyboardInterrupt):
                once()
            assert [(Outcome.OK, 2), (Outcome.OK, 3)] == [once(), once()]
        doubt = (Outcome.IN_DOUBT, None)
        with rig.registry.run("r") as run:
            assert [doubt, (Outcome.OK, 2), (Outcome.OK, 3), doubt] == [once() for _ in range(4)]
            run.resolve(run.in_doubt[0].tool_call_id, result=1)
            assert (Outcome.OK, 1) == once()
        assert 3 == len(ran)

    def test_a_given_id_comes_first(self, rig: Rig) -> None:
        """Of equal calls each id finds its own record, in whatever order they come."""
        ran: list[int] = []

        @rig.registry.tool("count", owned_by="ann")
        def count() -> int:
            """Count."""
            ran.append(1)
            return len(ran)

        for ids in (["a", "b", "c"], ["c", "a", "b"]):
            with rig.registry.run("r"):
                results = {one: rig.registry.execute(ToolCall(one, "count", {}, "ann")).result for one in ids}
            assert {"a": 1, "b": 2, "c": 3} == results
        assert 3 == len(ran)

    @pytest.mark.parametrize("match", ["content", "id", "position"])
    @pytest.mark.parametrize("other", [{"name": "aadd"}, {"agent": "bob"}])
    def test_a_mismatch_of_tool_or_agent(self, rig: Rig, match: Any, other: dict[str, str]) -> None:
        """The same arguments under the id, or at the place, of another tool's or agent's call are an error."""
        rig.registry.assign_tool_to_agent("add", "bob")
        with rig.registry.run("r"):
            rig.call("c", 1)
        asked = {"name": "add", "agent": "ann"} | other
        with rig.registry.run("r", match), pytest.raises(ReplayMismatchError) as caught:
            rig.registry.execute(ToolCall("c", arguments={"number": 1}, **asked))

        assert f"{asked['name']}({{'number': 1}}) by '{asked['agent']}'" == caught.value.asked
        assert ("r", "c") == (caught.value.run_id, caught.value.call_id)
        assert [1] == rig.ran

    def test_what_is_in_doubt_names_its_run_and_call(self, rig: Rig) -> None:
        """A call in doubt has the id of its run and its own in `in_doubt`, in the result, and in the error."""

        @rig.registry.tool("stop", owned_by="ann")
        def stop() -> int:
            """Be interrupted."""
            raise KeyboardInterrupt

        with rig.registry.run("r"), pytest.raises(KeyboardInterrupt):
            rig.registry.execute(ToolCall("c", "stop", {}, "ann"))
        with rig.registry.run("r") as run:
            (doubt,) = run.in_doubt
            result = rig.registry.execute(ToolCall("c", "stop", {}, "ann"))
        with rig.registry.run("r"), pytest.raises(ToolInDoubtError) as caught:
            rig.registry.toolset("ann").call("stop")

        assert ("r", "c") == (doubt.run_id, doubt.tool_call_id)
        assert ("r", "c") == (result.run_id, result.tool_call_id)
        assert ("r", "c") == (caught.value.run_id, caught.value.call_id)

    def test_a_new_id_stands_for_its_record(self, rig: Rig) -> None:
        """An id that found its record by content stands for that call from then on, at once and later."""
        with rig.registry.run("r"):
            rig.call("old", 1)
        with rig.registry.run("r"):
            first, second = rig.call("new", 1), rig.call("new", 1)
            assert ["new", "new"] == [first.tool_call_id, second.tool_call_id]
            with pytest.raises(ReplayMismatchError):
                rig.call("new", 2)

        assert [1] == rig.ran
        assert [True, True] == [first.replayed, second.replayed]

    def test_new_ids_of_a_batch(self, rig: Rig) -> None:
        """The same where both come at once."""
        with rig.registry.run("r"):
            rig.call("old", 1)
        with rig.registry.run("r"):
            rig.registry.execute_batch([ToolCall("new", "add", {"number": 1}, "ann")] * 4)

        assert [1] == rig.ran

    def test_the_same_id_again(self, rig: Rig) -> None:
        """An id asked for again within one opening gets what was recorded a moment ago."""
        with rig.registry.run("r"):
            results = [rig.call("c", 1), rig.call("c", 1)]

        assert [False, True] == [result.replayed for result in results]
        assert [1] == rig.ran

    def test_arguments_in_any_spelling(self, rig: Rig) -> None:
        """Repaired arguments and JSON text find the record of what they mean."""
        with rig.registry.run("r"):
            rig.call("c", 1)
        with rig.registry.run("r"):
            for spelled in ('{"number": 1}', {"number": "1"}):
                assert rig.registry.execute(ToolCall("c", "add", spelled, "ann")).replayed
        assert [1] == rig.ran

    @pytest.mark.parametrize("match", ["content", "id", "position"])
    def test_mismatch_names_both(self, rig: Rig, match: Any) -> None:
        """An id, or a place, that belongs to another call is an error that shows what was recorded and what came."""
        with rig.registry.run("r"):
            rig.call("c", 1)
        with rig.registry.run("r", match), pytest.raises(ReplayMismatchError) as caught:
            rig.call("c", 2)

        assert "add({'number': 1}) by 'ann'" == caught.value.recorded
        assert "add({'number': 2}) by 'ann'" == caught.value.asked
        assert [1] == rig.ran

    def test_id_alone(self, rig: Rig) -> None:
        """With `match="id"` an equal call with another id is another call."""
        with rig.registry.run("r", "id"):
            rig.call("a", 1)
        with rig.registry.run("r", "id"):
            assert rig.call("a", 1).replayed
            assert not rig.call("b", 1).replayed

    def test_id_with_calls_that_have_none(self, rig: Rig) -> None:
        """With `match="id"` a call without an id, such as one from inside of a tool, is found by its content."""
        tools = rig.registry.toolset("ann")
        with rig.registry.run("r", "id"):
            tools.call("add", number=1)
        with rig.registry.run("r", "id"):
            tools.call("add", number=1)

        assert [1] == rig.ran

    def test_position(self, rig: Rig) -> None:
        """With `match="position"` the n-th call is the n-th, whatever its id."""
        with rig.registry.run("r", "position"):
            rig.call("a", 1)
            rig.call("b", 2)
        with rig.registry.run("r", "position"):
            assert [True, True, False] == [rig.call(f"x{at}", at).replayed for at in (1, 2, 3)]
        with rig.registry.run("r", "position"), pytest.raises(ReplayMismatchError):
            rig.call("b", 2)

    def test_a_position_outlives_a_mismatch(self, rig: Rig) -> None:
        """A call that is not the recorded one takes nobody's place: a program that goes on repeats no effect."""
        with rig.registry.run("r", "position"):
            rig.call("a", 1)
        with rig.registry.run("r", "position"):
            with pytest.raises(ReplayMismatchError):
                rig.call("b", 2)
            assert rig.call("c", 1).replayed
        assert [1] == rig.ran

    def test_position_of_nested_calls(self, rig: Rig) -> None:
        """Calls from inside of a replayed call have no place among its neighbours."""
        add_outer_tool(rig)
        for replayed in (False, True):
            with rig.registry.run("r", "position") as run:
                assert [replayed] * 2 == [rig.call("a", 1, "outer").replayed, rig.call("b", 7).replayed]
                assert [] == run.unused
        assert [10, 7] == rig.ran

    def test_position_and_one_id_twice(self, rig: Rig) -> None:
        """One id asked for twice has one place."""
        for _ in range(2):
            with rig.registry.run("r", "position"):
                assert [2, 2, 3] == [rig.call("a", 1).result, rig.call("a", 1).result, rig.call("b", 2).result]
        assert [1, 2] == rig.ran

    def test_strict(self, rig: Rig) -> None:
        """`unused` names what was not asked for again; with `strict=True` leaving the run is an error that does."""
        with rig.registry.run("r"):
            rig.call("a", 1)
            rig.call("b", 2)
        with rig.registry.run("r") as run:
            rig.call("a", 1)
            assert ["b"] == [recorded.tool_call_id for recorded in run.unused]
        with pytest.raises(UnusedCallsError, match="'b'"), rig.registry.run("r", strict=True):
            rig.call("a", 1)
        with pytest.raises(ZeroDivisionError), rig.registry.run("r", strict=True):
            _ = 1 / 0
        with rig.registry.run("r", strict=True):
            rig.call("a", 1)
            rig.call("b", 2)

    def test_strict_and_nested(self, rig: Rig) -> None:
        """Children of a replayed call are not unused."""
        add_outer_tool(rig)
        for _ in range(2):
            with rig.registry.run("r", strict=True):
                assert 11 == rig.call("a", 1, "outer").result
        assert [10] == rig.ran

    def test_fingerprint(self, rig: Rig) -> None:
        """A changed tool's recorded result still replays; `strict_fingerprint` refuses, and names both."""
        with rig.registry.run("r"):
            rig.call("a", 1)

        def changed(number: int, more: str = "") -> int:
            """Add two."""
            return number + 2

        rig.registry.register_tool(Tool.from_function(changed, "add", owned_by="ann"), replace=True)
        with rig.registry.run("r"):
            assert 2 == rig.call("a", 1).result
        with rig.registry.run("r", strict_fingerprint=True), pytest.raises(ReplayMismatchError, match="fingerprint"):
            rig.call("a", 1)

    def test_fingerprint_of_a_configured_tool(self, rig: Rig) -> None:
        """A tool whose description was configured is the same tool as long as that stays."""
        rig.registry.configure("add", description="Add the number one.")
        for _ in range(2):
            with rig.registry.run("r", strict_fingerprint=True):
                rig.call("a", 1)
        rig.registry.configure("add", description="Add one to a number.")

        with rig.registry.run("r", strict_fingerprint=True), pytest.raises(ReplayMismatchError, match="fingerprint"):
            rig.call("a", 1)

    @pytest.mark.parametrize("again", [{"number": 1.0}, '{"number": 1.0}', '{"number":1}'])
    def test_equal_arguments(self, rig: Rig, again: Any) -> None:
        """A whole number is the same however it is spelled."""
        for arguments in ({"number": 1}, again):
            with rig.registry.run("r"):
                assert 2 == rig.registry.execute(ToolCall("a", "add", arguments, "ann")).result

        assert [1] == rig.ran

    def test_final_refusals(self, rig: Rig) -> None:
        """What was refused stays so when the run is opened again, though nothing stands in the way any more."""
        home = rig.registry
        home.tool("off", owned_by="ann", description="Run.")(lambda: rig.ran.append("off"))
        home.tool("asks", owned_by="ann", description="Run.", requires_approval=True)(lambda: rig.ran.append("asks"))
        home.tool("bobs", owned_by="bob", description="Run.")(lambda: rig.ran.append("bobs"))
        home.disable("off")
        home.set_approval_handler(lambda _: None)
        home.limits.set(tool="aadd", per_minute=1)
        assert 6 == rig.call(None, 5, "aadd").result
        calls = [
            ToolCall(call_id, name, arguments, "ann")
            for call_id, name, arguments in (
                ("unknown", "later", {}),
                ("forbidden", "bobs", {}),
                ("disabled", "off", {}),
                ("denied", "asks", {}),
                ("limited", "aadd", {"number": 1}),
                ("invalid", "add", {"number": "x"}),
            )
        ]
        with home.run("r"):
            first = [home.execute(recorded) for recorded in calls]
        outcomes = "unknown_tool forbidden disabled approval_denied limited invalid_arguments"
        assert outcomes.split() == [one.outcome for one in first]

        home.tool("later", owned_by="ann", description="Run.")(lambda: rig.ran.append("later"))
        home.assign_tool_to_agent("bobs", "ann")
        home.enable("off")
        home.set_approval_handler(lambda _: Allow())
        home.limits.set(tool="aadd")
        with home.run("r") as run:
            again = [home.execute(recorded) for recorded in calls]
            assert [] == run.unused
        assert [(one.outcome, one.error, one.error_type, True) for one in first] == [
            (one.outcome, one.error, one.error_type, one.replayed) for one in again
        ]
        assert [5] == rig.ran
        with home.run("other"):
            assert ["ok"] * 5 == [home.execute(recorded).outcome for recorded in calls[:5]]

    def test_what_call_raises(self, rig: Rig) -> None:
        """A replayed error is raised as the class that the tool raised; one in doubt names run and call."""

        @rig.registry.tool("fail", owned_by="ann")
        def fail(number: int) -> None:
            """Fail, the second way for good."""
            rig.ran.append(number)
            raise ValueError("no") if number == 1 else KeyboardInterrupt

        for _ in range(2):
            with rig.registry.run("r"), pytest.raises(ValueError, match="no") as caught:
                rig.registry.toolset("ann").call("fail", number=1)
            assert isinstance(caught.value, ToolExecutionError)
        with rig.registry.run("r") as run, pytest.raises(KeyboardInterrupt):
            rig.registry.toolset("ann").call("fail", number=2)
        with rig.registry.run("r") as run:
            with pytest.raises(ToolInDoubtError) as doubt:
                rig.registry.toolset("ann").call("fail", number=2)
            (one,) = run.in_doubt
            assert ("r", one.tool_call_id) == (doubt.value.run, doubt.value.call)
        assert [1, 2] == rig.ran

    @pytest.mark.parametrize(
        ("error", "number"),
        [
            (FileNotFoundError(2, "no", "f"), 2),
            (ConnectionError("no"), None),
            (gaierror(-2, "Name or service not known"), -2),
            (SSLError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"), 1),
            (OSError("[Errno 13] no number"), None),
        ],
    )
    def test_what_a_replayed_os_error_has(self, rig: Rig, error: OSError, number: int | None) -> None:
        """Broken promise: its number was its text, or lost, so that a program went another way."""

        @rig.registry.tool("open", owned_by="ann")
        def fail() -> None:
            """Fail."""
            raise error

        for name in (error.filename, None):
            with rig.registry.run("r"), pytest.raises(OSError) as caught:
                rig.registry.toolset("ann").call("open")
            assert (number, name, str(error)) == (caught.value.errno, caught.value.filename, str(caught.value))

    @pytest.mark.parametrize(("number", "replayed"), [(28, 28), (4_711, None), (2**80, None)])
    def test_the_number_of_an_error_with_a_masked_text(self, number: int, replayed: int | None) -> None:
        """It is recorded beside the text, unless it is a secret, or none of the operating system."""
        with ToolRegistry(journal="memory", errors="masked") as registry:

            @registry.tool(owned_by="ann")
            def write(pin: Annotated[int, Secret]) -> None:
                """Write."""
                raise OSError(number, "no space")

            for expected in (number, replayed):
                with registry.run("r"), pytest.raises(OSError, match="error id") as caught:
                    registry.toolset("ann").call("write", pin=4_711)
                assert expected == caught.value.errno

    def test_a_replayed_refusal_names_the_owner(self, rig: Rig) -> None:
        """Broken promise: it said that the tool had none."""
        rig.registry.tool("close", owned_by="ann", description="Close.")(lambda: None)

        for _ in range(2):
            with rig.registry.run("r"), pytest.raises(ToolAccessError, match="owner 'ann'"):
                rig.registry.toolset("bob").call("close")

    def test_who_resolves(self, rig: Rig) -> None:
        """The operator alone, a call that is in doubt, with one answer; nothing else changes how it stands."""
        refused: list[Exception] = []

        @rig.registry.tool("stop", owned_by="ann")
        def stop() -> None:
            """Be stopped."""
            raise KeyboardInterrupt

        @rig.registry.tool("resolve", owned_by="ann")
        def resolve() -> None:
            """Try to resolve, which is not an agent's."""
            try:
                run.resolve("s", rerun=True)
            except NotOwnerError as error:
                refused.append(error)

        with rig.registry.run("r") as run:
            with pytest.raises(KeyboardInterrupt):
                rig.registry.execute(ToolCall("s", "stop", {}, "ann"))
            assert "ok" == rig.registry.execute(ToolCall("x", "resolve", {}, "ann")).outcome
            assert 1 == len(refused)
            for answers in ({}, {"result": 1, "rerun": True}, {"result": None, "error": "x"}):
                with pytest.raises(ToolUsageError, match="Pass one of"):
                    run.resolve("s", **answers)
            for call_id in ("x", "nope"):
                with pytest.raises(ToolUsageError, match="in doubt are: 's'") as caught:
                    run.resolve(call_id, rerun=True)
                assert "not-in-doubt" == caught.value.code
            with pytest.raises(RunBusyError):
                rig.registry.journal.resolve("r", "s", rerun=True)
            assert ["s"] == [recorded.tool_call_id for recorded in run.in_doubt]

    def test_tool_gone(self, rig: Rig) -> None:
        """The recorded result of a tool that is gone replays; `strict_fingerprint` says that it is gone."""
        with rig.registry.run("r"):
            rig.call("a", 1)
        rig.registry.unregister_tool("add")
        with rig.registry.run("r"):
            assert (2, True) == ((one := rig.call("a", 1)).result, one.replayed)
        with rig.registry.run("r", strict_fingerprint=True), pytest.raises(ReplayMismatchError, match="gone"):
            rig.call("a", 1)

    def test_grant_gone(self, rig: Rig) -> None:
        """Recorded results are exempt from today's grants; what would run is not."""
        rig.registry.assign_tool_to_agent("add", "bob")
        call = ToolCall("a", "add", {"number": 1}, "bob")
        with rig.registry.run("r"):
            rig.registry.execute(call)
        rig.registry.block("add", "bob")
        with rig.registry.run("r"):
            assert 2 == rig.registry.execute(call).result
            assert "forbidden" == rig.registry.execute(ToolCall("b", "add", {"number": 2}, "bob")).outcome
