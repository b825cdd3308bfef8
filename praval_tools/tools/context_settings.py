"""Context variables, such as the current run, that end with the tool or agent function that set them."""

from __future__ import annotations

from typing import Generic, TypeVar

from praval_tools.tools.frames import SETTINGS, Frame, Settings, current_frame, derive_frame

T = TypeVar("T")


class ContextSetting(Generic[T]):
    """
    A value that is set in a context, and holds for what is called or begun there.

    Where a tool, an agent's function or other code that the library calls sets it, it holds in that work alone: it is
    kept in the frame of the work, so that whoever comes after has the settings from before, also where the work never
    takes it back.
    """

    __slots__ = ()

    def get(self) -> T | None:
        """Return the value of this context; None where none is set."""
        frame = current_frame.get()
        if frame is None or (settings := frame[SETTINGS]) is None:
            return None
        value: T | None = settings.get(self)
        return value


class use_setting(Generic[T]):  # used as a function; a class costs a third of a generator
    """Set *value* in this context until the `with` block ends; None leaves the context as it is."""

    __slots__ = ("_before", "_frame", "_outer", "_setting", "_token", "_value")

    def __init__(self, setting: ContextSetting[T], value: T | None) -> None:
        self._setting, self._value = setting, value

    def __enter__(self) -> None:
        if self._value is None:
            return
        outer = self._outer = current_frame.get()
        settings = (None if outer is None else outer[SETTINGS]) or {}
        self._before = settings.get(self._setting)
        self._frame: Frame | None = derive_frame(outer, {**settings, self._setting: self._value})
        try:
            self._token = current_frame.set(self._frame)
        except BaseException:  # an interrupt, which may come before the token is kept
            current_frame.set(outer)
            raise

    def __exit__(self, *_: object) -> None:
        if self._value is None:
            return
        current = current_frame.get()
        if current is self._frame:
            try:
                current_frame.reset(self._token)  # leaves a context without frames empty, in which calls cost less
            except ValueError:  # a copy of the context
                current_frame.set(self._outer)
        elif current is not None and (settings := current[SETTINGS] or {}).get(self._setting) is self._value:
            others: Settings = {key: value for key, value in settings.items() if key is not self._setting}
            if self._before is not None:
                others[self._setting] = self._before
            current_frame.set(derive_frame(current, others))
