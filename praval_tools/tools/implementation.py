"""The function or schema behind a tool, compiled at first use and shared by every copy of the tool."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
from attrs import NOTHING

from praval_tools.errors import Problem, ToolArgumentsError, ToolDefinitionError
from praval_tools.schema.coercion import Repair
from praval_tools.schema.encode import Encoder
from praval_tools.schema.json_input import MAX_BYTES, MalformedArgumentsError, copy_json, parse_arguments, preview_json
from praval_tools.schema.json_values import MAX_DEPTH, SCALAR_TYPES
from praval_tools.schema.signature import Signature, read_signature
from praval_tools.schema.type_handler import Mismatch, Unencodable
from praval_tools.schema.type_lookup import has_only_builtin_types
from praval_tools.schema.validator import Validator
from praval_tools.tools.compiled import CompiledSignature, SuppliedSchema, compile_signature
from praval_tools.tools.context import ToolContext
from praval_tools.tools.declaration_site import DeclarationSite
from praval_tools.tools.fingerprint import compute_fingerprint
from praval_tools.tools.metadata import ToolMetadata

MISS: Any = type("MISS", (), {"__repr__": lambda self: "MISS", "__slots__": ()})()
"""What the fast check answers where the arguments are not a strict match as they stand."""


class BoundArguments(msgspec.Struct, frozen=True):
    """
    Arguments that fit: as JSON after repairs, as the keywords of the function, and what was repaired.

    `filled` is what the tool will get as JSON, defaults included: what bounds are checked against.
    """

    arguments: dict[str, Any]
    values: dict[str, Any]
    repairs: tuple[Repair, ...] = ()


_COMPILE_LOCK: Final = threading.RLock()
"""One for all: a definition is compiled once, and the compiler shares what it learned of a class."""


def _describe_unresolved_hints(signature: Signature) -> list[str]:
    hints = [(f"parameter {one.name!r}", one.hint) for one in signature.parameters] + [("return", signature.returns)]
    found = [f"{what}: the hint {hint!r} names something that is not defined" for what, hint in hints
             if isinstance(hint, str)]  # fmt: skip
    return [f"{one}; import or define it" for one in found or ["a hint names something that is not defined"]]


def _render_given_value(arguments: Any, wrong: Mismatch) -> str:
    """Return what was given at the place of a mismatch, as far as its steps lead into the arguments."""
    here = arguments
    for step in reversed(wrong.steps):
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            break
    return preview_json(here)


class ToolImplementation(msgspec.Struct, eq=False, weakref=True):
    """
    What a tool runs and takes; made once per declaration, compiled at first use.

    `otherwise` is the schema that it has where a hint leads nowhere at first use; None: that is an error.
    """

    function: Callable[..., Any]
    name: str
    metadata: ToolMetadata
    signature: Signature
    site: DeclarationSite
    supplied_schema: dict[str, Any] | None = None
    docstring: str | None = None
    strict: bool = True
    discoverable: bool = True
    fallback_schema: dict[str, Any] | None = None
    _compiled: CompiledSignature | SuppliedSchema | None = None
    _fingerprints: dict[tuple[str, str], str] | None = None
    _fast_path_factory: Any = None
    _runs_user_code: bool | None = None
    _exact_match_binder: Any = None

    @property
    def compiled(self) -> CompiledSignature | SuppliedSchema:
        """The schemas and converters; built once, on first use."""
        return self._compiled or self._compile_once()

    def _compile_once(self) -> CompiledSignature | SuppliedSchema:
        with _COMPILE_LOCK:
            if self._compiled is None:
                self._compiled = self._build_compiled()
            return self._compiled

    def _build_compiled(self) -> CompiledSignature | SuppliedSchema:
        signature = self.signature
        if self.supplied_schema is None and signature.unresolved:
            signature = read_signature(self.function, strict=self.strict, context_types=(ToolContext,))
            problems = list(signature.problems)
            if signature.unresolved:
                problems.extend(_describe_unresolved_hints(signature))
            if problems and self.fallback_schema is None:
                raise ToolDefinitionError(self.name, problems, str(self.site.source))
            if problems:
                self.supplied_schema = self.fallback_schema
            else:
                self.signature = signature
        made: CompiledSignature | SuppliedSchema
        if self.supplied_schema is not None:
            made = SuppliedSchema(self.supplied_schema)
        else:
            made = compile_signature(signature, self.function, self.docstring or "")
        return made

    @property
    def module(self) -> str:
        """The name of the module of its declaration."""
        return self.site.module

    @property
    def qualname(self) -> str:
        """Its name inside of the module."""
        return self.site.qualname

    @property
    def is_compilable(self) -> bool:
        """Whether it can be compiled; not where a hint leads nowhere, and `compiled` then says why."""
        try:
            return self._compiled is not None or self.compiled is not None
        except ToolDefinitionError:
            return False

    @property
    def validator(self) -> Validator:
        """The JSON Schema validator of the parameters; built once."""
        return self.compiled.validator

    def compute_fingerprint(self, name: str, description: str) -> str:
        """Return SHA-256 over name, description and schemas in canonical JSON."""
        known = self._fingerprints or {}
        made = known.get((name, description))
        if made is None:
            compiled = self.compiled
            made = compute_fingerprint(name, description, compiled.parameters_schema, compiled.result_schema)
            self._fingerprints = {**known, (name, description): made}
        return made

    def bind(
        self, raw: object, *, strict: bool = False, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
    ) -> BoundArguments:
        """
        Turn what a caller gave into the function's keywords, repairing where the coercion table allows.

        Raises:
            ToolArgumentsError: With every problem at once.
        """
        return self.bind_coerced(*self.coerce_arguments(raw, strict=strict, max_bytes=max_bytes, max_depth=max_depth))

    def bind_coerced(self, arguments: dict[str, Any], repairs: tuple[Repair, ...]) -> BoundArguments:
        """
        Return what `mended` gave as the function's keywords.

        Raises:
            ToolArgumentsError: A class of a parameter refuses its value.
        """
        values: dict[str, Any] = MISS if self.runs_user_code else self.bind_exact_match(arguments)
        if values is not MISS:
            return BoundArguments(arguments, values, repairs)
        try:
            values = self.compiled.decode_arguments(arguments)
        except Mismatch as first:
            wrong = self.compiled.find_mismatches(arguments) or [first]
            problems = tuple(
                Problem(path=one.path, reason=one.reason, given=_render_given_value(arguments, one)) for one in wrong
            )
            raise ToolArgumentsError(self.name, problems) from first
        return BoundArguments(arguments, values, repairs)

    def coerce_arguments(
        self, raw: object, *, strict: bool = False, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
    ) -> tuple[dict[str, Any], tuple[Repair, ...]]:
        """
        Return what a caller gave as JSON that fits the schema, and what was repaired.

        Raises:
            ToolArgumentsError: With every problem at once.
        """
        usual = max_bytes >= MAX_BYTES and max_depth == MAX_DEPTH
        if (
            type(raw) is dict
            and usual
            and not self.runs_user_code
            and (copied := self.copy_exact_match(raw)) is not None
        ):
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
                problems = validator.find_problems(arguments) if repairs else problems
        except MalformedArgumentsError as bad:
            raise ToolArgumentsError(self.name, bad.problems) from None
        except Exception as error:  # the seam to whatever objects a caller gave
            reason = f"cannot be read as JSON: {type(error).__name__}"
            raise ToolArgumentsError(self.name, [Problem(path="$", reason=reason)]) from error
        if problems:
            raise ToolArgumentsError(self.name, problems)
        return arguments, repairs

    def copy_exact_match(self, raw: dict[str, Any]) -> dict[str, Any] | None:
        """Return a copy of arguments that are a strict match as they stand, else None."""
        copied: dict[str, Any] = raw.copy()
        if not SCALAR_TYPES.issuperset(map(type, copied.values())):
            if self.bind_exact_match(raw) is MISS:
                return None
            copied = copy_json(raw)
        return copied if self.bind_exact_match(copied) is not MISS else None  # whatever the caller did meanwhile

    def bind_exact_match(self, arguments: dict[str, Any]) -> Any:
        """Return the function's keywords for arguments that are a strict match as they stand, else MISS."""
        if self._exact_match_binder is None:
            body = self.compiled.keyword_fast_path_code
            lines = "\n".join(f"    {line}" for block in body.lines for line in block.split("\n"))
            scope = {**body.namespace, "MISS": MISS, "function": dict, "context": None}
            source = f"def quick(arguments):\n{lines}\n    return {body.call}"
            exec(compile(source, f"<arguments of {self.name}>", "exec"), scope)  # noqa: S102
            self._exact_match_binder = scope["quick"]
        try:
            return self._exact_match_binder(arguments)
        except Exception:  # the seam to whatever objects a caller gave: the long way says what is wrong with them
            return MISS

    def fill_defaults(self, bound: BoundArguments) -> dict[str, Any]:
        """Return what the tool will get as JSON: every default filled in, nested ones too."""
        if self.supplied_schema is not None:
            return {**self._encode_function_defaults(), **bound.values}
        values = dict(bound.values)
        for parameter in self.signature.parameters:
            if parameter.kind == "normal" and parameter.default is not NOTHING:
                values.setdefault(parameter.name, parameter.default)
        return self.compiled.encode_arguments(values)

    def _encode_function_defaults(self) -> dict[str, Any]:
        """Return, for a given schema, what the function itself fills in, as far as it has a JSON form."""
        made: dict[str, Any] = {}
        for one in self.signature.parameters:
            if one.kind == "normal" and one.default is not NOTHING:
                with suppress(Unencodable):
                    made[one.name] = Encoder().encode_value(one.default)
        return made

    def render_for_review(self, bound: BoundArguments) -> dict[str, Any]:
        """Return what policies and approvers are shown: as bounds see it, and what cannot be read back as given."""
        try:
            return {**bound.arguments, **self.fill_defaults(bound)}
        except Unencodable:
            return bound.arguments

    def encode_keywords(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments of the function's own Python types as JSON; what is JSON already stays."""
        if SCALAR_TYPES.issuperset(map(type, values.values())) or not self.is_compilable:
            return dict(values)
        return {name: self.compiled.try_encode_argument(name, value) for name, value in values.items()}

    @property
    def runs_user_code(self) -> bool:
        """Whether a class that a parameter takes may run code of its own while arguments are structured."""
        if self._runs_user_code is None:
            self._runs_user_code = self.supplied_schema is None and not all(
                has_only_builtin_types(one.hint) for one in self.signature.parameters
            )
        return self._runs_user_code

    @property
    def context_parameters(self) -> tuple[str, ...]:
        """The parameters that take the `ToolContext`."""
        return tuple(one.name for one in self.signature.parameters if one.kind == "context")
