"""The fast path and the pipeline give the same answer for the same call, with policies, limits and hooks or without."""

# Tests of: hooks

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any

import pytest
from clocks import HandClock
from fast_path_rig import _called, arguments, extra, later, many, seen, two
from hypothesis import given
from hypothesis import strategies as st

from praval_tools import (
    Agent,
    Allow,
    Ask,
    Outcome,
    ToolCall,
    ToolRegistry,
    ToolResult,
    tool,
)
from praval_tools.execution.fast_path import FastPath, make_fast_path
from praval_tools.execution.hooks import CallHooks
from praval_tools.registry.registry import get_runtime


def show(arguments: dict[str, Any]) -> str:
    """Return arguments as text, types included; the order of the names is not promised."""
    return repr(sorted(arguments.items(), key=lambda item: item[0]))


class Ward:
    """A registry with a policy, a limit and hooks, whose calls take the fast path or need the pipeline."""

    def __init__(
        self, policy: Callable[[Ward, Any], Any], *, needs_pipeline: bool, hooks: tuple[str, ...] = ("before", "after")
    ) -> None:
        self.registry = ToolRegistry(max_argument_depth=63 if needs_pipeline else 64, clock=HandClock())
        self.log: list[Any] = []
        for function in (two, many, extra):
            tool(function.__name__, owned_by="ann", registry=self.registry)(self._logged(function))
            tool(f"{function.__name__}_later", owned_by="ann", registry=self.registry)(later(self._logged(function)))
        Agent("ann", registry=self.registry)
        Agent("bob", registry=self.registry)
        self.registry.add_policy(lambda agent, tool, arguments: self._ask(policy, arguments), name="guard")
        self.registry.limits.set(agent="ann", concurrent=1, per_minute=4)
        functions = {"before": (self._before,), "after": (self._after,)}
        get_runtime(self.registry).install_hooks(CallHooks(**{kind: functions[kind] for kind in hooks}))

    def _logged(self, function: Any) -> Any:
        @wraps(function)
        def logged(*args: Any, **kwargs: Any) -> Any:
            self.log.append(("run", args, kwargs))
            return function(*args, **kwargs)

        return logged

    def _ask(self, policy: Callable[[Ward, Any], Any], arguments: Any) -> Any:
        self.log.append(("policy", show(arguments)))
        return policy(self, arguments)

    def _before(self, *, call: ToolCall, tool: Any, arguments: Any) -> None:
        self.log.append(("before", call.tool_call_id, repr(call.arguments), tool.name, show(arguments)))

    def _after(self, *, call: ToolCall, tool: Any, result: ToolResult) -> None:
        call_id = "made" if re.fullmatch("[0-9a-f]{32}", call.tool_call_id or "") else call.tool_call_id
        self.log.append(("after", call_id, repr(call.arguments), tool and tool.name, seen(result)))

    @property
    def places(self) -> list[tuple[int, int]]:
        """What is used of the limits: calls in flight, and calls begun."""
        usages = get_runtime(self.registry).limits.list_usages(("ann",), "two")
        return [(one.in_flight, len(one.recent_starts)) for one in usages]


def _raise_error(_: Ward, __: Any) -> None:
    raise ValueError("the policy is broken")


async def _answer_later(_: Ward, __: Any) -> None:
    """Answer in a coroutine, which no policy may."""


POLICIES: dict[str, Callable[[Ward, Any], Any]] = {
    "nothing": lambda ward, arguments: None,
    "deny": lambda ward, arguments: "no",
    "ask": lambda ward, arguments: Ask("are you sure?"),
    "raise": _raise_error,
    "async": _answer_later,
    "junk": lambda ward, arguments: 7,
    "change its copy": lambda ward, arguments: arguments.clear(),
    "revoke the tool": lambda ward, arguments: ward.registry.block("two", "ann") and None,
    "change something else": lambda ward, arguments: ward.registry.assign_tool_to_agent("many", "bob") and None,
    "remove the limit": lambda ward, arguments: ward.registry.limits.set(agent="ann"),
    "disable all": lambda ward, arguments: ward.registry.disable("two"),
}


class TestSteps:
    @pytest.mark.parametrize("policy", POLICIES)
    @pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
    def test_each_step_is_taken_once(self, policy: str, is_async: bool) -> None:
        """
        Policies, limits and hooks see the same, in the same order and as often, and the results are the same.

        Also where the policy raises, is async, changes its copy of the arguments, or changes the registry between
        its answer and the entry into the function; the fifth call is over the limit.
        """
        name = "two_later" if is_async else "two"
        requests: list[Any] = [{"x": 1, "y": 2}, {"x": "1", "y": 2}, {"x": 1.0, "y": 0}, {"x": []}, '{"x": 3, "y": 4}']
        shown = []
        for needs_pipeline in (False, True):
            ward = Ward(POLICIES[policy], needs_pipeline=needs_pipeline)
            for number, request in enumerate([*requests, *requests]):
                call = ToolCall(str(number), name, request, "ann")
                run = ward.registry.aexecute(call) if is_async else None
                ward.log.append(seen(ward.registry.execute(call) if run is None else asyncio.run(run)))
                ward.log.append(ward.places)
            ward.registry.close()
            shown.append(ward.log)

        assert shown[1] == shown[0]

    @given(
        st.sampled_from(["two", "many", "extra"]), arguments, st.sampled_from(sorted(POLICIES)),
        st.sampled_from([("before",), ("after",), ("before", "after")]),
    )  # fmt: skip
    def test_values_and_errors(self, name: str, given_: Any, policy: str, hooks: tuple[str, ...]) -> None:
        """
        `call` gives the same value or raises the same error, and its hooks are shown the same.
        """
        given_ = (
            {key: one for key, one in given_.items() if key not in ("self", "name")} if type(given_) is dict else {}
        )
        shown = []
        for needs_pipeline in (False, True):
            ward = Ward(POLICIES[policy], needs_pipeline=needs_pipeline, hooks=hooks)
            shown.append([_called(ward.registry, name, given_), ward.log, ward.places])
            ward.registry.close()

        assert shown[1] == shown[0]

    def test_the_fast_path_is_taken(self) -> None:
        """
        With a policy, a limit and hooks there is a fast function, so that the two are compared.
        """
        for needs_pipeline in (False, True):
            ward = Ward(POLICIES["nothing"], needs_pipeline=needs_pipeline)
            path = make_fast_path(get_runtime(ward.registry), ward.registry.agent("ann").principal, "two")
            assert needs_pipeline is (path.tool is None)

    def test_a_place_is_given_back(self) -> None:
        """
        Of eight threads as many run at once as the limit says; the place of each is free when it has ended.
        """
        registry, inside, most = ToolRegistry(), list[None](), list[int]()

        @registry.tool(shared=True)
        def stay() -> None:
            """Stay a moment."""
            inside.append(None)
            most.append(len(inside))
            time.sleep(0.001)
            inside.pop()

        registry.limits.set(tool="stay", concurrent=3)

        def work() -> list[Outcome]:
            return [registry.execute(ToolCall(None, "stay", {}, "ann")).outcome for _ in range(30)]

        with ThreadPoolExecutor(8) as pool:
            outcomes = [one for future in [pool.submit(work) for _ in range(8)] for one in future.result()]

        assert {Outcome.OK, Outcome.LIMITED} == set(outcomes)
        assert 3 == max(most)
        assert [0] == [one.in_flight for one in get_runtime(registry).limits.list_usages(("ann",), "stay")]

    def test_an_operators_call_takes_one_place(self) -> None:
        """
        The operator is not an agent, so its call counts once for a limit of the tool.
        """
        registry = ToolRegistry()
        registry.tool("two", shared=True)(two)
        registry.limits.set(tool="two", per_minute=2)

        outcomes = [registry.execute(str(number), "two", {"x": 1, "y": 2}).outcome for number in range(3)]

        assert [Outcome.OK, Outcome.OK, Outcome.LIMITED] == outcomes


class TestChangesBeforeACall:
    """Steps that were removed, or added, before a call was requested."""

    @pytest.mark.parametrize("is_async", [False, True])
    def test_a_removed_policy_is_not_asked(self, is_async: bool) -> None:
        """A policy that was removed before a call was requested hears nothing of it."""
        registry, asked, ann = registry_with_add(is_async=is_async)
        remove = registry.add_policy(lambda agent, tool, arguments: asked.append(arguments), name="guard")
        call_add(ann, is_async=is_async)

        remove()
        call_add(ann, is_async=is_async)

        assert [{"x": 1}] == asked

    @pytest.mark.parametrize("is_async", [False, True])
    def test_hooks_are_those_of_the_request(self, is_async: bool) -> None:
        """A before-call hook is notified of each call that was requested while it was there, and of no other."""
        registry, seen_by, ann = registry_with_add(is_async=is_async)

        def hooks(*names: str) -> CallHooks:
            return CallHooks(before=tuple(lambda name=name, **_: seen_by.append(name) for name in names))

        for present in (("first",), ("second",), ("second", "third"), ()):
            get_runtime(registry).install_hooks(hooks(*present))
            call_add(ann, is_async=is_async)

        assert ["first", "second", "second", "third"] == seen_by

    def test_policies_are_shown_what_the_tool_gets(self) -> None:
        """Widened numbers and defaults are shown as the function gets them; to change them changes nothing."""
        registry, shown, got = ToolRegistry(), [], []

        @tool("scale", description="Scale it.", owned_by="ann", registry=registry)
        def scale(x: float, by: float | None = None, unit: str = "m") -> None:
            got.append((x, by, unit))

        Agent("ann", registry=registry)
        for name in ("first", "second"):
            registry.add_policy(
                lambda agent, tool, arguments: shown.append(repr(arguments)) or arguments.clear(), name=name
            )

        registry.agent("ann").call("scale", x=2)

        assert ["{'x': 2.0, 'by': None, 'unit': 'm'}"] * 2 == shown
        assert [(2.0, None, "m")] == got


@pytest.mark.parametrize("is_async", [False, True])
def test_that_calls_need_the_pipeline_is_remembered(monkeypatch: pytest.MonkeyPatch, *, is_async: bool) -> None:
    """Whether calls of a tool can take the fast path is looked up once in each state, also where they cannot."""
    registry, lookups, ann = registry_with_add(is_async=is_async)
    registry.add_policy(lambda agent, tool, arguments: None)
    registry.set_approval_handler(lambda request: Allow())
    registry.configure("add", requires_approval=True)

    def make_path(*arguments: Any) -> FastPath:
        lookups.append(arguments)
        return make_fast_path(*arguments)

    monkeypatch.setattr("praval_tools.execution.executor.make_fast_path", make_path)
    for changes in range(1, 4):
        registry.block("add", f"agent{changes}")
        for _ in range(3):
            call_add(ann, is_async=is_async)
        assert changes == len(lookups)


def registry_with_add(*, is_async: bool) -> tuple[ToolRegistry, list[Any], Agent]:
    """Return a registry with one tool of `ann`, an empty log, and the agent."""

    def add(x: int) -> int:
        return x

    registry = ToolRegistry()
    tool("add", description="Add.", owned_by="ann", registry=registry)(later(add) if is_async else add)
    return registry, [], Agent("ann", registry=registry)


def call_add(ann: Agent, *, is_async: bool) -> None:
    """Call the tool once."""
    if is_async:
        asyncio.run(ann.acall("add", x=1))
    else:
        ann.call("add", x=1)
