"""The function or schema behind a tool, compiled at first use and shared by every copy of the tool."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from attrs import NOTHING, define, field, frozen

from praval_tools.errors import Problem, ToolArgumentsError, ToolDefinitionError
from praval_tools.model.arguments import BadArguments, Repair, Validator, parse
from praval_tools.model.context import ToolContext
from praval_tools.model.signature import (
    Compiled,
    FastBody,
    Mismatch,
    Signature,
    compile_signature,
    fingerprint,
    read_signature,
)
from praval_tools.model.source import Source

MISS: Any = type("MISS", (), {"__repr__": lambda self: "MISS", "__slots__": ()})()
"""What the fast check answers where the arguments are not a strict match as they stand."""


@frozen
class Bound:
    """
    Arguments that fit: as JSON after repairs, as the keywords of the function, and what was repaired.

    `filled` is what the tool will get as JSON, defaults included: what bounds are checked against.
    """

    arguments: dict[str, Any]
    values: dict[str, Any]
    repairs: tuple[Repair, ...] = ()


@define(eq=False)
class Definition:
    """What a tool runs and takes; made once per declaration, compiled at first use."""

    function: Callable[..., Any]
    name: str
    description: str
    signature: Signature
    given: dict[str, Any] | None = None
    source: Source = Source()
    run: object = None
    module: str = ""
    qualname: str = ""
    doc: str | None = None
    _compiled: Compiled | None = None
    _validator: Validator | None = None
    _fingerprint: str | None = None
    _lane: Any = None
    _lock: Any = field(factory=threading.Lock)

    @property
    def compiled(self) -> Compiled:
        """The schemas and converters; built once, on first use."""
        return self._compiled or self._compile()

    def _compile(self) -> Compiled:
        with self._lock:
            if self._compiled is None:
                self._compiled = self._compile_given() if self.given is not None else self._compile_function()
            return self._compiled

    def _compile_function(self) -> Compiled:
        signature = self.signature
        if signature.unresolved:
            signature = read_signature(self.function, strict=True, context_types=(ToolContext,))
            problems = list(signature.problems)
            if signature.unresolved:
                problems.append("a type hint names something that is not defined; import or define it first")
            if problems:
                raise ToolDefinitionError(self.name, problems, str(self.source))
            self.signature = signature
        return compile_signature(signature, self.function, self.doc or "")

    def _compile_given(self) -> Compiled:
        given: dict[str, Any] = self.given or {}
        return Compiled(
            parameters_schema=given,
            result_schema=None,
            structure=dict,
            encode_arguments=dict,
            structure_result=lambda value: value,
            encode_result=_plain_encoder(),
            fast=self._given_body(given),
        )

    def _given_body(self, given: Mapping[str, Any]) -> FastBody:
        validator = Validator(dict(given))
        return FastBody(
            lines=("if not is_valid(arguments): return MISS", "arguments = fill(arguments)"),
            call="function(**arguments)",
            namespace={"is_valid": validator.is_valid, "fill": validator.fill},
        )

    @property
    def validator(self) -> Validator:
        """The JSON Schema validator of the parameters; built once."""
        if self._validator is None:
            self._validator = Validator(self.compiled.parameters_schema)
        return self._validator

    @property
    def fingerprint(self) -> str:
        """SHA-256 over name, description and schemas in canonical JSON."""
        if self._fingerprint is None:
            compiled = self.compiled
            self._fingerprint = fingerprint(
                self.name, self.description, compiled.parameters_schema, compiled.result_schema
            )
        return self._fingerprint

    def bind(self, raw: object, *, strict: bool = False) -> Bound:
        """
        Turn what a caller gave into the function's keywords, repairing where the coercion table allows.

        Raises:
            ToolArgumentsError: With every problem at once.
        """
        try:
            arguments = parse(raw)
            repairs: tuple[Repair, ...] = ()
            problems = self.validator.problems(arguments)
            if problems and not strict:
                arguments, repairs = self.validator.repair(arguments)
                problems = self.validator.problems(arguments) if repairs else problems
        except BadArguments as bad:
            raise ToolArgumentsError(self.name, bad.problems) from None
        if problems:
            raise ToolArgumentsError(self.name, problems)
        if self.given is not None:
            return Bound(arguments, self.validator.fill(arguments), repairs)
        try:
            values = self.compiled.structure(arguments)
        except Mismatch as wrong:
            raise ToolArgumentsError(self.name, [Problem(path=wrong.path, reason=wrong.reason)]) from wrong
        return Bound(arguments, values, repairs)

    def filled(self, bound: Bound) -> dict[str, Any]:
        """Return what the tool will get as JSON: every default filled in, nested ones too."""
        if self.given is not None:
            return bound.values
        values = dict(bound.values)
        for parameter in self.signature.parameters:
            if parameter.kind == "normal" and parameter.default is not NOTHING:
                values.setdefault(parameter.name, parameter.default)
        return self.compiled.encode_arguments(values)

    @property
    def context_parameters(self) -> tuple[str, ...]:
        """The parameters that take the `ToolContext`."""
        return tuple(one.name for one in self.signature.parameters if one.kind == "context")

    def same_place(self, other: Definition) -> bool:
        """Tell whether *other* is the same declaration in another run of its module, or of its notebook cell."""
        if (self.module, self.qualname) != (other.module, other.qualname) or "<locals>" in self.qualname:
            return False
        if self.run is not None or other.run is not None:
            return self.run is not other.run
        notebook = "get_ipython" in getattr(self.function, "__globals__", {})
        return notebook and (self.source.file != other.source.file or self.source.line == other.source.line)


def _plain_encoder() -> Callable[[Any], Any]:
    from praval_tools.model.encode import encode

    return encode


def place_of(function: Any) -> tuple[Source, object, str, str]:
    """Return where *function* is defined: source, the run of its module, module and qualified name."""
    inner = function
    while (deeper := getattr(inner, "__wrapped__", None) or getattr(inner, "func", None)) is not None:
        inner = deeper
    inner = getattr(inner, "__func__", inner)
    code = getattr(inner, "__code__", None)
    if code is None:
        code = getattr(getattr(type(inner), "__call__", None), "__code__", None)
    source = Source(file=code.co_filename, line=code.co_firstlineno) if code is not None else Source()
    module = getattr(inner, "__module__", None) or type(inner).__module__
    scope = getattr(inner, "__globals__", None)
    if scope is None:
        scope = getattr(sys.modules.get(module), "__dict__", {})
    return source, scope.get("__spec__"), module, getattr(inner, "__qualname__", type(inner).__qualname__)
