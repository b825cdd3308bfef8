"""Asks the policies of a registry about a call, each acting under its own name; an unclear answer refuses."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import TypeAlias

from praval_tools.access.records import Principal
from praval_tools.access.state import RegisteredPolicy
from praval_tools.execution.call_progress import PolicyAnswers
from praval_tools.execution.context import FrameScope, activate_frame, make_frame
from praval_tools.execution.event_loops import get_own_cancellation
from praval_tools.names import describe_error, get_class_name, has_type, shorten_repr
from praval_tools.schema.type_handler import Unencodable
from praval_tools.tools.compiled import Arguments
from praval_tools.tools.decision import Ask, Decision, Deny
from praval_tools.tools.implementation import BoundArguments
from praval_tools.tools.tool import AnyTool

ArgumentsCopier: TypeAlias = Callable[[dict[str, object]], dict[str, object]]


def render_for_review(tool: AnyTool, bound: BoundArguments, agent: str | None) -> Arguments | Decision:
    """Return what policies and approvers see of a call, or the refusal where they could not see what the tool gets."""
    try:
        return tool.implementation.render_for_review(bound)
    except Unencodable as error:
        reason = f"Policies and approvers cannot see what the tool would get: {error}."
        fix = f"Give tool {tool.name!r} parameters that hold plain values, or classes that store their fields."
        return Decision(False, "forbidden", "policy", agent, tool.name, reason, fix)


def ask_policies(
    registry: object, policies: tuple[RegisteredPolicy, ...], principal: Principal | None, tool: AnyTool,
    arguments: dict[str, object], *, copy_arguments: ArgumentsCopier = copy.deepcopy,
) -> PolicyAnswers:  # fmt: skip
    """
    Ask every policy about the repaired arguments, for the agent that calls and for each of those for whom it acts.

    The first refusal ends it, so that no delegation leads around a policy; else the last `Ask` counts.
    Each of them is shown a copy of its own, made by *copy_arguments* while it runs.
    """
    approval: Ask | None = None
    caller, members = (None, (None,)) if principal is None else (principal.agent, principal.members)
    for policy in policies:
        for agent in members:
            answer = _check_policy(registry, policy, agent, principal, tool, arguments, copy_arguments)
            if answer is None:
                continue
            if isinstance(answer, Deny):
                delegator = f" calls on behalf of {agent!r}" if agent != caller else ""
                reason = f"Policy {policy.name!r} refuses{delegator}{': ' + answer.reason if answer.reason else ''}."
                fix = f"Change the arguments, or the policy {policy.name!r}."
                refusal = Decision(False, "forbidden", "policy", caller, tool.name, reason, fix, policy.name)
                return PolicyAnswers(tool, policies, refusal, None)
            approval = answer
    return PolicyAnswers(tool, policies, None, approval)


def find_policy_refusal(
    registry: object, policies: tuple[RegisteredPolicy, ...], principal: Principal, tool: AnyTool, bound: BoundArguments
) -> Decision | None:
    """Return the refusal of a policy, or of arguments that nobody could judge, if there is one."""
    if not policies and not tool.metadata.requires_approval:
        return None
    shown = render_for_review(tool, bound, principal.agent)
    return shown if isinstance(shown, Decision) else ask_policies(registry, policies, principal, tool, shown).refusal


def takes_principal(check: Callable[..., object]) -> bool:
    """Tell whether a policy has a parameter `principal` beside those for agent, tool and arguments."""
    try:
        parameters = list(inspect.signature(check).parameters.values())
    except (TypeError, ValueError):  # a callable without a signature
        return False
    return any(
        parameter.name == "principal" and (place >= 3 or parameter.kind is parameter.KEYWORD_ONLY)
        for place, parameter in enumerate(parameters)
    )


def _check_policy(
    registry: object, policy: RegisteredPolicy, agent: str | None, principal: Principal | None, tool: AnyTool,
    arguments: dict[str, object], copy_arguments: ArgumentsCopier,
) -> Deny | Ask | None:  # fmt: skip
    """Ask one policy about one agent, in its own name; an unclear answer refuses."""
    try:
        with activate_frame(make_frame(FrameScope(registry, None, policy.name))):
            shown = copy_arguments(arguments)
            if policy.takes_principal:
                answer = policy.check(agent, tool, shown, principal=principal)
            else:
                answer = policy.check(agent, tool, shown)
            if answer is None or has_type(answer, (Deny, Ask)):
                return answer
            if has_type(answer, str):
                return Deny(answer)
            if hasattr(answer, "__await__"):
                answer.close()
                return Deny("it is async, and policies are asked in place; make it a plain function")
    except (Exception, get_own_cancellation()) as error:  # isolation: a failure refuses, and the refusal names it
        return Deny(f"it raised {get_class_name(type(error))}: {describe_error(error)}")
    return Deny(f"it answered {shorten_repr(answer)}, which is not None, a text, Deny or Ask")
