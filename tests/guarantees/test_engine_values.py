"""Whichever engine runs a tool, and whatever records it: the same values go in, and the same come out."""

# Tests of: execution/selection, execution/described_results

from __future__ import annotations

import json
import os
import threading
from typing import Any

import engine_tools
import pytest
from engine_rig import Home, home, make_registry  # noqa: F401
from engine_tools import LOOSE, Order, Point

from praval_tools import Content, Outcome, ToolCall, ToolRegistry

VALUES: list[Any] = [None, "ä😀", 2**70, -1.5, [], {"a": [{}]}, {"praval:set": [1]}, "x" * 10**6]


class TestArguments:
    def test_are_bound_with_defaults(self, home: Home) -> None:
        """A default counts where nothing is given; from sync and async code."""
        assert [5, 4] == [home.ann.call("add", x=3), home.ann.call("add", x=3, y=1)]
        assert 5 == home.aexecute("add", x=3).result

    def test_are_repaired(self, home: Home) -> None:
        """JSON text, and a number as text: what is repaired is what the function gets, and the result names it."""
        result = home.registry.execute(ToolCall("1", "add", '{"x": "3"}', "ann"))
        assert (Outcome.OK, 5, 1) == (result.outcome, result.result, len(result.repairs))

    def test_become_the_types_of_the_hints(self, home: Home) -> None:
        """Classes of parameters are made of JSON where the function runs."""
        expected = ["Order", "1.50", "Point", 2.5]
        assert expected == home.ann.call("order", order={"amount": "1.50"}, point={"x": 1, "y": 2.5})
        given = ToolCall("1", "order", {"order": {"amount": "1.50"}, "point": {"x": 1, "y": 2.5}}, "ann")
        assert expected == home.registry.execute(given).result

    @pytest.mark.parametrize("value", VALUES, ids=lambda value: str(value)[:20])
    def test_travel_unchanged(self, home: Home, value: Any) -> None:
        """What is given is what arrives, also 1 MB of it."""
        result = home.execute("echo", value=value)
        assert (Outcome.OK, value, type(value)) == (result.outcome, result.result, type(result.result))

    def test_that_do_not_fit_run_nothing(self, home: Home) -> None:
        """Wrong arguments are reported as such."""
        result = home.execute("add", x="no", z=1)
        assert (Outcome.INVALID_ARGUMENTS, 0) == (result.outcome, result.attempts)


class TestJudgedArguments:
    """What policies are shown is what the function gets, also where classes make their own values."""

    @pytest.fixture
    def judged(self, home: Home) -> Any:
        """What a policy was shown."""
        shown: list[Any] = []
        remove = home.registry.add_policy(lambda agent, tool, arguments: shown.append(arguments))
        yield shown
        remove()

    def test_of_a_class_with_random_defaults(self, home: Home, judged: list[Any]) -> None:
        """The value that was judged runs, not another that the class makes in another process."""
        result = home.execute("take_stamped", stamped={"name": "n"})
        assert ["n", judged[-1]["stamped"]["number"]] == result.result

    def test_of_a_class_that_changes_its_values(self, home: Home, judged: list[Any]) -> None:
        """A class that makes ten of one is applied once."""
        assert 10 == home.execute("take_tenfold", tenfold={"amount": 1}).result
        assert {"tenfold": {"amount": 10}} == judged[-1]

    def test_of_a_class_that_differs_in_each_process(self, home: Home, judged: list[Any]) -> None:
        """Where the other process makes another value of the class, nothing runs."""
        result = home.execute("take_unsteady", unsteady={"amount": 1})
        if home.is_remote:
            assert (Outcome.TOOL_ERROR, True) == (result.outcome, "judged" in str(result.error))
        else:
            assert judged[-1]["unsteady"]["amount"] == result.result == 1 + os.getpid()

    def test_of_a_field_that_no_constructor_takes(self, home: Home, judged: list[Any]) -> None:
        """The same where a class makes another value of such a field, which a policy was shown."""
        result = home.execute("take_placed", placed={"amount": 1})
        assert {"placed": {"amount": 1, "place": os.getpid()}} == judged[-1]
        if home.is_remote:
            assert (Outcome.TOOL_ERROR, True) == (result.outcome, "judged" in str(result.error))
        else:
            assert [1, os.getpid()] == result.result


def test_a_field_that_no_constructor_takes_runs_where_nobody_judged_it(home: Home) -> None:
    """Each process may make another value of it."""
    result = home.execute("take_placed", placed={"amount": 1})
    assert (Outcome.OK, 1) == (result.outcome, result.result[0])
    assert home.is_remote is (os.getpid() != result.result[1])


class TestResults:
    def test_have_the_type_of_the_return_hint(self, home: Home) -> None:
        """A named tuple, a data class, and one inside of lists come back as such."""
        for function in (engine_tools.give_point, engine_tools.give_order, engine_tools.give_orders):
            result = home.execute(function.__name__)
            assert (function(), type(function())) == (result.result, type(result.result))
        assert (Point(1, 2.5), Order) == (home.ann.call("give_point"), type(home.aexecute("give_order").result))

    @pytest.mark.parametrize("name", ["give_event", "give_events"])
    def test_may_hold_what_no_argument_may(self, home: Home, name: str) -> None:
        """
        Broken promise: a model with a time without a zone, a negative span or a flag came back as a dict, and was
        recorded as an error where another process made it.
        """
        expected = getattr(engine_tools, name)()
        results = home.execute_twice(name)
        assert [(Outcome.OK, expected)] * len(results) == [(result.outcome, result.result) for result in results]

    def test_that_no_class_reads_back_are_json(self, home: Home) -> None:
        """Broken promise: what stays JSON out of another process was recorded as an error of a call that succeeded."""
        first, *replayed = home.execute_twice("give_price")
        written = {"amount": "1.50 EUR"}
        assert (Outcome.OK, written if home.is_remote else engine_tools.give_price()) == (first.outcome, first.result)
        assert [(Outcome.OK, written)] * len(replayed) == [(result.outcome, result.result) for result in replayed]

    @pytest.mark.parametrize("engine", ["inline", "process"])
    def test_that_stay_json_are_handed_on(self, engine: str) -> None:
        """Broken promise: as JSON text, and for a tool in another process, they were errors."""
        written = {"amount": "1.50 EUR"}
        with make_registry("process", "memory") as registry:
            registry.tool("give_price", engine=engine, shared=True, replace=True)(engine_tools.give_price)
            outer = ToolCall("1", "call_other", {"name": "give_price"}, "ann")
            for _ in range(2):
                with registry.run("r"):
                    result = registry.execute(outer)
                    text = registry.toolset("ann").call_json("give_price", "{}")
                assert (written, written) == (result.result, json.loads(text))

    @pytest.mark.parametrize("kind", LOOSE)
    def test_without_a_hint_are_what_a_journal_gives_back(self, home: Home, kind: str) -> None:
        """JSON values come back as they are; others equal, or as a replay gives them where another process ran them."""
        value, result = LOOSE[kind], home.execute("give_loose", kind=kind)
        assert Outcome.OK is result.outcome
        if home.is_remote and result.result != value:
            assert replay(kind) == result.result
        else:
            assert (value, type(value)) == (result.result, type(result.result))

    def test_of_generators_are_lists(self, home: Home) -> None:
        """Sync and async ones are read to their end where they run."""
        for name in ("count_up", "count_later"):
            assert [[0, 1, 2]] * 2 == [home.execute(name, to=3).result, home.aexecute(name, to=3).result]

    def test_that_have_no_json_form(self, home: Home) -> None:
        """They are an error that names the type, where they are recorded or come from another process."""
        result = home.execute("give_thing")
        if home.store == "none" and not home.is_remote:
            assert isinstance(result.result, type(threading.Lock()))
        else:
            assert (Outcome.TOOL_ERROR, True) == (result.outcome, "lock" in str(result.error))

    def test_that_would_have_to_be_awaited(self, home: Home) -> None:
        """A forgotten await is an error of the tool."""
        result = home.execute("forget_await")
        assert (Outcome.TOOL_ERROR, "ToolUsageError") == (result.outcome, result.error_type)

    def test_media(self, home: Home) -> None:
        """A content block is one for models, wherever it was made."""
        assert "image/png" in home.execute("give_loose", kind="image").for_model()


def replay(kind: str) -> object:
    """Return what a journal gives back of a loose value."""
    with ToolRegistry(journal="memory") as registry:
        registry.tool("give_loose", shared=True)(engine_tools.give_loose)
        for _ in range(2):
            with registry.run("r"):
                result = registry.execute(ToolCall("1", "give_loose", {"kind": kind}, "ann"))
    assert result.replayed
    return result.result


def test_the_types_of_content() -> None:
    """The table has a value that is more than JSON."""
    assert isinstance(LOOSE["image"], Content)
