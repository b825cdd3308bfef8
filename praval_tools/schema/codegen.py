"""
Source lines that take a tool's arguments apart, for a function made once per tool.

They accept exactly what strict structuring accepts, with the common checks written out in place.
What they do not accept at once they give back as MISS; who called asks the slower ways then, and those know why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Annotated, Any, Final, Literal, NewType

import msgspec
from attrs import NOTHING

from praval_tools.schema.constraints import read_constraints
from praval_tools.schema.json_values import INT_LIMIT, is_utf8_encodable
from praval_tools.schema.signature import Parameter, Signature
from praval_tools.schema.type_handler import Mismatch
from praval_tools.schema.type_hints import Hint, get_origin, is_union

DecoderGetter = Callable[[Any], Callable[[Any], Any]]
"""Hint → function that decoders one JSON value, or raises `Mismatch`."""

_NAMESPACE: Final = {
    "Mismatch": Mismatch,
    "ok_text": is_utf8_encodable,
    "LOW": -INT_LIMIT,
    "HIGH": INT_LIMIT,
    "LEFT_OUT": object(),
}
"""What the lines refer to beside `arguments`, `MISS`, `function` and `context`, which the caller supplies."""

_INLINE_CHECKS: Final[dict[Any, tuple[str, ...]]] = {
    float: (
        "if type({v}) is not float:",
        "    if type({v}) is not int: return MISS",
        "    try: {v} = float({v})",
        "    except OverflowError: return MISS",
        "elif {v} - {v}: return MISS",  # not a number, which is true, where it is not finite
    ),
    int: ("if type({v}) is not int or not LOW < {v} < HIGH: return MISS",),
    bool: ("if {v} is not True and {v} is not False: return MISS",),
    str: ("if type({v}) is not str or not ({v}.isascii() or ok_text({v})): return MISS",),
    None: ("if {v} is not None: return MISS",),
    type(None): ("if {v} is not None: return MISS",),
}


class FastPathBody(msgspec.Struct, frozen=True):
    """
    The middle of a function `def fast(arguments)` for one tool.

    Args:
        lines: Statements that read the dict `arguments` and assign locals, or `return MISS`.
        call: The call of `function` with those locals, and with `context` where the tool takes one.
        namespace: What the lines refer to, besides `arguments`, `function`, `context` and `MISS`.
    """

    lines: tuple[str, ...]
    call: str
    namespace: dict[str, Any]


def generate_fast_path_body(signature: Signature, structure_of: DecoderGetter, *, by_name: bool) -> FastPathBody:
    """
    Return the lines for *signature*.

    Args:
        signature: What the function takes; without problems.
        structure_of: Makes the function for a hint that has no lines of its own.
        by_name: Pass every argument by its name: the function is wrapped, so positions may mean something else.
    """
    namespace = dict(_NAMESPACE)
    normal = [one for one in signature.parameters if one.kind == "normal"]
    extra = next((one for one in signature.parameters if one.kind == "extra"), None)
    lines: list[str] = []
    lines += _emit_required(normal)
    lines += _emit_optional(normal, namespace, emit_count=extra is None)
    if extra is None:
        lines += _emit_count_check(normal)
    else:
        lines += _emit_extra(normal, extra, signature, namespace, structure_of)
    for index, one in enumerate(normal):
        lines += _emit_argument(index, one, namespace, structure_of)
    return FastPathBody(tuple(lines), _format_call(signature, by_name), namespace)


def _emit_required(normal: Sequence[Parameter]) -> Iterator[str]:
    names = [(index, one.name) for index, one in enumerate(normal) if one.default is NOTHING]
    if names:
        yield "try:"
        yield from (f"    a{index} = arguments[{name!r}]" for index, name in names)
        yield "except KeyError: return MISS"


def _emit_optional(normal: Sequence[Parameter], namespace: dict[str, Any], *, emit_count: bool) -> Iterator[str]:
    optional = [(index, one) for index, one in enumerate(normal) if one.default is not NOTHING]
    if optional and emit_count:
        yield f"n = {len(normal) - len(optional)}"
    for index, one in optional:
        namespace[f"d{index}"] = one.default
        yield f"a{index} = arguments.get({one.name!r}, LEFT_OUT)"
        if emit_count:
            yield f"if a{index} is not LEFT_OUT: n += 1"


def _emit_count_check(normal: Sequence[Parameter]) -> Iterator[str]:
    if any(one.default is not NOTHING for one in normal):
        yield "if len(arguments) != n: return MISS"
    else:
        yield f"if len(arguments) != {len(normal)}: return MISS"


def _emit_extra(
    normal: Sequence[Parameter],
    extra: Parameter,
    signature: Signature,
    namespace: dict[str, Any],
    structure_of: DecoderGetter,
) -> Iterator[str]:
    namespace["KNOWN"] = frozenset(one.name for one in normal)
    namespace["TAKEN"] = collect_bound_names(signature)
    namespace["ok_extra"] = structure_of(extra.hint)
    namespace["ok_name"] = structure_of(str)
    yield "extra = {}"
    yield "try:"
    yield "    for key, value in arguments.items():"
    yield "        if key not in KNOWN:"
    yield "            if key in TAKEN: return MISS"
    yield "            extra[ok_name(key)] = ok_extra(value)"
    yield "except (Mismatch, TypeError): return MISS"


def collect_bound_names(signature: Signature) -> frozenset[str]:
    """Return the names that no extra argument can have."""
    return frozenset((*signature.bound_names, *(one.name for one in signature.parameters if one.kind == "context")))


def _emit_argument(index: int, one: Parameter, namespace: dict[str, Any], structure_of: DecoderGetter) -> Iterator[str]:
    check = _emit_check(f"a{index}", one.hint, namespace, structure_of)
    if one.default is NOTHING:
        yield from check
        return
    yield f"if a{index} is LEFT_OUT: a{index} = d{index}"
    yield "else:"
    yield from (f"    {line}" for line in check)


def _emit_check(local: str, hint: Hint, namespace: dict[str, Any], structure_of: DecoderGetter) -> Iterator[str]:
    hint = _strip_neutral_wrappers(hint)
    if _has_inline_check(hint):
        yield from (line.replace("{v}", local) for line in _INLINE_CHECKS[hint])
    elif (inner := _get_inline_optional(hint)) is not None:
        yield f"if {local} is not None:"
        yield from (f"    {line.replace('{v}', local)}" for line in _INLINE_CHECKS[inner])
    elif (texts := _get_text_choices(hint)) is not None:
        namespace[f"c{local}"] = texts
        yield f"if type({local}) is not str: return MISS"
        yield f"{local} = c{local}.get({local}, LEFT_OUT)"
        yield f"if {local} is LEFT_OUT: return MISS"
    else:
        namespace[f"s{local}"] = structure_of(hint)
        yield f"try: {local} = s{local}({local})"
        yield "except Mismatch: return MISS"


def _strip_neutral_wrappers(hint: Hint) -> Any:
    """Return *hint* without wrappers that accept just what is in them: a description, a NewType."""
    while True:
        if get_origin(hint) is Annotated and not read_constraints(hint.__metadata__).values:
            hint = hint.__origin__
        elif isinstance(hint, NewType):
            hint = hint.__supertype__
        else:
            return hint


def _has_inline_check(hint: Hint) -> bool:
    return hint is None or (type(hint) is type and hint in _INLINE_CHECKS)


def _get_inline_optional(hint: Hint) -> Any:
    if not is_union(hint):
        return None
    plain = [one for one in hint.__args__ if one is not type(None)]
    return plain[0] if len(plain) == 1 and len(hint.__args__) == 2 and _has_inline_check(plain[0]) else None


def _get_text_choices(hint: Hint) -> dict[str, Any] | None:
    """Return text → value for a Literal or Enum of nothing but text; a look-up then is the whole check."""
    if get_origin(hint) is Literal:
        found = {one: one for one in hint.__args__}
    elif isinstance(hint, type) and issubclass(hint, Enum):
        found = {one.value: one for one in hint if type(one.value) is str}
        if len(found) != len(hint):
            return None
    else:
        return None
    return found if all(type(text) is str for text in found) else None


def _format_call(signature: Signature, by_name: bool) -> str:
    arguments: list[str] = []
    index = 0
    for one in signature.parameters:
        if one.kind == "extra":
            arguments.append("**extra")
            continue
        if one.kind == "context":
            local = "context"
        else:
            local, index = f"a{index}", index + 1
        arguments.append(f"{one.name}={local}" if by_name or one.keyword_only else local)
    return f"function({', '.join(arguments)})"
