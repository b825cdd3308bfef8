"""Watches the files of a configuration in a thread, and has them loaded again when they change."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context
from pathlib import Path
from typing import Final, Protocol

from praval_tools.config.files import FileSignature, read_signature
from praval_tools.errors import MissingExtraError, RegistryClosedError

_STEP_MILLISECONDS: Final = 50
_DEBOUNCE_MILLISECONDS: Final = 2_000
"""For how long a file may go on changing before it is loaded all the same."""
_LOOK_MILLISECONDS: Final = 1_000
"""After how long the files are looked at without a notice: one may be lost, as on network drives."""

_RETRY_SECONDS: Final = 1.0, 60.0
"""After how long a load is tried again that failed for something else than the files: at first, and at most."""

_Signatures = tuple[FileSignature, ...]


class WatchableSource(Protocol):
    """What was loaded from files, and can be loaded again."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def files(self) -> Sequence[Path]:
        """The files."""

    @property
    def signatures(self) -> _Signatures:
        """What tells the content of the files that was loaded from any other."""

    def refresh(self) -> object:
        """Load the files again."""


def watch_files(source: WatchableSource) -> Callable[[], None]:
    """
    Watch the files of *source*; it is refreshed after each change, and keeps what is wrong with one as its error.

    Returns:
        A function that ends it.

    Raises:
        MissingExtraError: watchfiles is not installed.
    """
    try:
        from watchfiles import watch
    except ModuleNotFoundError as error:
        raise MissingExtraError("Watching a configuration", "watch") from error
    stopped = threading.Event()

    def follow() -> None:
        known = source.signatures  # of what was read: the files may have changed while that was loaded
        folders = sorted({str(path.absolute().parent) for path in source.files})
        changes = watch(
            *folders, stop_event=stopped, step=_STEP_MILLISECONDS, debounce=_DEBOUNCE_MILLISECONDS, recursive=False,
            rust_timeout=_LOOK_MILLISECONDS, yield_on_timeout=True, raise_interrupt=False, watch_filter=None,
        )  # fmt: skip
        delay, next_try = _RETRY_SECONDS[0], float("inf")
        for _ in changes:
            if _read_signatures(source) == known and time.monotonic() < next_try:
                continue
            now = _wait_for_end_of_writing(source, stopped)
            if any(map(_is_emptied, source.files)):
                continue
            delay = min(2 * delay, _RETRY_SECONDS[1]) if now == known else _RETRY_SECONDS[0]
            known, next_try = now, float("inf")
            try:
                source.refresh()
            except RegistryClosedError:
                return
            except Exception:  # it is among the problems of the registry; the cause may be elsewhere than in the files
                next_try = time.monotonic() + delay

    thread = threading.Thread(target=Context().run, args=(follow,), name=f"watch {source.name}", daemon=True)
    thread.start()

    def stop() -> None:
        stopped.set()
        if thread is not threading.current_thread():
            thread.join(5)

    return stop


def _wait_for_end_of_writing(source: WatchableSource, stopped: threading.Event) -> _Signatures:
    """Return the signatures of the files once they stay the same for a step; of files that go on changing, the last."""
    now = _read_signatures(source)
    for _ in range(_DEBOUNCE_MILLISECONDS // _STEP_MILLISECONDS):
        before = now
        if stopped.wait(_STEP_MILLISECONDS / 1_000) or (now := _read_signatures(source)) == before:
            break
    return now


def _is_emptied(path: Path) -> bool:
    """Tell whether a file is there without content, as one that is about to be written."""
    try:
        return path.is_file() and not path.stat().st_size
    except OSError:
        return False


def _read_signatures(source: WatchableSource) -> _Signatures:
    """Return what tells the present content of the files from any other; of a missing file nothing."""
    signatures = []
    for path in source.files:
        with suppress(OSError):
            signatures.append(read_signature(path))
    return tuple(signatures)
