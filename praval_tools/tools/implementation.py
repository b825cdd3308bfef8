"""The function or schema behind a tool: binds arguments to it, compiled at first use, shared by copies of the tool."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from praval_tools.errors import Problem, ToolArgumentsError, ToolDefinitionError
from praval_tools.forks import FIRST_USE_LOCK
from praval_tools.misuse import ExplainedStructType
from praval_tools.names import get_class_name, get_plain_type
from praval_tools.schema.coercion import Repair
from praval_tools.schema.json_input import (
    MAX_BYTES,
    MalformedArgumentsError,
    copy_json,
    normalize_json,
    parse_arguments,
    preview_json,
)
from praval_tools.schema.json_values import MAX_DEPTH, SCALAR_TYPES, are_scalars, to_canonical_json
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.secret_marks import contains_secret_mark
from praval_tools.schema.signature import Signature, read_signature
from praval_tools.schema.type_handler import Mismatch
from praval_tools.schema.type_hints import Hint
from praval_tools.schema.type_lookup import has_only_builtin_types
from praval_tools.schema.validator import Validator
from praval_tools.tools.compiled import Arguments, CompiledSignature
from praval_tools.tools.context import ToolContext, find_deps_hint
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.tools.metadata import ToolMetadata
from praval_tools.tools.source import DeclarationSite
from praval_tools.tools.supplied import SuppliedSchema

MISS: Any = type("MISS", (), {"__repr__": lambda self: "MISS", "__slots__": ()})()
"""What the fast check answers where the arguments are not a strict match as they stand."""


class ToolDefinition(msgspec.Struct, frozen=True, metaclass=ExplainedStructType):
    """Name, description and JSON Schema of a tool: what a model reads."""

    name: str
    description: str
    parameters: JsonSchema

    def to_dict(self) -> dict[str, Any]:
        """Return the three as a dict."""
        return {"name": self.name, "description": self.description, "parameters": self.parameters}


class BoundArguments(msgspec.Struct, frozen=True):
    """
    Arguments that fit.

    Args:
        arguments: As JSON, after repairs.
        values: As the keywords of the function.
        repairs: What was repaired.
    """

    arguments: Arguments
    values: Arguments
    repairs: tuple[Repair, ...] = ()


def _describe_unresolved_hints(signature: Signature) -> list[str]:
    hints = {f"parameter {parameter.name!r}": parameter.hint for parameter in signature.parameters}
    problems = [
        f"{place}: the hint {hint!r} names something that is not defined"
        for place, hint in {**hints, "return": signature.returns}.items()
        if isinstance(hint, str)
    ]
    return [f"{text}; import or define it" for text in problems or ["a hint names something that is not defined"]]


def _render_given_value(arguments: Any, mismatch: Mismatch) -> str:
    """Return what was given at the place of a mismatch, as far as its steps lead into the arguments."""
    value = arguments
    for step in reversed(mismatch.steps):
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            break
    return preview_json(value)


def _select_given(given: object, filled: Any) -> Any:
    """Return of what the tool gets the parts that were given; a class may have changed their values."""
    if type(given) is dict and type(filled) is dict:
        return {key: _select_given(item, filled[key]) for key, item in given.items() if key in filled}
    if type(given) is list and type(filled) is list and len(given) == len(filled):
        return list(map(_select_given, given, filled))
    return filled


class ToolImplementation(msgspec.Struct, eq=False, weakref=True):
    """
    What a tool runs and takes; made once per declaration, compiled at first use.

    Args:
        function: What is called.
        name: The name of the tool at its declaration.
        metadata: The metadata of the tool at its declaration.
        signature: What was read of the function.
        site: Where it was declared.
        supplied_schema: The JSON Schema of the arguments, where it was supplied.
        docstring: The function's.
        strict: Whether a missing type hint is an error.
        discoverable: Whether discovery registers it.
        fallback_schema: The schema that it has where a type hint is unresolved at first use; None: that is an error.
        find_store: Returns the state store of the registry that registered it last, as long as that exists.
        supplied_result_schema: The JSON Schema of the result, where one was supplied with that of the arguments.
        definition_digest: Of the whole definition by a server or document, which has more than callers see; else empty.
        fast_path_factory: What the fast path compiled of it; made by that.
    """

    function: Callable[..., Any]
    name: str
    metadata: ToolMetadata
    signature: Signature
    site: DeclarationSite
    supplied_schema: JsonSchema | None = None
    docstring: str | None = None
    strict: bool = True
    discoverable: bool = True
    fallback_schema: JsonSchema | None = None
    find_store: Callable[[], object] | None = None
    supplied_result_schema: JsonSchema | None = None
    definition_digest: str = ""
    fast_path_factories: dict[tuple[bool, bool], Callable[..., Any]] = {}
    _compiled: CompiledSignature | SuppliedSchema | None = None
    _fingerprints: dict[tuple[str, str], str] | None = None
    _runs_user_code: bool | None = None
    _exact_match_binder: Callable[[Arguments], Any] | None = None

    @property
    def compiled(self) -> CompiledSignature | SuppliedSchema:
        """The schemas and converters; built once, on first use."""
        return self._compiled or self._compile_once()

    def _compile_once(self) -> CompiledSignature | SuppliedSchema:
        with FIRST_USE_LOCK:  # one for all: the compiler shares what it learned of a class
            if self._compiled is None:
                with activate_tool_frame(self.name):  # classes of its hints may run code of their own
                    self._compiled = self._build_compiled()
            return self._compiled

    def _build_compiled(self) -> CompiledSignature | SuppliedSchema:
        if self.supplied_schema is not None:
            return self._build_supplied(self.supplied_schema)
        signature = self.signature
        if signature.unresolved:
            signature = read_tool_signature(self.name, self.function, strict=self.strict)
            problems = list(signature.problems)
            if signature.unresolved:
                problems.extend(_describe_unresolved_hints(signature))
            if problems and self.fallback_schema is None:
                raise ToolDefinitionError(self.name, problems, str(self.site.source))
            if problems:
                self.supplied_schema = self.fallback_schema
            else:
                self.signature = signature
        if self.supplied_schema is not None:  # the fallback
            return self._build_supplied(self.supplied_schema)
        return CompiledSignature(signature, self.function, self.docstring or "")

    def _build_supplied(self, schema: JsonSchema) -> SuppliedSchema:
        return SuppliedSchema(
            schema, lambda: (self.function, self.signature), self.supplied_result_schema, self.list_marked_names()
        )

    def list_marked_names(self) -> frozenset[str]:
        """Return the parameters that the function marks as secret."""
        with activate_tool_frame(self.name):  # classes in its hints may have code of their own
            return frozenset(item.name for item in self.signature.parameters if contains_secret_mark(item.hint))

    @property
    def module(self) -> str:
        """The name of the module of its declaration."""
        return self.site.module

    @property
    def qualname(self) -> str:
        """Its name inside the module."""
        return self.site.qualname

    @property
    def is_compilable(self) -> bool:
        """Whether it can be compiled; not where a type hint is unresolved: `compiled` then raises why."""
        try:
            return self._compiled is not None or self.compiled is not None
        except ToolDefinitionError:
            return False

    @property
    def has_unresolved_hints(self) -> bool:
        """Whether a type hint is unresolved now, so that the tool cannot be called; one with a schema needs none."""
        return self.supplied_schema is None and bool(self.signature.unresolved) and not self.is_compilable

    @property
    def validator(self) -> Validator:
        """The JSON Schema validator of the parameters; built once."""
        return self.compiled.validator

    def compute_fingerprint(self, name: str, description: str) -> str:
        """Return the SHA-256 of name, description and schemas: equal exactly if all of it is equal."""
        known = self._fingerprints or {}
        fingerprint = known.get((name, description))
        if fingerprint is None:
            from hashlib import sha256  # loads OpenSSL: only who asks pays for it

            parameters, result = self.compiled.parameters_schema, self.compiled.result_schema
            whole = {"name": name, "description": description, "parameters": parameters, "result": result}
            fingerprint = sha256(to_canonical_json(whole).encode()).hexdigest()
            self._fingerprints = {**known, (name, description): fingerprint}
        return fingerprint

    def bind(
        self, raw: object, *, strict: bool = False, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
    ) -> BoundArguments:
        """
        Turn what a caller gave into the function's keywords, repairing where the coercion table allows.

        Raises:
            ToolArgumentsError: With every problem at once.
        """
        return self.bind_coerced(*self.coerce_arguments(raw, strict=strict, max_bytes=max_bytes, max_depth=max_depth))

    def bind_keywords(self, raw: object, *, strict: bool) -> Arguments:
        """Return what the function is passed where a caller gave *raw*; raises as `bind` does."""
        return self.compiled.complete_values(self.bind(raw, strict=strict).values)

    def bind_coerced(self, arguments: Arguments, repairs: tuple[Repair, ...]) -> BoundArguments:
        """
        Return what `coerce_arguments` gave as the function's keywords.

        Raises:
            ToolArgumentsError: A class of a parameter refuses its value.
        """
        values: Arguments = MISS if self.runs_user_code else self.bind_exact_match(arguments)
        if values is not MISS:
            return BoundArguments(arguments, values, repairs)
        try:
            values = self.compiled.decode_arguments(arguments)
        except Mismatch as first:
            problems = [
                Problem(path=mismatch.path, reason=mismatch.reason, given=_render_given_value(arguments, mismatch))
                for mismatch in self.compiled.find_mismatches(arguments) or [first]
            ]
            raise ToolArgumentsError(self.name, problems, quotes_classes=True) from first
        return BoundArguments(arguments, values, repairs)

    def coerce_arguments(
        self, raw: object, *, strict: bool = False, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
    ) -> tuple[Arguments, tuple[Repair, ...]]:
        """
        Return what a caller gave as JSON that fits the schema, and what was repaired.

        Raises:
            ToolArgumentsError: With every problem at once.
        """
        has_usual_limits = max_bytes >= MAX_BYTES and max_depth == MAX_DEPTH
        if type(raw) is dict and has_usual_limits and not self.runs_user_code:
            copied = self.copy_exact_match(raw)
            if copied is not None:
                return copied, ()
        validator = self.validator
        repairs: tuple[Repair, ...] = ()
        try:
            arguments = parse_arguments(raw, max_bytes=max_bytes, max_depth=max_depth)
            if arguments is raw:  # what is checked is what the function gets, whatever the caller does to its own
                arguments = copy_json(arguments)
            problems = validator.find_problems(arguments)
            if problems and not strict:
                arguments, repairs = validator.repair(arguments)
                arguments = normalize_json(arguments, max_depth)  # text that was read may be nested, too
                problems = validator.find_problems(arguments) if repairs else problems
        except MalformedArgumentsError as error:
            raise ToolArgumentsError(self.name, error.problems) from None
        except Exception as error:  # the seam to whatever objects a caller gave
            reason = f"cannot be read as JSON: {get_class_name(type(error))}"
            raise ToolArgumentsError(self.name, [Problem(path="$", reason=reason)]) from error
        if problems:
            raise ToolArgumentsError(self.name, problems)
        return arguments, repairs

    def copy_exact_match(self, raw: Arguments) -> Arguments | None:
        """Return a copy of arguments that are a strict match as they stand, else None."""
        copied: Arguments = raw.copy()
        if not are_scalars(copied.values()):
            if self.bind_exact_match(raw) is MISS:
                return None
            copied = copy_json(raw)
        return copied if self.bind_exact_match(copied) is not MISS else None  # whatever the caller did meanwhile

    def bind_exact_match(self, arguments: Arguments) -> Any:
        """Return the function's keywords for arguments that are a strict match as they stand, else MISS."""
        if self._exact_match_binder is None:
            body = self.compiled.keyword_fast_path_code
            lines = "\n".join(f"    {line}" for block in body.lines for line in block.split("\n"))
            scope = {**body.namespace, "MISS": MISS, "function": dict, "context": None, "complete": dict}
            source = f"def bind(arguments):\n{lines}\n    return {body.call}"
            exec(compile(source, f"<arguments of {self.name}>", "exec"), scope)  # noqa: S102
            self._exact_match_binder = scope["bind"]
        try:
            return self._exact_match_binder(arguments)
        except Exception:  # the seam to whatever objects a caller gave: `coerce_arguments` says what is wrong with them
            return MISS

    def render_for_review(
        self, bound: BoundArguments, names: frozenset[str] | None = None, *, with_made_fields: bool = True
    ) -> Arguments:
        """
        Return what those who judge a call see of it: what the tool will get as JSON, every default filled in.

        Args:
            bound: The arguments.
            names: The parameters that they see; None: all.
            with_made_fields: As well as what constructors take, the fields that they do not, which nobody can write.

        Raises:
            Unencodable: A value can only be read by its own code, so nobody can judge it.
        """
        if self._is_shown_as_given(bound.arguments, bound.values):
            return bound.arguments
        values = self.compiled.complete_values(bound.values)
        if names is not None:
            values = {name: value for name, value in values.items() if name in names}
        return self.compiled.read_arguments(values, with_made_fields=with_made_fields)

    def render_for_bounds(self, bound: BoundArguments, names: frozenset[str] | None) -> tuple[Arguments, Arguments]:
        """
        Return what the tool will get as JSON: without what was left out, and with every default filled in.

        Args:
            bound: The arguments.
            names: The parameters that have bounds; None: all.

        Raises:
            Unencodable: A value can only be read by its own code, so nobody can judge it.
        """
        filled = self.render_for_review(bound, names, with_made_fields=False)  # no schema has the others
        return (_select_given(bound.arguments, filled) if self.runs_user_code else bound.arguments), filled

    def encode_keywords(self, values: Mapping[str, object]) -> Arguments:
        """Return arguments of the function's own Python types as JSON; what is JSON already stays."""
        if are_scalars(values.values()) or not self.is_compilable:
            return dict(values)
        return {name: self.compiled.try_encode_argument(name, value) for name, value in values.items()}

    def copy_for_review(self, raw: Arguments) -> tuple[Arguments | None, Arguments]:
        """Return a copy of arguments that match exactly, None for others, and what policies are shown of it."""
        exact = self.copy_exact_match(raw)
        return (None, raw) if exact is None else (exact, self.render_for_review(self.bind_coerced(exact, ())))

    def _is_shown_as_given(self, given: Arguments, values: Arguments) -> bool:
        """Tell whether every parameter is given as a plain value, which is its own JSON."""
        if self.supplied_schema is not None or not len(self.signature.parameters) == len(values) == len(given):
            return False
        for parameter in self.signature.parameters:
            value = given.get(parameter.name, MISS)
            if get_plain_type(value) not in SCALAR_TYPES or values[parameter.name] is not value:
                return False
        return True

    @property
    def runs_user_code(self) -> bool:
        """Whether a class that a parameter takes may run code of its own while arguments are decoded."""
        if self._runs_user_code is None:
            self._runs_user_code = self.supplied_schema is None and not all(
                has_only_builtin_types(parameter.hint) for parameter in self.signature.parameters
            )
        return self._runs_user_code

    @property
    def context_parameters(self) -> tuple[str, ...]:
        """The parameters that take the `ToolContext`."""
        return tuple(parameter.name for parameter in self.signature.parameters if parameter.kind == "context")

    @property
    def argument_names(self) -> tuple[str, ...]:
        """The parameters that a caller may pass."""
        if self.supplied_schema is not None:
            return tuple(self.supplied_schema.get("properties", ()))
        return tuple(parameter.name for parameter in self.signature.parameters if parameter.kind == "normal")

    @property
    def deps_hint(self) -> Hint | None:
        """The `Deps` of its `ToolContext[Deps]`; None where it declares none."""
        for parameter in self.signature.parameters:
            if parameter.kind == "context" and (hint := find_deps_hint(parameter.hint)) is not None:
                return hint
        return None


def read_tool_signature(name: str, function: object, *, strict: bool) -> Signature:
    """Return what the function of the tool *name* takes and gives back."""
    with activate_tool_frame(name):  # classes in its hints may run code of their own
        return read_signature(function, strict=strict, context_types=(ToolContext,))


def inspect_function(implementation: ToolImplementation) -> inspect.Signature:
    """Return what Python says of the parameters of the function."""
    with activate_tool_frame(implementation.name):  # it may be an object whose attributes are computed
        return inspect.signature(implementation.function)
