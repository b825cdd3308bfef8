"""Runs the functions and objects that a plugin contributes in the plugin's name, whoever calls them, and whenever."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from enum import Enum
from functools import lru_cache
from types import CoroutineType, GeneratorType, TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from praval_tools.errors import JournalError
from praval_tools.execution.context import FrameScope, activate_frame, make_frame
from praval_tools.names import describe_error, get_class_name, has_type, to_plain_scalar, to_plain_text
from praval_tools.schema.json_values import SCALAR_TYPES
from praval_tools.tools.frames import Settings, await_in_frame, keep_frame
from praval_tools.tools.plain_managers import plain_manager

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

_PACKAGE: Final = f"{__name__.partition('.')[0]}."
_PLAIN_TYPES: Final = SCALAR_TYPES | {bytes}


def run_as(actor: str, registry: object = None) -> AbstractContextManager[object]:
    """Run the `with` block in the name of *actor*: it may change what that name owns, and nothing else."""
    return activate_frame(make_frame(FrameScope(registry, None, actor)))


def bind_function(function: Callable[..., T], actor: str) -> Callable[..., T]:
    """Return *function* so that it runs in the name of *actor*, and so does all code of what it returns."""

    @keep_frame
    def call(*args: object, **keywords: object) -> T:
        with _run_code(actor):
            result: T = _take_value(function(*args, **keywords), actor)
            return result

    return call


def take_value(value: Any, actor: str) -> Any:
    """
    Return what a plugin handed over, so that no code of it runs as anybody else than *actor*, whenever it is used.

    Data are copied to plain ones. What runs later does so in that name: functions, iterators, whatever is awaited;
    any other object becomes a `PluginObject`.
    """
    with run_as(actor):
        return _take_value(value, actor)


@plain_manager
def _run_code(actor: str, kept_settings: Settings | None = None) -> Iterator[None]:
    """Run the `with` block as `run_as` does; an error of the journal is one of our own classes, with plain texts."""
    with activate_frame(make_frame(FrameScope(None, None, actor)), kept_settings):
        try:
            yield
        except JournalError as error:
            if (taken := _take_error(error, actor)) is error:
                raise
            raise taken from error


def _take_value(value: Any, actor: str) -> Any:
    """Do what `take_value` does, in the plugin's name already."""
    kind: Any = type(value)
    if kind in _PLAIN_TYPES or issubclass(kind, Enum) and _find_own_class(kind) is kind:
        return value
    if type(plain := to_plain_scalar(value)) in _PLAIN_TYPES:
        return plain
    if issubclass(kind, datetime):
        return datetime.fromisoformat(datetime.isoformat(value))
    if _is_future(kind):
        return _take_future(value, actor)
    if issubclass(kind, Awaitable):
        return _await_value(value, actor) if issubclass(kind, CoroutineType) else _PluginAwaitable(value, actor)
    if (own := _find_own_class(kind)) is not None and (names := _list_fields(own)):
        return own(**{alias: _take_value(getattr(own, name).__get__(value), actor) for name, alias in names.items()})
    if issubclass(kind, Mapping):
        return {_take_value(key, actor): _take_value(item, actor) for key, item in value.items()}
    if issubclass(kind, Sequence | AbstractSet):
        container = next((plain for plain in (tuple, frozenset, set) if issubclass(kind, plain)), list)
        return container([_take_value(item, actor) for item in value])
    if issubclass(kind, Iterable):
        return _iterate(value, actor)
    return bind_function(value, actor) if callable(value) else PluginObject(value, actor)


@lru_cache(1_000)
def _find_own_class(kind: Any) -> Any:
    """Return the nearest class of this package that *kind* is, or is derived from; None where there is none."""
    for base in kind.__mro__:
        module = sys.modules.get(base.__module__) if base.__module__.startswith(_PACKAGE) else None
        if module is not None and vars(module).get(get_class_name(base)) is base:
            return base
    return None


@lru_cache(1_000)
def _list_fields(own: Any) -> dict[str, str]:
    """Return the names in the constructor of each field of a class of data, by the field's name; of another, none."""
    if issubclass(own, msgspec.Struct):
        return {name: name for name in own.__struct_fields__}
    return {field.name: field.alias for field in getattr(own, "__attrs_attrs__", ())}


def _take_error(error: BaseException, actor: str) -> JournalError:
    """Return *error* as an error of the journal whose texts are plain; itself where its class is one of our own."""
    if not has_type(error, JournalError):
        return JournalError(actor, to_plain_text(describe_error(error)), "See what its plugin says of that.")
    kind: Any = type(error)
    store, problem, fix = (to_plain_text(getattr(error, name, "")) for name in ("store", "problem", "fix"))
    answers = _take_value(error.answers, actor)
    taken = error if _find_own_class(kind) is kind else JournalError(store, problem, fix)
    taken.store, taken.problem, taken.fix, taken.answers = store, problem, fix, answers
    return taken


def _is_future(kind: type) -> bool:
    """Tell whether objects of *kind* are futures; there are none before their module is imported, which takes long."""
    module: Any = sys.modules.get("concurrent.futures")
    return module is not None and issubclass(kind, module.Future)


def _take_future(future: Future[object], actor: str) -> Future[object]:
    from concurrent.futures import Future

    taken = Future[object]()

    def settle(_: object) -> None:
        if taken.done():
            return
        with run_as(actor):
            try:
                value, failure = _take_value(future.result(), actor), None
            except Exception as error:  # the seam to whatever a plugin raises
                value, failure = None, _take_error(error, actor)
        if failure is None:
            taken.set_result(value)
        else:
            taken.set_exception(failure)

    future.add_done_callback(settle)
    return taken


async def _await_value(awaitable: Awaitable[object], actor: str) -> object:
    try:
        value = await await_in_frame(make_frame(FrameScope(None, None, actor)), awaitable)
    except JournalError as error:
        with _run_code(actor):
            raise error
    return take_value(value, actor)


class _PluginAwaitable:
    """Something that is awaited in the plugin's name, if at all."""

    __slots__ = ("_actor", "_value")

    def __init__(self, value: Awaitable[object], actor: str) -> None:
        self._value, self._actor = value, actor

    def __await__(self) -> Generator[object, object, object]:
        return _await_value(self._value, self._actor).__await__()


def _iterate(iterable: Iterable[object], actor: str) -> Iterator[object]:
    kept_settings = Settings()
    with _run_code(actor, kept_settings):
        iterator = iter(iterable)
    try:
        while True:
            with _run_code(actor, kept_settings):  # not around the yield: whoever iterates runs in between
                try:
                    item = _take_value(next(iterator), actor)
                except StopIteration:
                    return
            yield item
    finally:
        if has_type(iterator, GeneratorType):
            with _run_code(actor, kept_settings):
                iterator.close()


class PluginObject:
    """
    An object that a plugin contributes: its attributes are read, and its methods called, in the plugin's name.

    Args:
        value: The object.
        actor: The name of its plugin.
    """

    __slots__ = ("_actor", "_value")

    def __init__(self, value: object, actor: str) -> None:
        self._value, self._actor = value, actor

    def __getattr__(self, name: str) -> Any:
        with _run_code(self._actor):
            attribute = getattr(self._value, name)
            return bind_function(attribute, self._actor) if callable(attribute) else _take_value(attribute, self._actor)

    def __repr__(self) -> str:
        return bind_function(repr, self._actor)(self._value)

    def __enter__(self) -> PluginObject:
        self.__getattr__("__enter__")()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> object:
        return self.__getattr__("__exit__")(kind, error, traceback)


def bind_opener(opener: Callable[..., object], actor: str) -> Callable[..., PluginObject]:
    """Return *opener* so that it runs in the name of *actor*, and so do the methods of what it opens."""

    def open_as_actor(*args: object) -> PluginObject:
        with _run_code(actor):
            return PluginObject(opener(*args), actor)

    return open_as_actor


def run_as_owner(value: object) -> AbstractContextManager[object]:
    """Run the `with` block in the name of the plugin that contributes *value*; as before, where none does."""
    return run_as(value._actor) if isinstance(value, PluginObject) else nullcontext()
