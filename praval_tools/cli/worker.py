"""The command `worker`: runs the tools of the named owners for other processes' calls, on the engine `celery`."""

from __future__ import annotations

import click

from praval_tools.cli.app_option import app_options
from praval_tools.cli.common import CommandError, UsageError
from praval_tools.cli.journal_option import open_selected_registry
from praval_tools.cli.listings import warn_if_undeclared
from praval_tools.errors import MissingExtraError
from praval_tools.execution.engines.errors import EngineError
from praval_tools.plugins.click_contexts import pass_context


@click.command("worker")
@click.option("--owner", "owners", metavar="AGENT", multiple=True, help="Whose tools it runs; may be repeated.")
@click.option("--shared", is_flag=True, help="It runs the tools that nobody owns.")
@click.option(
    "--concurrency", type=click.IntRange(1, 1_024), metavar="N", help="Processes for calls; by default one per core."
)
@app_options
@pass_context
def worker_command(
    ctx: click.Context, /, owners: tuple[str, ...], shared: bool, concurrency: int | None
) -> None:  # fmt: skip
    """
    Run the tools of owners for processes of any machine, on the engine `celery`.

    The registry must have the broker and the journal that those processes have. Ctrl+C ends it once its
    calls have ended.
    """
    if not owners and not shared:
        raise UsageError("Whose tools does it run? Name the owner: --owner AGENT; or those that nobody owns: --shared.")
    try:
        from praval_tools.integrations.celery.worker import serve_worker
    except MissingExtraError as error:
        raise CommandError(str(error)) from error
    served = [*dict.fromkeys(owners), *([None] if shared else [])]
    registry = open_selected_registry(ctx, is_change=True)
    for owner in owners:
        warn_if_undeclared(registry, owner)
    try:
        code = serve_worker(registry, served, concurrency)
    except EngineError as error:
        raise CommandError(str(error)) from error
    finally:
        registry.close()
    ctx.exit(code)
