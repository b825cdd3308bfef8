"""Finds the secrets of one call, in every spelling that its records and its span may quote."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from praval_tools.errors import ToolArgumentsError
from praval_tools.execution.call_progress import CallProgress
from praval_tools.journal.redaction.redactor import RedactionPlan
from praval_tools.journal.redaction.secret_search import SecretMarkers
from praval_tools.journal.redaction.short_secrets import has_short_secrets
from praval_tools.names import has_type
from praval_tools.schema.spellings import list_possible_spellings
from praval_tools.tools.argument_spellings import find_marked_places, read_argument_spellings, read_marked_arguments
from praval_tools.tools.call import Outcome, ToolResult
from praval_tools.tools.implementation import MISS, BoundArguments, ToolImplementation


def find_marked_secrets(plan: RedactionPlan, progress: CallProgress, secrets: SecretMarkers) -> SecretMarkers:
    """Return *secrets* with what classes mark as secret in the objects that were given as arguments."""
    if not progress.marked_values:
        return secrets
    secrets = plan.mark_secrets(progress.marked_values, secrets or plan.default_secrets)
    return plan.mark_places(progress.marked_places, secrets)


def find_bound_secrets(
    plan: RedactionPlan, implementation: ToolImplementation, bound: BoundArguments, secrets: SecretMarkers
) -> SecretMarkers:
    """
    Return *secrets* with those of arguments, as they were given and as the tool gets them.

    A type or class may spell them in another way.

    Args:
        plan: What is secret in the call.
        implementation: The tool's.
        bound: Its arguments.
        secrets: Those that are known.
    """
    secrets = plan.redact_arguments(bound.arguments, secrets)[1]
    received = list_received_values(bound)
    if secrets or plan.has_secret_parameters:
        secrets = plan.redact_arguments(read_argument_spellings(implementation, received), secrets)[1]
    if marked_values := read_marked_arguments(received):
        secrets = plan.mark_secrets(marked_values, secrets)
        if has_short_secrets(marked_values):
            secrets = plan.mark_places(find_marked_places(received), secrets)
    return secrets


def list_received_values(bound: BoundArguments) -> dict[str, object]:
    """Return the arguments that the tool gets as other objects than those that were given."""
    return {name: value for name, value in bound.values.items() if value is not bound.arguments.get(name, MISS)}


def find_given_secrets(plan: RedactionPlan, arguments: object, secrets: SecretMarkers) -> SecretMarkers:
    """
    Return *secrets* with those of arguments that no tool has got, in every spelling of `add_possible_spellings`.

    Args:
        plan: What is secret in the call.
        arguments: What was given, parsed if it was JSON text.
        secrets: Those that are known.
    """
    return secrets | add_possible_spellings(plan, plan.redact_arguments(arguments, is_validated=False)[1])


def add_possible_spellings(plan: RedactionPlan, secrets: SecretMarkers) -> SecretMarkers:
    """
    Return *secrets* in every spelling, too, in which tools may get them, whatever types their parameters have.

    The parameters are not asked: their classes may run code of their own, and what they refuse may be quoted as well.
    """
    return plan.mark_secrets([spelling for text in secrets for spelling in list_possible_spellings(text)], secrets)


def find_shown_secrets(plan: RedactionPlan, progress: CallProgress, secrets: SecretMarkers) -> SecretMarkers:
    """Return *secrets* with those of the arguments that an approver saw, which those that it wrote may quote."""
    if progress.approval is None:
        return secrets
    if progress.coerced_arguments is not None:
        secrets = plan.redact_arguments(progress.coerced_arguments[1], secrets)[1]
    return plan.redact_arguments(progress.shown_arguments, secrets)[1]


def find_edited_secrets(plan: RedactionPlan, arguments: Mapping[str, object], secrets: SecretMarkers) -> SecretMarkers:
    """Return *secrets* with those of *arguments*, as an approver wrote them."""
    if marked_values := read_marked_arguments(arguments):
        secrets = plan.mark_secrets(marked_values, secrets)
        secrets = plan.mark_places(find_marked_places(arguments), secrets)
    return plan.redact_arguments(arguments, secrets, is_validated=False)[1]


def find_judged_secrets(plan: RedactionPlan, progress: CallProgress, secrets: SecretMarkers) -> SecretMarkers:
    """
    Return *secrets* with those of the arguments of a call whose function has not been entered, in all spellings.

    Policies and approvers saw them, so that a refusal or an answer may quote them.
    """
    secrets = find_shown_secrets(plan, progress, secrets)
    if progress.judged_arguments is None:
        return secrets
    implementation, _, bound = progress.judged_arguments
    return find_bound_secrets(plan, implementation, bound, secrets)


def find_arguments_error(result: ToolResult) -> ToolArgumentsError | None:
    """Return what says that the arguments of a call do not fit, if that is how it ended."""
    if result.outcome is not Outcome.INVALID_ARGUMENTS or not has_type(result.exception, ToolArgumentsError):
        return None
    return result.exception


def hide_quotations(
    error: ToolArgumentsError, arguments: object, plan: RedactionPlan, secrets: SecretMarkers
) -> ToolArgumentsError:
    """
    Return *error* without what is hidden where its problems are, and what classes of parameters say of secrets.

    A class may quote what it made of a secret before it refused it, which nobody else has seen.

    Args:
        error: Says what is wrong with the arguments.
        arguments: Those that were given, or that an approver wrote in their place.
        plan: What is secret in the call.
        secrets: Those that are known.
    """
    problems = plan.hide_quoted_values(error.problems, arguments, secrets)
    if error.quotes_classes and (secrets or plan.has_secret_parameters):
        problems = tuple(msgspec.structs.replace(problem, reason="was refused by its class") for problem in problems)
    return ToolArgumentsError(error.tool, problems)
