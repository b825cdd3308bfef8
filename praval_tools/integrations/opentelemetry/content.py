"""Writes the arguments and the value of a call for its span: without secrets, as in the journal, and not too long."""

from __future__ import annotations

from praval_tools.execution.call_progress import CallProgress
from praval_tools.execution.effects import RunTool
from praval_tools.integrations.opentelemetry.attributes import Attributes, drop_empty
from praval_tools.integrations.opentelemetry.instruments import Instruments
from praval_tools.journal.redaction.redactor import RedactionPlan
from praval_tools.journal.redaction.secret_search import NO_SECRETS
from praval_tools.runs.call_records import parse_call_arguments
from praval_tools.runs.call_secrets import (
    find_arguments_error,
    find_bound_secrets,
    find_edited_secrets,
    find_given_secrets,
    find_judged_secrets,
    find_marked_secrets,
    find_shown_secrets,
    hide_quotations,
)
from praval_tools.runs.call_writer import read_run_error_secrets, write_run_value
from praval_tools.schema.json_values import replace_surrogates, replace_surrogates_in_json
from praval_tools.tools.call import Outcome, ToolResult
from praval_tools.tools.truncation import truncate_json, truncate_text
from praval_tools.tools.value_codec import pack_value


class CallContent:
    """
    What the span of one call holds of its content.

    Args:
        plan: What is secret in the call.
        instruments: Say what is recorded.
    """

    def __init__(self, plan: RedactionPlan, instruments: Instruments) -> None:
        self._plan, self._instruments, self._secrets = plan, instruments, NO_SECRETS
        self._run: RunTool | None = None
        self._given: object = None
        self._arguments = self._value = self._error = ""

    def read_run(self, progress: CallProgress, run: RunTool) -> None:
        """Read the arguments with which the function is about to be entered, before it can change them."""
        self._run, self._given = run, run.bound_arguments.arguments
        self._secrets = find_marked_secrets(self._plan, progress, self._secrets)
        self._secrets = find_shown_secrets(self._plan, progress, self._secrets)
        bound = run.bound_arguments
        self._secrets = find_bound_secrets(self._plan, run.tool.implementation, bound, self._secrets)
        self._arguments = self._write(self._plan.redact_arguments(bound.arguments, self._secrets)[0])

    def read_call(self, progress: CallProgress) -> None:
        """Read the arguments as they were given, unless the tool was entered with what they became."""
        if self._run is None:
            arguments = self._given = progress.call.arguments
            self._secrets = find_marked_secrets(self._plan, progress, self._secrets)
            if progress.approval is not None:
                _, edited = progress.approval
                self._given = edited
                self._secrets = find_edited_secrets(self._plan, edited, self._secrets)
            self._secrets = find_judged_secrets(self._plan, progress, self._secrets)
            self._secrets = find_given_secrets(self._plan, parse_call_arguments(arguments), self._secrets)
            clean, self._secrets = self._plan.redact_arguments(arguments, self._secrets, is_validated=False)
            self._arguments = self._write(clean)

    def read_result(self, result: ToolResult) -> ToolResult:
        """Read the value or the error; return the result with the copy of the value that was read."""
        if not self._instruments.record_results or result.replayed:
            return result
        if result.outcome is not Outcome.OK:
            if self._run is not None and result.exception is not None:
                marked_values = read_run_error_secrets(self._run, result.exception)
                self._secrets = self._plan.mark_secrets(marked_values, self._secrets)
            error = find_arguments_error(result)
            if error is not None:
                error = hide_quotations(error, self._given, self._plan, self._secrets)
            text = result.error if error is None else str(error)
            self._error = self._write(self._plan.redact_text(text or "", self._secrets))
        elif self._run is not None:
            marked_values = []
            try:
                value, _, result = write_run_value(self._run, result, self._plan, marked_values)
            except (Exception, SystemExit):  # the value may run code of its own, and need not have a JSON form
                return result
            finally:
                self._secrets = self._plan.mark_secrets(marked_values, self._secrets)
            self._value = self._write(self._plan.redact_result(value, self._secrets))
        return result

    def build_attributes(self) -> Attributes:
        """Return the attributes of what is recorded."""
        arguments = self._arguments if self._instruments.record_arguments else ""
        return drop_empty({"gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.result": self._value,
                           "praval.call.error": self._error})  # fmt: skip

    def _write(self, clean: object) -> str:
        size = self._instruments.max_content_size
        if isinstance(clean, str):
            return truncate_text(replace_surrogates(clean), size)
        return truncate_json(replace_surrogates_in_json(pack_value(clean)), size)
