"""The function or schema behind a tool, compiled at first use and shared by every copy of the tool."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import msgspec
from attrs import NOTHING

from praval_tools.errors import Problem, ToolArgumentsError, ToolDefinitionError
from praval_tools.schema.arguments import (
    MAX_BYTES,
    MAX_DEPTH,
    BadArguments,
    Repair,
    Validator,
    parse,
    plain_copy,
    shown_json,
)
from praval_tools.schema.encode import Encoder
from praval_tools.schema.json_input import SCALARS
from praval_tools.schema.signature import Signature, read_signature
from praval_tools.schema.type_handler import Mismatch, Unencodable
from praval_tools.schema.type_lookup import is_closed
from praval_tools.tools.context import ToolContext
from praval_tools.tools.declaration_site import Place
from praval_tools.tools.fingerprint import fingerprint
from praval_tools.tools.metadata import ToolMetadata

if TYPE_CHECKING:
    from praval_tools.tools.compiled import Compiled, GivenSchema

MISS: Any = type("MISS", (), {"__repr__": lambda self: "MISS", "__slots__": ()})()
"""What the fast check answers where the arguments are not a strict match as they stand."""


class Bound(msgspec.Struct, frozen=True):
    """
    Arguments that fit: as JSON after repairs, as the keywords of the function, and what was repaired.

    `filled` is what the tool will get as JSON, defaults included: what bounds are checked against.
    """

    arguments: dict[str, Any]
    values: dict[str, Any]
    repairs: tuple[Repair, ...] = ()


_compiling: Final = threading.RLock()
"""One for all: a definition is compiled once, and the compiler shares what it learned of a class."""


def _undefined(signature: Signature) -> list[str]:
    hints = [(f"parameter {one.name!r}", one.hint) for one in signature.parameters] + [("return", signature.returns)]
    found = [f"{what}: the hint {hint!r} names something that is not defined" for what, hint in hints
             if isinstance(hint, str)]  # fmt: skip
    return [f"{one}; import or define it" for one in found or ["a hint names something that is not defined"]]


def _given(arguments: Any, wrong: Mismatch) -> str:
    """Return what was given at the place of a mismatch, as far as its steps lead into the arguments."""
    here = arguments
    for step in reversed(wrong.steps):
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            break
    return shown_json(here)


class Definition(msgspec.Struct, eq=False, weakref=True):
    """
    What a tool runs and takes; made once per declaration, compiled at first use.

    `otherwise` is the schema that it has where a hint leads nowhere at first use; None: that is an error.
    """

    function: Callable[..., Any]
    name: str
    metadata: ToolMetadata
    signature: Signature
    place: Place
    given: dict[str, Any] | None = None
    doc: str | None = None
    strict: bool = True
    listed: bool = True
    otherwise: dict[str, Any] | None = None
    _compiled: Compiled | GivenSchema | None = None
    _fingerprints: dict[tuple[str, str], str] | None = None
    _lane: Any = None
    _runs_code: bool | None = None
    _quick: Any = None

    @property
    def compiled(self) -> Compiled | GivenSchema:
        """The schemas and converters; built once, on first use."""
        return self._compiled or self._compile()

    def _compile(self) -> Compiled | GivenSchema:
        with _compiling:
            if self._compiled is None:
                self._compiled = self._compiled_now()
            return self._compiled

    def _compiled_now(self) -> Compiled | GivenSchema:
        signature = self.signature
        if self.given is None and signature.unresolved:
            signature = read_signature(self.function, strict=self.strict, context_types=(ToolContext,))
            problems = list(signature.problems)
            if signature.unresolved:
                problems.extend(_undefined(signature))
            if problems and self.otherwise is None:
                raise ToolDefinitionError(self.name, problems, str(self.place.source))
            if problems:
                self.given = self.otherwise
            else:
                self.signature = signature
        compiler: Any = import_module("praval_tools.tools.compiled")  # a program may declare more than it calls
        made: Compiled | GivenSchema
        if self.given is not None:
            made = compiler.GivenSchema(self.given)
        else:
            made = compiler.compile_signature(signature, self.function, self.doc or "")
        return made

    @property
    def module(self) -> str:
        """The name of the module of its declaration."""
        return self.place.module

    @property
    def qualname(self) -> str:
        """Its name inside of the module."""
        return self.place.qualname

    @property
    def usable(self) -> bool:
        """Whether it can be compiled; not where a hint leads nowhere, and `compiled` then says why."""
        try:
            return self._compiled is not None or self.compiled is not None
        except ToolDefinitionError:
            return False

    @property
    def validator(self) -> Validator:
        """The JSON Schema validator of the parameters; built once."""
        return self.compiled.validator

    def fingerprint(self, name: str, description: str) -> str:
        """Return SHA-256 over name, description and schemas in canonical JSON."""
        known = self._fingerprints or {}
        made = known.get((name, description))
        if made is None:
            compiled = self.compiled
            made = fingerprint(name, description, compiled.parameters_schema, compiled.result_schema)
            self._fingerprints = {**known, (name, description): made}
        return made

    def bind(
        self, raw: object, *, strict: bool = False, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
    ) -> Bound:
        """
        Turn what a caller gave into the function's keywords, repairing where the coercion table allows.

        Raises:
            ToolArgumentsError: With every problem at once.
        """
        return self.bound(*self.mended(raw, strict=strict, max_bytes=max_bytes, max_depth=max_depth))

    def bound(self, arguments: dict[str, Any], repairs: tuple[Repair, ...]) -> Bound:
        """
        Return what `mended` gave as the function's keywords.

        Raises:
            ToolArgumentsError: A class of a parameter refuses its value.
        """
        values: dict[str, Any] = MISS if self.runs_code else self.quick(arguments)
        if values is not MISS:
            return Bound(arguments, values, repairs)
        try:
            values = self.compiled.structure(arguments)
        except Mismatch as first:
            wrong = self.compiled.mismatches(arguments) or [first]
            problems = tuple(Problem(path=one.path, reason=one.reason, given=_given(arguments, one)) for one in wrong)
            raise ToolArgumentsError(self.name, problems) from first
        return Bound(arguments, values, repairs)

    def mended(
        self, raw: object, *, strict: bool = False, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
    ) -> tuple[dict[str, Any], tuple[Repair, ...]]:
        """
        Return what a caller gave as JSON that fits the schema, and what was repaired.

        Raises:
            ToolArgumentsError: With every problem at once.
        """
        usual = max_bytes >= MAX_BYTES and max_depth == MAX_DEPTH
        if type(raw) is dict and usual and not self.runs_code and (copied := self.strictly(raw)) is not None:
            return copied, ()
        validator = self.validator
        repairs: tuple[Repair, ...] = ()
        try:
            arguments = parse(raw, max_bytes=max_bytes, max_depth=max_depth)
            if arguments is raw:  # what is checked is what the function gets, whatever the caller does to its own
                arguments = plain_copy(arguments)
            problems = validator.problems(arguments)
            if problems and not strict:
                arguments, repairs = validator.repair(arguments)
                problems = validator.problems(arguments) if repairs else problems
        except BadArguments as bad:
            raise ToolArgumentsError(self.name, bad.problems) from None
        except Exception as error:  # the seam to whatever objects a caller gave
            reason = f"cannot be read as JSON: {type(error).__name__}"
            raise ToolArgumentsError(self.name, [Problem(path="$", reason=reason)]) from error
        if problems:
            raise ToolArgumentsError(self.name, problems)
        return arguments, repairs

    def strictly(self, raw: dict[str, Any]) -> dict[str, Any] | None:
        """Return a copy of arguments that are a strict match as they stand, else None."""
        copied: dict[str, Any] = raw.copy()
        if not SCALARS.issuperset(map(type, copied.values())):
            if self.quick(raw) is MISS:
                return None
            copied = plain_copy(raw)
        return copied if self.quick(copied) is not MISS else None  # whatever the caller did meanwhile

    def quick(self, arguments: dict[str, Any]) -> Any:
        """Return the function's keywords for arguments that are a strict match as they stand, else MISS."""
        if self._quick is None:
            body = self.compiled.named
            lines = "\n".join(f"    {line}" for block in body.lines for line in block.split("\n"))
            scope = {**body.namespace, "MISS": MISS, "function": dict, "context": None}
            source = f"def quick(arguments):\n{lines}\n    return {body.call}"
            exec(compile(source, f"<arguments of {self.name}>", "exec"), scope)  # noqa: S102
            self._quick = scope["quick"]
        try:
            return self._quick(arguments)
        except Exception:  # the seam to whatever objects a caller gave: the long way says what is wrong with them
            return MISS

    def filled(self, bound: Bound) -> dict[str, Any]:
        """Return what the tool will get as JSON: every default filled in, nested ones too."""
        if self.given is not None:
            return {**self._own_defaults(), **bound.values}
        values = dict(bound.values)
        for parameter in self.signature.parameters:
            if parameter.kind == "normal" and parameter.default is not NOTHING:
                values.setdefault(parameter.name, parameter.default)
        return self.compiled.encode_arguments(values)

    def _own_defaults(self) -> dict[str, Any]:
        """Return, for a given schema, what the function itself fills in, as far as it has a JSON form."""
        made: dict[str, Any] = {}
        for one in self.signature.parameters:
            if one.kind == "normal" and one.default is not NOTHING:
                with suppress(Unencodable):
                    made[one.name] = Encoder().value(one.default)
        return made

    def shown(self, bound: Bound) -> dict[str, Any]:
        """Return what policies and approvers are shown: as bounds see it, and what cannot be read back as given."""
        try:
            return {**bound.arguments, **self.filled(bound)}
        except Unencodable:
            return bound.arguments

    def as_json(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments of the function's own Python types as JSON; what is JSON already stays."""
        if SCALARS.issuperset(map(type, values.values())) or not self.usable:
            return dict(values)
        return {name: self.compiled.json_of(name, value) for name, value in values.items()}

    @property
    def runs_code(self) -> bool:
        """Whether a class that a parameter takes may run code of its own while arguments are structured."""
        if self._runs_code is None:
            self._runs_code = self.given is None and not all(is_closed(one.hint) for one in self.signature.parameters)
        return self._runs_code

    @property
    def context_parameters(self) -> tuple[str, ...]:
        """The parameters that take the `ToolContext`."""
        return tuple(one.name for one in self.signature.parameters if one.kind == "context")
