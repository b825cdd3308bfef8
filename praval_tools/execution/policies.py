"""Asks the policies of a registry about a call, each acting under its own name; an unclear answer refuses."""

from __future__ import annotations

import copy

from praval_tools.access.state import RegisteredPolicy
from praval_tools.execution.context import FrameScope, activate_frame, make_frame
from praval_tools.execution.progress import PolicyAnswers
from praval_tools.names import describe_error, shorten_repr
from praval_tools.schema.json_values import SCALAR_TYPES
from praval_tools.tools.decision import Ask, Decision, Deny
from praval_tools.tools.tool import AnyTool


def ask_policies(
    registry: object, policies: tuple[RegisteredPolicy, ...], agent: str | None, tool: AnyTool,
    arguments: dict[str, object],
) -> PolicyAnswers:  # fmt: skip
    """Ask every policy about the repaired arguments; stop at the first refusal, else keep the last `Ask`."""
    approval: Ask | None = None
    for policy in policies:
        answer = _check_policy(registry, policy, agent, tool, arguments)
        if isinstance(answer, Deny):
            reason = f"Policy {policy.name!r} refuses{': ' + answer.reason if answer.reason else ''}."
            fix = f"Change the arguments, or the policy {policy.name!r}."
            refusal = Decision(False, "forbidden", "policy", agent, tool.name, reason, fix, policy.name)
            return PolicyAnswers(tool, policies, refusal, None)
        approval = answer if answer is not None else approval
    return PolicyAnswers(tool, policies, None, approval)


def _check_policy(
    registry: object, policy: RegisteredPolicy, agent: str | None, tool: AnyTool, arguments: dict[str, object]
) -> Deny | Ask | None:
    """Ask one policy, in its own name; an unclear answer refuses."""
    try:
        with activate_frame(make_frame(FrameScope(registry, None, policy.name))):
            is_flat = SCALAR_TYPES.issuperset(map(type, arguments.values()))
            answer = policy.check(agent, tool, arguments.copy() if is_flat else copy.deepcopy(arguments))
            if answer is None or isinstance(answer, Deny | Ask):
                return answer
            if isinstance(answer, str):
                return Deny(answer)
            if hasattr(answer, "__await__"):
                answer.close()
                return Deny("it is async, and policies are asked in place; make it a plain function")
    except Exception as error:  # isolation: a policy that fails refuses, and its refusal names the error
        return Deny(f"it raised {type(error).__name__}: {describe_error(error)}")
    return Deny(f"it answered {shorten_repr(answer)}, which is not None, a text, Deny or Ask")
