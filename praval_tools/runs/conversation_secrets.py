"""Hides the secrets of a loop's conversation in what is recorded of it: its prompt and the model's replies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from praval_tools.execution.failures import read_error_secrets
from praval_tools.formats.format import Format, WireObject
from praval_tools.formats.past_messages import read_past_calls, read_past_results
from praval_tools.journal.redaction.nested_json import parse_nested_json
from praval_tools.journal.redaction.redactor import Redactor
from praval_tools.journal.redaction.secret_search import NO_SECRETS, SecretMarkers, iter_secret_texts
from praval_tools.runs.call_plans import CallPlans
from praval_tools.runs.call_records import parse_call_arguments
from praval_tools.runs.call_secrets import add_possible_spellings
from praval_tools.schema.spellings import read_marked_values, read_spellings
from praval_tools.schema.written_secrets import read_written_secrets
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.tools.value_codec import pack_value

_TEXT_MEMBERS: Final = frozenset(("text", "content", "refusal"))
_ARGUMENT_MEMBERS: Final = frozenset(("arguments", "input", "args"))
"""The members of providers' messages that hold what a model wrote freely."""


class ConversationSecrets:
    """
    The secrets of one conversation that are known so far: of its prompt, of the calls in it, and of their results.

    Args:
        plans: Know what is secret in calls.
        redactor: Replaces secrets by markers.
    """

    def __init__(self, plans: CallPlans, redactor: Redactor) -> None:
        self._plans, self._redactor, self._secrets = plans, redactor, NO_SECRETS

    def redact_prompt(self, form: Format, prompt: WireObject) -> WireObject:
        """
        Return what a conversation begins with, without its secrets, which are taken note of.

        A message with a secret that is too short to be searched for is replaced as a whole.
        """
        messages, names = list(prompt["messages"]), dict[str | None, str]()
        for number, message in enumerate(messages):
            are_all_searched = True
            for call in read_past_calls(form, message, self._plans.find_tool):
                names[call.tool_call_id] = call.name
                are_all_searched &= self.add_call(call)
            for call_id, name, value in read_past_results(message):
                call = ToolCall(call_id, name or names.get(call_id, ""))
                are_all_searched &= self._add_past_result(call, value)
            if not are_all_searched:
                messages[number] = self._redactor.make_marker(message)
        self._add_named_secrets(prompt)
        clean = {**prompt, "instructions": self._hide(prompt["instructions"]), "messages": self._hide(messages)}
        return prompt if clean == prompt else clean

    def redact_reply(self, reply: WireObject, calls: Sequence[ToolCall]) -> WireObject:
        """
        Return a reply, as JSON, without its secrets, and those of the conversation up to it.

        They are hidden in what the model wrote freely. Where one is in the way in which a provider writes its messages,
        or is too short to be searched for in them, these are left out, and rebuilt when the reply is read.

        Args:
            reply: The text, the calls and the provider's messages.
            calls: The calls that the model asks for.
        """
        pairs = list(zip(calls, reply["calls"], strict=True))
        are_searched = [self._add_arguments(call, recorded["arguments"]) for call, recorded in pairs]
        self._add_named_secrets(reply)
        clean_calls = [
            {**recorded, "arguments": self._hide_arguments(call, recorded["arguments"]),
             "reason": self._hide(recorded["reason"])}
            for call, recorded in pairs
        ]  # fmt: skip
        messages = self._hide(reply["messages"])
        if not (all(are_searched) and _has_same_structure(reply["messages"], messages)):
            messages = []
        return {**reply, "text": self._hide(reply["text"]), "calls": clean_calls, "messages": messages}

    def add_call(self, call: ToolCall) -> bool:
        """Take note of the secrets in a call; return whether each of them can be searched for."""
        return self._add_arguments(call, call.arguments)

    def _add_arguments(self, call: ToolCall, given: object) -> bool:
        arguments = parse_call_arguments(given)
        plan = self._plans.get_redaction_plan_of(call)
        clean, found = plan.redact_arguments(arguments, is_validated=False)
        self._secrets |= add_possible_spellings(plan, found)
        return _are_searchable(arguments, clean, found)

    def add_result(
        self, call: ToolCall, result: ToolResult, secrets: SecretMarkers, messages: Sequence[object]
    ) -> None:
        """
        Take note of the secrets in the result or error of a call, as its tool gave it, and as the model is shown it.

        Args:
            call: The call.
            result: Its result.
            secrets: Those that its record does not show: of its arguments, as its tool got them, and of an object that
                was one in another process alone.
            messages: What the model is shown of the results of a step.
        """
        self._secrets |= secrets
        plan = self._plans.get_redaction_plan_of(call)
        if result.exception is not None:
            self._secrets = plan.mark_secrets(read_error_secrets(result.exception), self._secrets)
        if result.outcome is Outcome.INVALID_ARGUMENTS:  # it names arguments, and quotes what was taken note of
            return
        with suppress(Exception), activate_tool_frame(result.name):  # classes of results have code of their own
            self._secrets = plan.mark_secrets(read_marked_values(result.result), self._secrets)
            self._secrets = plan.find_result_secrets(read_spellings(result.result), self._secrets)
        for shown in _list_shown_values(call, messages) or [result.for_model()]:
            with suppress(Exception), activate_tool_frame(result.name):
                written = read_written_secrets(result.result, parse_nested_json(shown))
                self._secrets = plan.mark_secrets(written, self._secrets)
            self._secrets = plan.find_result_secrets(shown, self._secrets)

    def _add_past_result(self, call: ToolCall, value: object) -> bool:
        plan = self._plans.get_redaction_plan_of(call)
        found = plan.find_result_secrets(value, NO_SECRETS)
        self._secrets |= found
        parsed = parse_nested_json(value)
        return _are_searchable(parsed, plan.redact_result(parsed), found)

    def _add_named_secrets(self, value: object) -> None:
        self._secrets = self._redactor.redact(value, self._secrets)[1]

    def _hide(self, value: object) -> object:
        return self._redactor.redact(value, self._secrets)[0]

    def _hide_arguments(self, call: ToolCall, given: object) -> object:
        arguments = parse_call_arguments(given)
        plan = self._plans.get_redaction_plan_of(call)
        clean = plan.redact_arguments(arguments, self._secrets, is_validated=False)[0]
        return given if _are_same(arguments, clean) else clean


def _list_shown_values(call: ToolCall, messages: Sequence[object]) -> list[object]:
    """Return what *messages* show of the result of a call: JSON, or text."""
    return [
        value for message in messages for call_id, name, value in read_past_results(message)
        if (call_id == call.tool_call_id if call_id else name == call.name)
    ]  # fmt: skip


def _are_searchable(original: object, clean: object, secrets: SecretMarkers) -> bool:
    """Tell whether all texts that are hidden in *clean* are among *secrets*, since they are long enough."""
    return all(
        secrets.get_marker(text) is not None
        for value in _iter_hidden_values(original, clean)
        for text in iter_secret_texts(value, lambda text: text)
    )


def _iter_hidden_values(original: object, clean: object) -> Iterator[object]:
    """Yield the values of *original* that are markers in *clean*."""
    if isinstance(original, dict) and isinstance(clean, dict):
        for key, member in original.items():
            yield from _iter_hidden_values(member, clean.get(key))
    elif isinstance(original, list) and isinstance(clean, list) and len(original) == len(clean):
        for item, clean_item in zip(original, clean, strict=True):
            yield from _iter_hidden_values(item, clean_item)
    elif not _are_same(original, clean):
        yield original


def _are_same(original: object, clean: object) -> bool:
    """Tell whether nothing is hidden in *clean*; NaN equals no NaN."""
    return original is clean or pack_value(original) == pack_value(clean)


def _has_same_structure(original: object, clean: object) -> bool:
    """Tell whether only what a model wrote freely differs in *clean*: texts and arguments."""
    if isinstance(original, list) and isinstance(clean, list):
        return all(map(_has_same_structure, original, clean))
    if not isinstance(original, dict) or not isinstance(clean, dict):
        return original == clean
    return original.keys() == clean.keys() and all(
        _has_same_structure(member, clean[name])
        or (name in _ARGUMENT_MEMBERS and type(member) is type(clean[name]))
        or (name in _TEXT_MEMBERS and type(member) is type(clean[name]) is str)
        for name, member in original.items()
    )
