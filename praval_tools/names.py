"""Checks and converts names of tools and agents, and suggests similar ones; also short texts of values and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from reprlib import Repr
from typing import Final, Protocol, TypeGuard, TypeVar

from praval_tools.errors import InvalidNameError, format_suggestion
from praval_tools.lazy_regex import LazyRegex

T = TypeVar("T")

_MAX_WIRE_LENGTH = 64
"""How long a name may be on its way to a provider."""

OPERATOR = "operator"
"""What `by=None` stands for outside any agent: the host program."""

FILE_LABEL_PREFIX = "config:"
"""How what stands for a file of a configuration in records begins, and keys of its grants; no name of an agent does."""

MAX_NAME_LENGTH = 128
"""How long the name of a tool may be."""

_TOOL_NAME = LazyRegex(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
_FOLD_TABLE = str.maketrans({"-": "_", ".": "_"})
_CAMEL_BOUNDARY = LazyRegex(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATORS = LazyRegex(r"[-_.]+")
_FOREIGN_CHARACTERS = LazyRegex(r"[^A-Za-z0-9_]+")


class HasName(Protocol):
    """What has a name, like a tool or an agent."""

    @property
    def name(self) -> str:
        """The name."""


_short_repr = Repr()
_short_repr.maxlevel, _short_repr.maxother, _short_repr.maxlong, _short_repr.maxstring = 4, 400, 400, 200
_short_repr.maxdict = _short_repr.maxlist = _short_repr.maxtuple = _short_repr.maxset = _short_repr.maxfrozenset = 40


def find_file_label(key: str | None) -> str:
    """Return what stands for the file that a grant of this key comes from; empty where it comes from none."""
    label = (key or "").rpartition(":")[0]
    return label if label.startswith(FILE_LABEL_PREFIX) else ""


def check_tool_name(name: object) -> str:
    """
    Return *name* if it is a legal tool name.

    Raises:
        InvalidNameError: It is not a string of 1–128 of `[A-Za-z0-9_.-]` that starts with a letter or `_`.
    """
    if type(name) is str and is_valid_tool_name(name):
        return name
    raise InvalidNameError(
        f"{shorten_repr(name)} is not a valid tool name: use 1 to 128 letters, digits, '_', '-' or '.', "
        f"the first a letter or '_' (normalize_name makes one from a foreign name)."
    )


def is_valid_tool_name(name: str) -> bool:
    """Tell whether a tool may have this name."""
    return _TOOL_NAME.fullmatch(name) is not None


def check_name_part(part: object) -> str | None:
    """
    Return a namespace, or the name after it, as a plain text; None where there is none: None or False.

    Raises:
        InvalidNameError: It is not a text. What is in a text is checked with the whole name.
    """
    plain = to_plain_scalar(part)
    if plain is None or plain is False:
        return None
    return plain if type(plain) is str else check_tool_name(plain)


def check_agent_name(name: object) -> str:
    """
    Return *name* if it is a legal agent name.

    Raises:
        InvalidNameError: It is not a string of 1–128 printable characters without `:`.
    """
    if type(name) is str and 0 < len(name) <= 128 and name.isprintable() and ":" not in name and name.strip() == name:
        return refuse_operator_name(name)
    raise InvalidNameError(
        f"{shorten_repr(name)} is not a valid agent name: use 1 to 128 printable characters without ':' "
        f"and without spaces around."
    )


def to_plain_text(value: object) -> str:
    """
    Return what a text holds, as a plain `str`; of another object, its text, which it makes without rights.

    A class of its own could compare, show and hash itself as another text, now or when somebody else reads it.
    """
    if type(value) is str:
        return value
    if has_type(value, str):
        return str.__str__(value)
    with enter_object_context():
        return str.__str__(str(value))


def to_plain_scalar(value: object) -> object:
    """Return a text, bytes or number of a class of its own, such as an Enum's, as a plain one; all else as it is."""
    kind = type(value)
    if not issubclass(kind, _SCALAR_TYPES) or (type(kind) is type and kind in _PLAIN_SCALARS):
        return value
    return next(make(value) for base, make in _PLAIN_SCALARS.items() if issubclass(kind, base))


_PLAIN_SCALARS: Final[dict[type, Callable[..., object]]] = {
    str: str.__str__,
    bool: bool,
    int: int.__pos__,
    float: float.__pos__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    bytearray: lambda value: bytearray.__getitem__(value, slice(None)),
}
"""Scalar type → what makes a plain one of a value of a subclass, without code of that."""
_SCALAR_TYPES: Final = tuple(_PLAIN_SCALARS)


def get_class_name(kind: type) -> str:
    """Return the name of a class as a plain text, without running code of its metaclass."""
    return to_plain_text(_get_class_name(kind))


def get_qualified_name(kind: type) -> str:
    """Return the name of a class with those of the classes and functions around it, as `get_class_name` does."""
    return to_plain_text(_get_qualified_name(kind))


_get_class_name = type.__dict__["__name__"].__get__
_get_qualified_name = type.__dict__["__qualname__"].__get__


def get_name(value: object) -> str:
    """
    Return the name of a tool or agent that is given by name or as object.

    Raises:
        InvalidNameError: It is neither.
    """
    name = find_name(value)
    if name is None:
        raise InvalidNameError(f"{shorten_repr(value)} is neither a name nor a tool or agent; pass one of these.")
    return name


def find_name(value: object) -> str | None:
    """Return what `get_name` does, and None for what is neither a name nor has one."""
    name = value if has_type(value, str) else getattr(value, "name", None)
    return to_plain_text(name) if has_type(name, str) else None


def get_agent_name(agent: object) -> str:
    """
    Return the name of an agent that is given by name or as object, where only the name counts.

    Raises:
        InvalidNameError: It is neither, or an agent that acts for others: its name would drop these.
    """
    name = get_name(agent)
    chain = getattr(agent, "chain", ())
    if isinstance(chain, tuple) and chain:
        raise InvalidNameError(
            f"{name!r} acts for {', '.join(map(repr, chain))} here, and this would be for {name!r} itself; "
            f"if that is meant, pass the name."
        )
    return name


def is_valid_agent_name(name: str) -> bool:
    """Tell whether an agent may have this name."""
    try:
        return bool(check_agent_name(name))
    except InvalidNameError:
        return False


def describe_author(by: str, person: str) -> str:
    """Return how a text speaks of who changed access: *by*, and the *person* who acted as the operator, if known."""
    return f"{person!r} ({by})" if person else repr(by)


def refuse_operator_name(name: str) -> str:
    """Return *name*, or raise `InvalidNameError` where it stands for the host program."""
    if name == OPERATOR:
        raise InvalidNameError(f"{OPERATOR!r} is the host program, not an agent; give the agent another name.")
    return name


def describe_registry(name: str) -> str:
    """Return how a text speaks of a registry of this *name*; an empty one is none."""
    return f"registry {name!r}" if name else "a registry without a name"


def describe_two_registries(name: str, other_name: str) -> tuple[str, str]:
    """Return how a text speaks of a registry and of another one, by their names."""
    if name == other_name:
        hint = "name them by ToolRegistry(name=…)"
        return ("this registry", f"another one ({hint})") if not name else (f"this {name!r}", f"another {name!r}")
    return describe_registry(name), describe_registry(other_name)


def fold_name(name: str) -> str:
    """Return the key under which *name* clashes with others: case, `-`, `_` and `.` do not count."""
    return name.lower().translate(_FOLD_TABLE)


def to_wire_name(name: str, limit: int = _MAX_WIRE_LENGTH) -> str:
    """
    Return the name under which a tool travels to a provider: `[A-Za-z_][A-Za-z0-9_-]*`, at most *limit* long.

    A name that is too long ends in a short hash of the whole, so that two long names stay apart.
    """
    safe = name.replace(".", "_")
    if len(safe) <= limit:
        return safe
    from hashlib import sha256

    return f"{safe[: limit - 9]}_{sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}"


@lru_cache(64)
def get_collision_keys(name: str) -> tuple[str, ...]:
    """Return the keys that no other tool may share with one of this name: its folded name, and its folded wire name."""
    return (fold_name(name),) if len(name) <= _MAX_WIRE_LENGTH else (fold_name(name), fold_name(to_wire_name(name)))


def normalize_name(name: str) -> str:
    """
    Turn a foreign name into a legal tool name: CamelCase becomes snake_case, other characters become `_`.

    For imported names only; a declared name is checked, never changed. One that is too long ends in a short hash.
    """
    snake = _FOREIGN_CHARACTERS.sub("_", _CAMEL_BOUNDARY.sub("_", name)).strip("_").lower()
    return check_tool_name(to_wire_name(snake if snake and not snake[0].isdigit() else f"_{snake}", 128))


_MAX_COMPARED_NAMES: Final = 100
"""How many names are compared letter by letter with one that is unknown."""


def find_similar_names(
    name: str, candidates: Iterable[str], limit: int = 3, *, cutoff: float = 0.6
) -> tuple[str, ...]:
    """
    Return up to *limit* of *candidates* that resemble *name*, the likeliest first.

    Of very many candidates those that share most pairs of letters with it are compared, and no others.

    Args:
        name: The name.
        candidates: The names that there are.
        limit: How many are returned.
        cutoff: How much they resemble it at least; 1: they are the same.
    """
    from difflib import get_close_matches
    from heapq import nlargest

    folded: dict[str, str] = {}
    for candidate in candidates:
        folded.setdefault(fold_name(candidate), candidate)
    wanted = fold_name(name[:128])
    names: Iterable[str] = folded
    if len(folded) > _MAX_COMPARED_NAMES:
        pairs = {*zip(wanted, wanted[1:], strict=False)}
        shared = {other: len(pairs.intersection(zip(other, other[1:], strict=False))) for other in folded}
        names = nlargest(_MAX_COMPARED_NAMES, folded, key=lambda other: (shared[other], -len(other)))
    return tuple(folded[match] for match in get_close_matches(wanted, names, limit, cutoff))


def suggest_names(name: object, candidates: Iterable[str], prefix: str = " Did you mean ") -> str:
    """
    Return the end of a message that asks for one of the *candidates* that resemble *name*.

    Args:
        name: What was given; anything but a text resembles nothing.
        candidates: The names that there are.
        prefix: What comes before the names: `" Did you mean "` after a sentence, `"; did you mean "` inside one.

    Returns:
        `" Did you mean 'a' or 'b'?"`; an empty text where nothing is similar.
    """
    if not has_type(name, str):
        return ""
    return format_suggestion(find_similar_names(to_plain_text(name), candidates), prefix)


def has_type(value: object, kinds: type[T] | tuple[type, ...]) -> TypeGuard[T]:
    """Tell whether the real class of *value* is one of *kinds*; `isinstance` asks the value, which runs its code."""
    return issubclass(type(value), kinds)


def get_plain_type(value: object) -> type:
    """Return the type of *value*; `object` where a metaclass could run code of its own once the type is looked up."""
    kind = type(value)
    return kind if type(kind) is type else object


def describe_error(error: BaseException) -> str:
    """Return what *error* says in one text, its type's name where it says nothing or cannot be asked."""
    try:
        if isinstance(error, SystemExit):
            return f"the tool tried to end the program (exit code {shorten_repr(error.code)})"
        return to_plain_text(error) or get_class_name(type(error))
    except KeyboardInterrupt:
        raise
    except BaseException as fault:  # isolation: it is the tool's own code, which may try to end the program
        return f"{get_class_name(type(error))}, whose message cannot be shown ({get_class_name(type(fault))})"


def call_or_default(make: Callable[[], T], default: T) -> T:
    """Return what *make* makes by code of a tool; where that raises, whatever it raises, the default."""
    try:
        return make()
    except KeyboardInterrupt:
        raise
    except BaseException:  # isolation: it is the tool's own code, which may try to end the program
        return default


def format_count(number: int, noun: str, plural: str | None = None) -> str:
    """Return *number* with its noun: "1 call", "1,200 calls"; *plural* where that is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def set_object_context(context: Callable[[], AbstractContextManager[object]]) -> None:
    """Set what `enter_object_context` returns."""
    _object_context[0] = context


def enter_object_context() -> AbstractContextManager[object]:
    """Return a context for reading an object, whose class may have code of its own, in which that has no rights."""
    return _object_context[0]()


_object_context: Final[list[Callable[[], AbstractContextManager[object]]]] = [nullcontext]


def shorten_repr(value: object, limit: int = 80) -> str:
    """Return `repr(value)`, cut in the middle to *limit* characters; code of an object has no rights there."""
    plain = to_plain_scalar(value)
    try:
        if has_type(plain, (str, bytes)):
            text = repr(plain[: 2 * limit])
        elif plain is None or get_plain_type(plain) in _PLAIN_SCALARS:
            text = _short_repr.repr(plain)
        else:
            with enter_object_context():
                text = to_plain_text(_short_repr.repr(plain))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # isolation: the object of a caller may raise anything
        text = f"<{get_class_name(type(value))} that cannot be shown: {get_class_name(type(error))}>"
    return text if len(text) <= limit else f"{text[: limit * 2 // 3]}…{text[-(limit // 4) :]}"


def normalize_distribution_name(name: str) -> str:
    """Return the name of a distribution in the form in which its spellings are compared."""
    text: str = _SEPARATORS.sub("-", name).lower()
    return text
