"""
Call plans: the fast function and the redaction of all journaled calls of one principal to one tool, cached per state.

A plan has a fast function where the executor has a fast path on which nothing but the function is run: no policies,
limits or hooks, which may end a call before it starts. All other calls take the steps of the pipeline.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import msgspec

from praval_tools.access.records import Principal
from praval_tools.access.state import AccessState
from praval_tools.errors import ToolArgumentsError
from praval_tools.execution.call_progress import CallProgress
from praval_tools.execution.context import make_frame
from praval_tools.execution.effects import RunTool
from praval_tools.execution.fast_path import FastFunction, build_fast_function, make_fast_path
from praval_tools.execution.pipeline import coerce_arguments
from praval_tools.execution.runtime import Runtime
from praval_tools.journal.redaction.redactor import RedactionPlan, Redactor
from praval_tools.names import find_similar_names, has_type, to_plain_text
from praval_tools.schema.json_input import MalformedArgumentsError, parse_arguments
from praval_tools.schema.json_values import are_scalars
from praval_tools.schema.secret_marks import has_secret_schema
from praval_tools.tools.argument_spellings import read_default_spellings, read_marked_defaults
from praval_tools.tools.call import ToolCall
from praval_tools.tools.compiled import Arguments
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.tools.implementation import MISS, BoundArguments, ToolImplementation
from praval_tools.tools.mark_schemas import build_mark_schemas, build_result_schema
from praval_tools.tools.tool import AnyTool

_MAX_PLANS: Final = 16_384
_NULL_CONTEXT: Final = nullcontext()
_PlanCache: TypeAlias = "dict[tuple[Principal | None, str], CallPlan]"


class CallPlan(msgspec.Struct, frozen=True, eq=False):
    """
    What all calls of one principal to one tool have in common.

    Args:
        runtime: The runtime of the registry.
        redaction_plan: What is secret in the calls.
        tool: The tool; None: there is none of that name.
        fingerprint: The fingerprint of the tool; empty where a type hint is unresolved.
        fast_function: Runs a call on the fast path; None: each call takes the steps of the pipeline.
    """

    runtime: Runtime
    redaction_plan: RedactionPlan
    tool: AnyTool | None = None
    fingerprint: str = ""
    fast_function: FastFunction | None = None

    def coerce_arguments(self, progress: CallProgress) -> dict[str, Any] | None:
        """Return the call's arguments as they fit the tool, also to the pipeline; None where they do not."""
        tool, given = self.tool, progress.call.arguments
        if tool is None or not tool.implementation.is_compilable:
            return None
        if (exact := self._copy_exact_match(progress)) is not None:
            return exact
        is_scalar = type(given) is dict and are_scalars(given.values())
        try:
            # other values may run code of their own
            with _NULL_CONTEXT if is_scalar else activate_tool_frame(tool.name):
                arguments, repairs = coerce_arguments(self.runtime, tool, given)
        except ToolArgumentsError:  # the pipeline reports that
            return None
        progress.coerced_arguments = tool.implementation, arguments, repairs
        return arguments

    def _copy_exact_match(self, progress: CallProgress) -> Arguments | None:
        """Return a copy of arguments that the fast function takes as they stand, also to the pipeline; else None."""
        tool, given = self.tool, progress.call.arguments
        if self.fast_function is None or tool is None or type(given) is not dict:
            return None
        exact = tool.implementation.copy_exact_match(given)
        if exact is not None:
            progress.coerced_arguments = tool.implementation, exact, ()
        return exact

    def build_fast_run(self, progress: CallProgress) -> RunTool | None:
        """Return the call as its fast function runs it; None where it takes the steps of the pipeline."""
        fast_function, tool, call = self.fast_function, self.tool, progress.call
        if fast_function is None or tool is None or tool.is_async is not progress.is_async or call.engine is not None:
            return None
        if progress.known_result is not None or progress.was_asked_about or progress.is_counted_in_run:
            return None
        if progress.coerced_arguments is None:  # a call outside runs
            self._copy_exact_match(progress)
        path, implementation, coerced = fast_function.path, tool.implementation, progress.coerced_arguments
        if coerced is None or coerced[0] is not implementation or coerced[2] or path.scope is None:
            return None
        arguments = coerced[1]
        values = implementation.bind_exact_match(arguments)
        if values is MISS:
            return None
        return RunTool(
            self.runtime, call, path.principal, tool, BoundArguments(arguments, values), path.resolution,
            path.resolution.paths[0], path.state, make_frame(path.scope, arguments, call), fast_function=fast_function,
        )  # fmt: skip


class CallPlans:
    """
    The plans of the calls of one registry, for its present state; each is made with the first call.

    Args:
        runtime: The runtime of the registry.
        redactor: Knows what is secret.
    """

    def __init__(self, runtime: Runtime, redactor: Redactor) -> None:
        self._runtime, self._redactor = runtime, redactor
        self._redaction_plans: WeakKeyDictionary[ToolImplementation, RedactionPlan] = WeakKeyDictionary()
        self._default_redaction_plan = redactor.build_plan()
        self._has_marks: WeakKeyDictionary[ToolImplementation, bool] = WeakKeyDictionary()
        self._plans: tuple[AccessState | None, _PlanCache] = (None, {})

    def find_tool(self, call: ToolCall) -> AnyTool | None:
        """Return the tool that is called, if there is one of that name, which may be its wire name."""
        state = self._runtime.access_store.state
        record = state.find_tool_record(state.resolve_tool_name(call.name)) if isinstance(call.name, str) else None
        return None if record is None else record.tool

    def get_redaction_plan(self, tool: AnyTool | None) -> RedactionPlan:
        """Return what is redacted in the calls of *tool*."""
        if tool is None:
            return self._default_redaction_plan
        implementation = tool.implementation
        if not implementation.is_compilable:  # until its hints resolve, which may be at any time
            return self._redactor.build_plan(marks=build_mark_schemas(implementation))
        plan = self._redaction_plans.get(implementation)
        if plan is None:
            plan = self._redactor.build_plan(
                implementation.compiled.parameters_schema, build_result_schema(implementation),
                marks=build_mark_schemas(implementation), fits_marks=implementation.supplied_schema is None,
                defaults=read_default_spellings(implementation),
            )  # fmt: skip
            if implementation.list_marked_names():  # which may be in what a class holds, and its schema does not say
                plan.has_secret_parameters = True
            plan.default_secrets = plan.mark_secrets(read_marked_defaults(implementation), plan.default_secrets)
            self._redaction_plans[implementation] = plan
        return plan

    def get_redaction_plan_by_name(self, name: str) -> RedactionPlan:
        """Return what is redacted in the calls of the tool of this name, if nothing is known of its arguments."""
        return self.get_redaction_plan_of(ToolCall(None, name, {}))

    def get_redaction_plan_of(self, call: ToolCall) -> RedactionPlan:
        """
        Return what is redacted in *call*.

        Where no tool has the name that it gives, nobody knows which was meant: what one of a similar name hides is
        hidden, and what any tool marks as secret in a parameter of the same name.
        """
        tool = self.find_tool(call)
        if tool is not None or not isinstance(call.name, str):
            return self.get_redaction_plan(tool)
        state, names = self._runtime.access_store.state, _list_argument_names(call.arguments)
        similar = [state.tools[name].tool for name in find_similar_names(call.name, state.tools)]
        others = (record.tool for record in state.tools.values() if names)
        marked = [tool for tool in others if not names.isdisjoint(tool.implementation.argument_names)]
        return self._default_redaction_plan.with_plans_of_others(
            [self.get_redaction_plan(tool) for tool in similar],
            [self.get_redaction_plan(tool) for tool in marked if self._has_secret_marks(tool)],
        )

    def _has_secret_marks(self, tool: AnyTool) -> bool:
        """Tell whether anything in the parameters of *tool* is marked as secret."""
        implementation = tool.implementation
        has_marks = self._has_marks.get(implementation)
        if has_marks is None:
            has_marks = bool(build_mark_schemas(implementation))
            if implementation.is_compilable:
                has_marks = has_marks or has_secret_schema(implementation.compiled.parameters_schema)
                self._has_marks[implementation] = has_marks
        return has_marks

    def find_plan(self, call: ToolCall, principal: Principal | None) -> CallPlan:
        """Return the plan of *principal*'s calls to the tool that *call* names."""
        if not isinstance(call.name, str):
            return CallPlan(self._runtime, self._default_redaction_plan)
        state, (cached_state, plans) = self._runtime.access_store.state, self._plans
        if cached_state is not state or len(plans) > _MAX_PLANS:
            self._plans = state, (plans := {})
        plan = plans.get((principal, call.name))
        if plan is None:
            plan = self._build_plan(call, principal)
            if plan.fingerprint and not self._is_state_passing:  # of unknown names there is no end
                plans[principal, call.name] = plan
        return plan

    @property
    def _is_state_passing(self) -> bool:
        """Whether an exclusive call or an open change ends soon, without a new state."""
        return self._runtime.access_store.has_open_change or self._runtime.exclusive_gate.is_closed

    def _build_plan(self, call: ToolCall, principal: Principal | None) -> CallPlan:
        tool = self.find_tool(call)
        plan = CallPlan(self._runtime, self.get_redaction_plan_of(call), tool)
        if tool is None or not tool.implementation.is_compilable:
            return plan
        fast_function = None if principal is None else self._build_fast_function(principal, tool)
        return msgspec.structs.replace(plan, fingerprint=tool.fingerprint, fast_function=fast_function)

    def _build_fast_function(self, principal: Principal, tool: AnyTool) -> FastFunction | None:
        path = make_fast_path(self._runtime, principal, tool.name)
        if path.tool is not tool or path.has_steps or tool.implementation.runs_user_code or self._is_state_passing:
            return None
        return build_fast_function(self._runtime, path, _raise_error)


def _list_argument_names(arguments: object) -> set[str]:
    with activate_tool_frame("(arguments)"):  # they may be of classes with code of their own
        try:
            return {to_plain_text(name) for name in parse_arguments(arguments) if has_type(name, str)}
        except MalformedArgumentsError:
            return set()


def _raise_error(_: object, error: BaseException) -> None:
    raise error
