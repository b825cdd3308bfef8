"""Settings that several configurations of one registry declare: each counts as long as its own files declare it."""

# Tests of: settings

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from praval_tools import Deny, DiscoveryError, ToolRegistry, discover_tools
from praval_tools.registry.registry import get_runtime

LIMIT = "limits: [{{agent: ann, per_minute: {}}}]\n"
EMPTY = "limits: []\n"
HANDLER = "approvals: {handler: 'sums:allow'}\n"


class Files:
    """Two files of one registry, each with its source."""

    def __init__(self, first: str, second: str) -> None:
        self.registry = ToolRegistry()
        self.sources = {}
        for name, text in (("a.yml", first), ("b.yml", second)):
            Path(name).write_text(text)
            self.sources[name] = self.registry.configure_from(name)

    def save(self, name: str, text: str) -> None:
        """Change a file, and load it."""
        Path(name).write_text(text)
        self.sources[name].refresh()

    @property
    def limits(self) -> dict[tuple[str | None, str | None], int | None]:
        """The limits by the minute."""
        return {(limit.agent, limit.tool): limit.per_minute for limit in self.registry.limits.all()}


def deny(request: object) -> Deny:
    """Refuse."""
    return Deny("no")


class TestLimits:
    def test_the_narrower_counts(self, folder: Path) -> None:
        """Whichever is loaded last, and as long as both are declared."""
        files = Files(LIMIT.format(2), LIMIT.format(5))
        assert {("ann", None): 2} == files.limits
        files.save("b.yml", LIMIT.format(1))
        assert {("ann", None): 1} == files.limits
        files.save("a.yml", EMPTY)
        assert {("ann", None): 1} == files.limits
        files.save("b.yml", EMPTY)
        assert {} == files.limits

    def test_one_that_a_file_takes_out_is_that_of_the_other_still(self, folder: Path) -> None:
        """Broken promise: the limit was gone, and the other file did not bring it back."""
        files = Files(LIMIT.format(2), LIMIT.format(2))
        files.save("b.yml", EMPTY)

        assert {("ann", None): 2} == files.limits

    @pytest.mark.parametrize("numbers", list(itertools.product([1, 3, None], repeat=4)), ids=str)
    def test_any_changes_of_two_files(self, numbers: tuple[int | None, ...], folder: Path) -> None:
        """What is in force is what both say now."""
        files, now = Files(EMPTY, EMPTY), {"a.yml": None, "b.yml": None}
        for number, name in zip(numbers, ["a.yml", "b.yml", "a.yml", "b.yml"], strict=True):
            now[name] = number  # type: ignore[assignment]
            files.save(name, EMPTY if number is None else LIMIT.format(number))
            said = [value for value in now.values() if value is not None]

            assert ({("ann", None): min(said)} if said else {}) == files.limits


class TestOptions:
    def test_stay_those_of_the_other_file(self, folder: Path) -> None:
        """Broken promise: a file that said nothing of them set them back when it was loaded again."""
        files = Files(EMPTY, "execution: {errors: masked, timeout: 3}\n")
        files.save("a.yml", "execution: {max_retries: 2}\n")
        options = get_runtime(files.registry).options
        assert ("masked", 3, 2) == (options.errors, options.timeout, options.retries)

        files.save("b.yml", EMPTY)
        options = get_runtime(files.registry).options
        assert ("message", 2) == (options.errors, options.retries)

    def test_of_both_the_file_that_came_last_counts(self, folder: Path) -> None:
        """Also after the first is loaded again."""
        files = Files("execution: {timeout: 3}\n", "execution: {timeout: 5}\n")
        files.save("a.yml", "execution: {timeout: 4}\n")
        assert 5 == get_runtime(files.registry).options.timeout
        files.save("b.yml", EMPTY)
        assert 4 == get_runtime(files.registry).options.timeout


class TestApprovalHandlers:
    def test_stay_those_of_the_other_file(self, folder: Path) -> None:
        """A file that declares none leaves it; once none does, the program's own is back."""
        files = Files(HANDLER, EMPTY)
        handler = get_runtime(files.registry).approvals.handler
        files.save("b.yml", f"{EMPTY}{HANDLER}")
        files.save("a.yml", EMPTY)
        assert handler is get_runtime(files.registry).approvals.handler
        files.save("b.yml", EMPTY)
        assert get_runtime(files.registry).approvals.handler is None

    def test_that_the_program_sets_stays(self, folder: Path) -> None:
        """Loading a file that declares none changes nothing."""
        files = Files(HANDLER, EMPTY)
        files.registry.set_approval_handler(deny)
        files.save("b.yml", "agents: {y: {}}\n")

        assert deny is get_runtime(files.registry).approvals.handler

    def test_in_a_module_that_is_discovered_they_are_refused(self, folder: Path) -> None:
        """As all of a configuration is: the promise was broken that nothing of a module stays that fails."""
        Path("a.yml").write_text(f"{LIMIT.format(2)}{HANDLER}")
        text = "from praval_tools import get_tool_registry\nget_tool_registry().configure_from('a.yml')\n"
        Path("sets_up.py").write_text(text, encoding="utf-8")
        registry = ToolRegistry()
        with pytest.raises(DiscoveryError, match="before or after"):
            discover_tools(pattern="sets_up.py", registry=registry)

        assert ([], None) == (registry.limits.all(), registry.approvals.handler)
