"""Keeps code that is not the command line's own from leaving anything on the contexts of its commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import click
from click.globals import pop_context, push_context

from praval_tools.tools.plain_managers import plain_manager

P = ParamSpec("P")
T = TypeVar("T")


@plain_manager
def hide_contexts() -> Iterator[None]:
    """
    Run the `with` block without a current context of click; one that the block leaves current is forgotten.

    What code of an agent, a plugin or an app registered on a command's context would run as the operator at its end.
    """
    hidden = _take_contexts()
    try:
        yield
    finally:
        _take_contexts()
        for context in reversed(hidden):
            push_context(context)


def _take_contexts() -> list[click.Context]:
    """Take every context away; return them, the innermost first."""
    taken = list[click.Context]()
    while True:
        try:
            taken.append(click.get_current_context())
        except RuntimeError:  # there is none any more
            return taken
        pop_context()


def pass_context(function: Callable[Concatenate[click.Context, P], T]) -> Callable[P, T]:
    """Have *function*, the body of a command, get its context as `click.pass_context` does, and nobody else."""

    @wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> T:
        context = click.get_current_context()
        with hide_contexts():
            return function(context, *args, **keywords)

    return call


def call_on_close(ctx: click.Context, function: Callable[[], object]) -> None:
    """Have *function*, which may run code of an app or a plugin, called when *ctx* ends."""

    def call() -> None:
        with hide_contexts():
            function()

    ctx.call_on_close(call)
