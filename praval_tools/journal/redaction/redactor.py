"""
Replaces secrets in arguments, results and messages by markers before they are written or compared.

What is stored is `[secret 5f0c…]`, a digest under a key that is not in the journal: equal secrets have equal markers,
so that a replay compares them, and nothing can be read back or guessed from the journal alone.
"""

from __future__ import annotations

import hmac
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from operator import is_
from typing import Final

import attrs

from praval_tools.journal.events import AgentToolCall, ApprovalAsked, EventBase, JournalEvent
from praval_tools.journal.redaction.marker_key import compute_key_id
from praval_tools.journal.redaction.nested_json import decode_bytes, iter_json_parts, parse_json, parse_nested_json
from praval_tools.journal.redaction.quotations import (
    QuotingT,
    hide_quoted_places,
    hide_quoted_values,
    redact_quotations,
)
from praval_tools.journal.redaction.secret_finder import Nodes, SecretFinder, enumerate_items
from praval_tools.journal.redaction.secret_search import (
    NO_SECRETS,
    MarkedSpan,
    SecretMarkers,
    format_scalar,
    replace_spans,
)
from praval_tools.journal.redaction.secret_tree import (
    UNKNOWN_NODES,
    SecretNode,
    build_secret_tree,
    get_member_nodes,
    get_text_nodes,
    is_known,
    is_misplaced,
    is_secret,
    join_nodes,
    list_secret_keys,
)
from praval_tools.journal.redaction.short_secrets import (
    MARKER_PATTERN,
    collect_secret_texts,
    find_open_places,
    iter_scalars,
    mark_short_secrets,
)
from praval_tools.schema.json_values import to_canonical_json, to_compact_json
from praval_tools.schema.secret_names import (
    DEFAULT_SECRET_NAMES,
    SecretNames,
    is_amount,
)
from praval_tools.schema.written_secrets import JsonPlace, replace_places
from praval_tools.tools.value_codec import OpaqueValue, PythonValue, is_plain_json, normalize_value, pack_value

_DIGEST_DOMAIN: Final = b"praval-tools/redaction/1\0"
_WHOLE_DIGEST_DOMAIN: Final = b"praval-tools/digest/1\0"
_DIGEST_DIGITS: Final = 32
_SIZED_TYPES: Final = (str, bytes, list, dict, tuple, set, frozenset)

_MAX_REFUSED_SECRET_LENGTH: Final = 8_192


class Redactor:
    """
    Replaces secrets by markers, at any depth, also inside JSON text and error messages.

    Args:
        patterns: Names of keys whose values are secret; see `SecretNames`.
        key: The key of the digests; whoever has it can test a guess, so it stays out of the journal.
    """

    def __init__(self, patterns: Iterable[str | re.Pattern[str]] = DEFAULT_SECRET_NAMES, *, key: bytes) -> None:
        if not key:
            raise ValueError("key: it is empty; take one from `load_key`")
        self._key = bytes(key)
        self.secret_names = SecretNames(patterns)

    def __repr__(self) -> str:
        return "<Redactor>"

    def build_plan(
        self, parameters: Mapping[str, object] | None = None, result: Mapping[str, object] | None = None,
        *, marks: Iterable[Mapping[str, object]] = (), fits_marks: bool = False,
        defaults: Mapping[str, PythonValue] | None = None,
    ) -> RedactionPlan:  # fmt: skip
        """
        Return the plan for the calls of one tool, which is built once.

        Args:
            parameters: The JSON Schema of its arguments.
            result: The JSON Schema of its result.
            marks: More schemas of its arguments, which say what is secret in them.
            fits_marks: What fits *parameters* fits these, too; else it is searched for what they do not know.
            defaults: What it gets where arguments are left out, as JSON, in all spellings.
        """
        schemas = [(parameters, True), *((schema, fits_marks) for schema in marks)]
        validated, unvalidated = (
            [build_secret_tree(schema, self.secret_names, is_validated=fits and is_fit) for schema, fits in schemas]
            for is_fit in (True, False)
        )
        joined = [nodes[0] if len(nodes) == 1 else join_nodes(nodes) for nodes in (validated, unvalidated)]
        if not joined[1].contains_secrets:  # what does not fit hides nothing
            joined[1] = joined[0]
        plan = RedactionPlan(self, joined[0], joined[1], build_secret_tree(result, self.secret_names))
        if defaults:
            plan.default_secrets = plan.redact_arguments(defaults)[1]
        return plan

    def make_marker(self, value: PythonValue) -> str:
        """Return the marker of the secret *value*: the same for equal values of one JSON type."""
        text = to_canonical_json(pack_value(value)).encode("utf-8", "surrogatepass")
        return f"[secret {hmac.digest(self._key, _DIGEST_DOMAIN + text, 'sha256').hex()[:_DIGEST_DIGITS]}]"

    @property
    def key_id(self) -> str:
        """What stands for its key in the store."""
        return compute_key_id(self._key)

    def make_digest(self, text: bytes) -> str:
        """Return a digest of *text* that nobody can guess without the key."""
        return hmac.digest(self._key, _WHOLE_DIGEST_DOMAIN + text, "sha256").hex()

    def redact(
        self,
        value: PythonValue,
        secrets: SecretMarkers = NO_SECRETS,
        nodes: Nodes = UNKNOWN_NODES,
        *,
        max_secret_length: float = math.inf,
    ) -> tuple[PythonValue, SecretMarkers]:
        """
        Return *value* without its secrets, and *secrets* with those that were in it; *value* itself where it has none.

        A secret of fewer than four characters, or `true`, `false`, `null`, `none`, is hidden in its own place alone.

        Args:
            value: Anything; what has no JSON form is returned as its text.
            secrets: Other secrets that may occur in it.
            nodes: What its schema says.
            max_secret_length: Where its secrets are longer than this, together, all of it is one secret.
        """
        if not is_plain_json(value):
            value = normalize_value(value)
        own_secrets = SecretFinder(self, nodes).find(value, nodes)
        if own_secrets:
            texts = collect_secret_texts(own_secrets, nodes[0].member_names)
            if sum(map(len, texts)) > max_secret_length:
                marker = self.make_marker(value)
                return marker, secrets | SecretMarkers(whole_marker=marker)
            secrets |= SecretMarkers({text: self.make_marker(text) for text in texts})
        elif not secrets:
            return value, secrets
        return _SecretReplacer(self, secrets, nodes).replace(value, nodes, 0), secrets

    def mark_secrets(self, values: Iterable[PythonValue]) -> SecretMarkers:
        """Return *values*, all of which are secret, as secrets that may occur in other values."""
        return SecretMarkers({text: self.make_marker(text) for text in collect_secret_texts(values)})

    def redact_text(self, text: str, secrets: SecretMarkers = NO_SECRETS, nodes: Nodes = UNKNOWN_NODES) -> str:
        """Return a message without secrets, and without parts of *secrets*, since messages are shortened."""
        clean = str(self.redact(text, secrets, nodes)[0])
        if not secrets:
            return clean
        pieces, markers = MARKER_PATTERN.split(clean), [*MARKER_PATTERN.findall(clean), ""]
        pieces = [replace_spans(piece, secrets.find_fragments(piece)) for piece in pieces]
        return "".join(part for pair in zip(pieces, markers, strict=True) for part in pair)

    def is_secret_member(self, key: object, value: PythonValue, nodes: Nodes) -> bool:
        """Tell whether *value* under *key* is a secret; empty values, true and false are not."""
        kind = type(value)
        if value is None or kind is bool or (kind in _SIZED_TYPES and not value):
            return False
        if nodes and (is_secret(nodes) or is_misplaced(kind, nodes)):
            return True
        return type(key) is str and self.secret_names(key) and not (kind in (int, float) and is_amount(key))


class _SecretReplacer:
    """Replaces secrets by markers; what holds none stays the same object."""

    def __init__(self, redactor: Redactor, secrets: SecretMarkers, nodes: Nodes) -> None:
        self._redactor, self._secrets, self._secret_member_names = redactor, secrets, nodes[0].secret_member_names
        self._known_names = nodes[0].member_names

    def replace(self, value: PythonValue, nodes: Nodes, level: int, key: object = None) -> PythonValue:
        """Return *value*, the member *key* of something, without secrets."""
        if self._redactor.is_secret_member(key, value, nodes):
            return self._redactor.make_marker(value)
        kind = type(value)
        if kind is str:
            return self._replace_in_text(value, nodes, level)
        if kind is dict:
            return self._replace_in_dict(value, nodes, level)
        if kind in (list, tuple, set, frozenset):
            items = [
                self.replace(item, get_member_nodes(nodes, index), level + 1)
                for index, item in enumerate_items(value, kind)
            ]
            return value if all(map(is_, items, value)) else kind(items)
        if kind is bytes:
            text = decode_bytes(value)
            return value if (clean := self._replace_in_text(text, nodes, level)) is text else clean
        if kind is OpaqueValue:
            return OpaqueValue(self._replace_in_text(value.text, nodes, level))
        if value is None or kind is bool:
            return value
        return self._secrets.get_marker(format_scalar(value)) or value

    def _replace_in_dict(
        self, value: dict[PythonValue, PythonValue], nodes: Nodes, level: int
    ) -> dict[PythonValue, PythonValue]:
        secret_keys = frozenset(list_secret_keys(value, nodes, self._known_names) if nodes else ())
        clean, is_same = {}, True
        for step, member in value.items():
            name = self._redactor.make_marker(step) if step in secret_keys else self._replace_in_key(step, nodes, level)
            key = self._redactor.secret_names.get_naming_key(step, value)
            clean[name] = self.replace(member, get_member_nodes(nodes, step), level + 1, key)
            is_same = is_same and name is step and clean[name] is member
        return value if is_same else clean

    def _replace_in_key(self, key: PythonValue, nodes: Nodes, level: int) -> PythonValue:
        """Return *key* without secrets; what a schema names is none, whatever has the same text elsewhere."""
        if type(key) is not str:
            return self.replace(key, UNKNOWN_NODES, level + 1)
        return replace_spans(key, self._secrets.find_spans(key)) if self._secrets and not is_known(nodes, key) else key

    def _replace_in_text(self, text: str, nodes: Nodes, level: int) -> str:
        spans: list[MarkedSpan] = list(self._secrets.find_spans(text)) if self._secrets else []
        if (inner := parse_json(text, level)) is not text:
            return self._replace_in_json_text(text, inner, spans, nodes, level)
        for start, end in self._redactor.secret_names.find_values(text, self._secret_member_names):
            spans.append((start, end, self._redactor.make_marker(text[start:end])))
        return replace_spans(text, spans)

    def _replace_in_json_text(
        self, text: str, inner: PythonValue, spans: list[MarkedSpan], nodes: Nodes, level: int
    ) -> str:
        """Return *text*, the JSON text of *inner*, without secrets, whether these are in its members or parts of it."""
        if parts := list(iter_json_parts(text, spans, self._secrets)) if spans else []:
            quoted = replace_spans(text, [(start, end, f'"{marker}"') for start, end, marker in parts])
            inner = parse_json(quoted, level)
            if inner is quoted or any(text[start] not in "[{" for start, _, _ in parts):
                return self._redactor.make_marker(text)  # what is left is not JSON, or has another key: all is hidden
            if type(inner) is str:
                return inner  # the whole text was a secret
            text = quoted
        clean = self.replace(inner, get_text_nodes(nodes), level + 1)
        return text if clean is inner else to_compact_json(clean)


class RedactionPlan:
    """What is to be redacted in the calls of one tool."""

    def __init__(self, redactor: Redactor, parameters: SecretNode, unvalidated: SecretNode, result: SecretNode) -> None:
        self._redactor = redactor
        self.parameter_nodes, self.unvalidated_nodes, self._result_nodes = (parameters,), (unvalidated,), (result,)
        self._are_arguments_textless, self._is_result_textless = parameters.textless, result.textless
        self._textless_names = {name for name, member in parameters.members.items() if member.textless}
        self.has_secret_parameters = any(node.contains_secrets for node in unvalidated.closure)  # by schema or names
        self.default_secrets = NO_SECRETS
        """What a tool may quote that was given no arguments."""

    def with_plans_of_others(self, similar: list[RedactionPlan], marked: list[RedactionPlan]) -> RedactionPlan:
        """
        Return the plan for a call of a tool that does not exist.

        Args:
            similar: Those of tools with similar names, one of which may be meant.
            marked: Those of tools with marked parameters.
        """
        if not similar and not marked:
            return self
        others = [plan.parameter_nodes[0] for plan in marked]
        nodes = join_nodes([*(plan.unvalidated_nodes[0] for plan in similar), *others])
        return RedactionPlan(self._redactor, nodes, nodes, self._result_nodes[0])

    def parse_unvalidated(self, arguments: PythonValue) -> PythonValue:
        """Return arguments that may be anything as they are searched: parsed, where a container holds the secrets."""
        return parse_nested_json(arguments) if self.unvalidated_nodes[0].container_types else arguments

    def redact_arguments(
        self, arguments: PythonValue, secrets: SecretMarkers = NO_SECRETS, *, is_validated: bool = True
    ) -> tuple[PythonValue, SecretMarkers]:
        """
        Return the arguments without secrets, and *secrets* with those that were in them.

        Args:
            arguments: What a call passes.
            secrets: Other secrets that may occur in them: edited arguments may quote those of the request.
            is_validated: They fit the tool's schema; False: they may be anything, and are one marker where their
                secrets are so many that a caller who may not call at all could take up time with them.
        """
        secrets = secrets or self.default_secrets
        if secrets.places and not is_plain_json(arguments):
            arguments = normalize_value(arguments)
        if not is_validated:
            arguments = self.parse_unvalidated(arguments)
            clean, secrets = self._redactor.redact(
                arguments, secrets, self.unvalidated_nodes, max_secret_length=_MAX_REFUSED_SECRET_LENGTH
            )
            return replace_places(clean, find_open_places(clean, arguments, secrets.places)), secrets
        if type(arguments) is dict and not secrets:
            if self._are_arguments_textless:
                return arguments, NO_SECRETS
            for name in arguments:
                if name not in self._textless_names:
                    break
            else:
                return arguments, NO_SECRETS
        clean, secrets = self._redactor.redact(arguments, secrets, self.parameter_nodes)
        return replace_places(clean, find_open_places(clean, arguments, secrets.places)), secrets

    def find_secret_arguments(self, arguments: Mapping[str, PythonValue], secrets: SecretMarkers) -> tuple[str, ...]:
        """Return the names of the arguments that are or may hold secrets; `*`: all that the schema does not name."""
        clean = self.redact_arguments(arguments, secrets)[0]
        names = {name for name, value in arguments.items() if clean.get(name) is not value}
        for name, value in arguments.items():  # what takes the place of an empty value may be secret
            if self._redactor.is_secret_member(name, value if type(value) in (int, float) else "text", ()):
                names.add(name)
        for node in self.parameter_nodes[0].closure:
            for step, part in (*node.members.items(), ("*", node.additional)):
                reached = () if part is None else part.closure
                if any(other.secret or other.secret_keys or other.contains_secrets for other in reached):
                    names.add(str(step))
        return tuple(sorted(names))

    def mark_secrets(self, values: Iterable[PythonValue], secrets: SecretMarkers) -> SecretMarkers:
        """Return *secrets* with *values*, which are secret."""
        return secrets | self._redactor.mark_secrets(values)

    def mark_places(self, places: Iterable[tuple[JsonPlace, PythonValue]], secrets: SecretMarkers) -> SecretMarkers:
        """Return *secrets* with those in places of the arguments, as far as they are too short to be searched for."""
        short = mark_short_secrets(iter_scalars(places), self._redactor.make_marker)
        return secrets | SecretMarkers(places=short) if short else secrets

    def hide_result_places(
        self, result: PythonValue, places: Iterable[tuple[JsonPlace, PythonValue]]
    ) -> PythonValue:
        """Return a result without the secrets in places that are too short to be searched for, and no schema names."""
        if not (short := mark_short_secrets(places, self._redactor.make_marker)):
            return result
        return replace_places(result, find_open_places(self.redact_result(result), result, short))

    def redact_result(self, result: PythonValue, secrets: SecretMarkers = NO_SECRETS) -> PythonValue:
        """Return a result without secrets: its own, by the names of keys, and those that were passed to the call."""
        if self._is_result_textless and not secrets:
            return result
        return self._redactor.redact(result, secrets, self._result_nodes)[0]

    def find_result_secrets(self, result: PythonValue, secrets: SecretMarkers) -> SecretMarkers:
        """Return *secrets* with those of a result."""
        return self._redactor.redact(result, secrets, self._result_nodes)[1]

    def redact_text(self, text: str, secrets: SecretMarkers = NO_SECRETS) -> str:
        """Return a message without secrets, and without parts of those that were passed to the call."""
        return self._redactor.redact_text(text, secrets, self.parameter_nodes)

    def redact_event(
        self, event: JournalEvent, secrets: SecretMarkers = NO_SECRETS
    ) -> tuple[JournalEvent, SecretMarkers]:
        """
        Return *event* without secrets, and the secrets for the events of the same call that follow.

        Args:
            event: Any; changes of access and events of plugins have no secrets.
            secrets: Those of the call.
        """
        if not isinstance(event, EventBase):
            return event, secrets
        changes: dict[str, PythonValue] = {}
        secrets = secrets or self.default_secrets
        if (arguments := getattr(event, "arguments", None)) is not None:
            is_validated = isinstance(event, AgentToolCall | ApprovalAsked)
            changes["arguments"], secrets = self.redact_arguments(arguments, secrets, is_validated=is_validated)
        if (result := getattr(event, "result", None)) is not None:
            changes["result"] = self.redact_result(result, secrets)
        for name in ("error", "detail", "reason", "toolcall_reason"):
            if text := getattr(event, name, None):
                changes[name] = self.redact_text(text, secrets)
        if secrets:
            changes |= redact_quotations(event, lambda text: self.redact_text(text, secrets))
        changed = {name: value for name, value in changes.items() if value is not getattr(event, name)}
        return (attrs.evolve(event, **changed) if changed else event), secrets

    def hide_quoted_values(
        self, quotings: Sequence[QuotingT], arguments: PythonValue, secrets: SecretMarkers
    ) -> tuple[QuotingT, ...]:
        """
        Return problems or repairs without what is hidden in its place, however short that is.

        Args:
            quotings: The problems or repairs.
            arguments: Those that they are about; they may be anything.
            secrets: Those of the call.
        """
        quotings = hide_quoted_places(quotings, arguments, secrets.places)
        redactor, nodes = self._redactor, self.unvalidated_nodes  # what was given may not fit

        def redact(value: PythonValue) -> PythonValue:
            return redactor.redact(value, nodes=nodes, max_secret_length=_MAX_REFUSED_SECRET_LENGTH)[0]

        return hide_quoted_values(quotings, arguments, redact, redactor.make_marker, nodes[0].named_items)
