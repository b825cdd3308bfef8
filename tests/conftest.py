"""
Hypothesis profiles, and the fixtures that several files share.

The profile `ci` looks further than the default, `fuzz` further still and elsewhere at every run; `fast` takes a glance.
All but `fuzz` draw the same examples at every run, so that a red run is always about the change that was made.

`make test-fast` uses it, and leaves out the tests that are marked `slow`: those that `slow_tests.txt` lists.

Temporary files are kept in memory where there is room and TMPDIR is not set: the journals of the tests wait for the
disk thousands of times otherwise. No test cuts the power, and what a killed process has written stays in both.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from clocks import HandClock
from hypothesis import HealthCheck, settings

from praval_tools import ToolCall, ToolRegistry, ToolResult
from praval_tools.runs.call_plans import CallPlan
from praval_tools.tools.frames import current_frame

# another one at every run, and the same one in all processes of a run, so that they name the cases of tests alike
os.environ.setdefault("PYTHONHASHSEED", str(random.randrange(2**32)))

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # run in the background: what tests start must hear it
    signal.signal(signal.SIGINT, signal.default_int_handler)

# as in an activated environment: the commands that are printed name the program as the shell finds it
os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))

os.environ.setdefault("PRAVAL_TOOLS_PLUGINS", "")  # what happens to be installed here does not matter to the tests

_MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 4 * 2**30:
    if not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"], tempfile.tempdir = str(_MEMORY), None

KEPT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fast", max_examples=5, derandomize=True, **KEPT)
settings.register_profile("default", max_examples=50, derandomize=True, **KEPT)
settings.register_profile("ci", max_examples=200, derandomize=True, **KEPT)
settings.register_profile("fuzz", max_examples=1_000, **KEPT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


SLOW_TESTS = frozenset((Path(__file__).parent / "slow_tests.txt").read_text(encoding="utf-8").split())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the list as slow: `TestClass::test_name`, a class, a function, or a folder such as `seeds/`."""
    if addressed := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"These ids differ from process to process: {addressed}")
    for item in items:
        name = item.nodeid.partition("::")[2].partition("[")[0]
        if not SLOW_TESTS.isdisjoint((name, name.partition("::")[0], f"{item.path.parent.name}/")):
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test that leaves somebody else running in its thread, or a trace function: the next ones start afresh."""
    frame, trace = current_frame.get(), sys.gettrace()
    try:
        yield
        if current_frame.get() is not frame:
            pytest.fail(f"{item.nodeid} leaves the frame of work that has not ended.", pytrace=False)
        if sys.gettrace() is not trace:
            pytest.fail(f"{item.nodeid} leaves a trace function.", pytrace=False)
    finally:
        current_frame.set(frame)
        sys.settrace(trace)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Forget the modules that a test imported from its temporary folder: another one may write one of the same name."""
    folder = str(getattr(item, "funcargs", {}).get("tmp_path", ""))
    try:
        yield
    finally:
        for name, module in list(sys.modules.items()) if folder else ():
            content = vars(module) if isinstance(module, ModuleType) else {}
            if folder in f"{content.get('__file__')} {content.get('__path__')}":
                del sys.modules[name]


_REPORTED = "reported"


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """A function that prints a line below the results, whichever process the test runs in."""
    return lambda text: record_property(_REPORTED, text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the lines that tests reported."""
    reports = [one for some in ("passed", "failed") for one in terminalreporter.getreports(some)]
    for name, text in (each for one in reports for each in one.user_properties):
        if name == _REPORTED:
            terminalreporter.write_line(str(text))


@pytest.fixture(params=[True, None], ids=["fast", "full"])
def recording_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run journaled calls on the fast path, then by the steps of the pipeline."""
    if request.param is None:
        monkeypatch.setattr(CallPlan, "build_fast_run", lambda *_: None)


@pytest.fixture
def clock() -> HandClock:
    """A clock moved by hand."""
    return HandClock()


@pytest.fixture(params=["sync", "async"])
def execute(request: pytest.FixtureRequest, registry: ToolRegistry) -> Callable[[ToolCall], ToolResult]:
    """Runs a call in the file's `registry`, from sync or from async code."""
    if request.param == "sync":
        return registry.execute
    return lambda call: asyncio.run(registry.aexecute(call))
