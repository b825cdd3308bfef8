"""
Generates the source lines of the fast path that check and unpack the arguments of one tool.

They accept exactly what strict decoding accepts, with the common checks inlined.
They return MISS for everything else; the caller then takes a slower path, which finds out why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Annotated, Any, Final, Literal, NewType

import msgspec

from praval_tools.schema.constraints import read_constraints
from praval_tools.schema.json_values import (
    INT_LIMIT,
    LOWER_INT_LIMIT,
    SCALAR_TYPES,
    find_scalar_problem,
    is_utf8_encodable,
)
from praval_tools.schema.signature import Parameter, Signature
from praval_tools.schema.type_handler import Mismatch
from praval_tools.schema.type_hints import NOTHING, Hint, get_origin, is_union

DecoderGetter = Callable[[Any], Callable[[Any], Any]]
"""Takes a hint; returns a function that decodes one JSON value or raises `Mismatch`."""

_NAMESPACE: Final = {
    "Mismatch": Mismatch,
    "ok_text": is_utf8_encodable,
    "LOW": LOWER_INT_LIMIT,
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
        shown: A dict of all that the function will get, by name; empty where its locals hold more than scalars.
    """

    lines: tuple[str, ...]
    call: str
    namespace: dict[str, Any]
    shown: str = ""


def generate_fast_path_body(signature: Signature, get_decoder: DecoderGetter, *, by_name: bool) -> FastPathBody:
    """
    Return the lines for *signature*.

    Args:
        signature: What the function takes; without problems.
        get_decoder: Makes the function for a hint that has no lines of its own.
        by_name: Pass every argument by its name: the function is wrapped, so positions may mean something else.
    """
    namespace = dict(_NAMESPACE)
    normal = [parameter for parameter in signature.parameters if parameter.kind == "normal"]
    extra = next((parameter for parameter in signature.parameters if parameter.kind == "extra"), None)
    lines: list[str] = []
    lines += _emit_required(normal)
    lines += _emit_optional(normal, namespace, emit_count=extra is None)
    if extra is None:
        lines += _emit_count_check(normal)
    else:
        lines += _emit_extra(normal, extra, signature, namespace, get_decoder)
    for index, parameter in enumerate(normal):
        lines += _emit_argument(index, parameter, namespace, get_decoder)
    shown = "" if extra is not None or not all(map(_takes_only_scalars, normal)) else _format_dict(normal)
    return FastPathBody(tuple(lines), _format_call(signature, by_name), namespace, shown)


def _takes_only_scalars(parameter: Parameter) -> bool:
    """Tell whether all that a parameter gets, its default too, is a JSON scalar that has an inline check."""
    hint, default = _strip_neutral_wrappers(parameter.hint), parameter.default
    if not _has_inline_check(hint) and _get_inline_optional(hint) is None:
        return False
    return default is NOTHING or (type(default) in SCALAR_TYPES and not find_scalar_problem(default))


def _format_dict(normal: Sequence[Parameter]) -> str:
    return f"{{{', '.join(f'{parameter.name!r}: a{index}' for index, parameter in enumerate(normal))}}}"


def _emit_required(normal: Sequence[Parameter]) -> Iterator[str]:
    names = [(index, parameter.name) for index, parameter in enumerate(normal) if parameter.default is NOTHING]
    if names:
        yield "try:"
        yield from (f"    a{index} = arguments[{name!r}]" for index, name in names)
        yield "except KeyError: return MISS"


def _emit_optional(normal: Sequence[Parameter], namespace: dict[str, Any], *, emit_count: bool) -> Iterator[str]:
    optional = [(index, parameter) for index, parameter in enumerate(normal) if parameter.default is not NOTHING]
    if optional and emit_count:
        yield f"n = {len(normal) - len(optional)}"
    for index, parameter in optional:
        namespace[f"d{index}"] = parameter.default
        yield f"a{index} = arguments.get({parameter.name!r}, LEFT_OUT)"
        if emit_count:
            yield f"if a{index} is not LEFT_OUT: n += 1"


def _emit_count_check(normal: Sequence[Parameter]) -> Iterator[str]:
    if any(parameter.default is not NOTHING for parameter in normal):
        yield "if len(arguments) != n: return MISS"
    else:
        yield f"if len(arguments) != {len(normal)}: return MISS"


def _emit_extra(
    normal: Sequence[Parameter],
    extra: Parameter,
    signature: Signature,
    namespace: dict[str, Any],
    get_decoder: DecoderGetter,
) -> Iterator[str]:
    namespace["KNOWN"] = frozenset(parameter.name for parameter in normal)
    namespace["TAKEN"] = list_reserved_names(signature)
    namespace["ok_extra"] = get_decoder(extra.hint)
    namespace["ok_name"] = get_decoder(str)
    yield "extra = {}"
    yield "try:"
    yield "    for key, value in arguments.items():"
    yield "        if type(key) is not str: return MISS"  # a look-up would run its code
    yield "        if key not in KNOWN:"
    yield "            if key in TAKEN: return MISS"
    yield "            extra[ok_name(key)] = ok_extra(value)"
    yield "except (Mismatch, TypeError, RuntimeError): return MISS"  # another thread may change the arguments


def list_reserved_names(signature: Signature) -> frozenset[str]:
    """Return the names that no extra argument can have."""
    return frozenset(
        (*signature.bound_names, *(parameter.name for parameter in signature.parameters if parameter.kind == "context"))
    )


def _emit_argument(
    index: int, parameter: Parameter, namespace: dict[str, Any], get_decoder: DecoderGetter
) -> Iterator[str]:
    check = _emit_check(f"a{index}", parameter.hint, namespace, get_decoder)
    if parameter.default is NOTHING:
        yield from check
        return
    yield f"if a{index} is LEFT_OUT: a{index} = d{index}"
    yield "else:"
    yield from (f"    {line}" for line in check)


def _emit_check(local: str, hint: Hint, namespace: dict[str, Any], get_decoder: DecoderGetter) -> Iterator[str]:
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
        namespace[f"s{local}"] = get_decoder(hint)
        yield f"try: {local} = s{local}({local})"
        yield "except (Mismatch, RuntimeError): return MISS"


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
    members = [member for member in hint.__args__ if member is not type(None)]
    return members[0] if len(members) == 1 and len(hint.__args__) == 2 and _has_inline_check(members[0]) else None


def _get_text_choices(hint: Hint) -> dict[str, Any] | None:
    """Return text → value for a Literal or Enum of texts only, where a look-up is the whole check."""
    if get_origin(hint) is Literal:
        choices = {member: member for member in hint.__args__}
    elif isinstance(hint, type) and issubclass(hint, Enum):
        choices = {member.value: member for member in hint if type(member.value) is str}
        if len(choices) != len(hint):
            return None
    else:
        return None
    return choices if all(type(text) is str for text in choices) else None


def _format_call(signature: Signature, by_name: bool) -> str:
    arguments: list[str] = []
    index = 0
    for parameter in signature.parameters:
        if parameter.kind == "extra":
            arguments.append("**extra")
            continue
        if parameter.kind == "context":
            local = "context"
        else:
            local, index = f"a{index}", index + 1
        arguments.append(f"{parameter.name}={local}" if by_name or parameter.keyword_only else local)
    return f"function({', '.join(arguments)})"
