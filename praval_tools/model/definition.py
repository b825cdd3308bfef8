"""The function or schema behind a tool, compiled at first use and shared by every copy of the tool."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from attrs import NOTHING, define, field, frozen

from praval_tools.errors import Problem, ToolArgumentsError, ToolDefinitionError
from praval_tools.model.arguments import BadArguments, Repair, Validator, parse
from praval_tools.model.compiled import Compiled, compile_signature
from praval_tools.model.context import ToolContext
from praval_tools.model.encode import Encoder
from praval_tools.model.fast import FastBody
from praval_tools.model.fingerprint import fingerprint
from praval_tools.model.form import Mismatch
from praval_tools.model.signature import Signature, read_signature
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


def _undefined(signature: Signature) -> list[str]:
    hints = [(f"parameter {one.name!r}", one.hint) for one in signature.parameters] + [("return", signature.returns)]
    found = [f"{what}: the hint {hint!r} names something that is not defined" for what, hint in hints
             if isinstance(hint, str)]  # fmt: skip
    return [f"{one}; import or define it" for one in found or ["a hint names something that is not defined"]]


class GivenSchema:
    """What `Compiled` is to a function, for a tool whose JSON Schema was given: values stay JSON."""

    result_schema: None = None

    def __init__(self, schema: dict[str, Any]) -> None:
        self.parameters_schema = schema
        self._validator = Validator(schema)
        self.encode_result: Callable[[Any], Any] = Encoder().value

    def structure(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with declared defaults filled in."""
        filled: dict[str, Any] = self._validator.fill(dict(arguments))
        return filled

    def encode_arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values: they are JSON."""
        return dict(values)

    def structure_result(self, value: Any) -> Any:
        """Return the value: it is JSON."""
        return value

    @property
    def fast(self) -> FastBody:
        """The lines of the fast lane."""
        return FastBody(
            lines=("if not is_valid(arguments): return MISS", "arguments = fill(arguments)"),
            call="function(**arguments)",
            namespace={"is_valid": self._validator.is_valid, "fill": self._validator.fill},
        )


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
    _compiled: Compiled | GivenSchema | None = None
    _validator: Validator | None = None
    _fingerprint: str | None = None
    _lane: Any = None
    _lock: Any = field(factory=threading.Lock)

    @property
    def compiled(self) -> Compiled | GivenSchema:
        """The schemas and converters; built once, on first use."""
        return self._compiled or self._compile()

    def _compile(self) -> Compiled | GivenSchema:
        with self._lock:
            if self._compiled is None:
                self._compiled = self._compile_function() if self.given is None else GivenSchema(self.given)
            return self._compiled

    def _compile_function(self) -> Compiled:
        signature = self.signature
        if signature.unresolved:
            signature = read_signature(self.function, strict=True, context_types=(ToolContext,))
            problems = list(signature.problems)
            if signature.unresolved:
                problems.extend(_undefined(signature))
            if problems:
                raise ToolDefinitionError(self.name, problems, str(self.source))
            self.signature = signature
        return compile_signature(signature, self.function, self.doc or "")

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
