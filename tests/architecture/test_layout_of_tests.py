"""The layout of the tests: they mirror the packages, are found by the name of a module, and fit in short files."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from source_tree import PACKAGE, find_tests

TESTS = Path(__file__).parents[1]
MAX_TEST_LINES = 500
SHARED_TEST_FOLDERS = {"architecture", "docs", "guarantees", "seeds", "support"}
"""Folders of tests that belong to no package: what crosses them."""
ROOT_MODULES_FOLDER = "foundation"
"""Where the tests of the modules at the package root are."""
MAX_MODULES_WITHOUT_TESTS = 20


def find_untested_modules(modules: Iterable[str], tested: set[str]) -> list[str]:
    """
    Return the modules whose tests cannot be found by name.

    `schema/coercion.py` has its tests in `tests/schema/test_coercion.py`, or, where small modules share a file, in one
    that says so: a line `# Tests of: coercion, encode` near its top.
    """
    return [module for module in modules if get_place_of_tests(module) not in tested]


def get_place_of_tests(module: str) -> str:
    """Return the folder of tests of a module, and the module's name."""
    folder, _, rest = module.rpartition("/")
    return f"{folder.partition('/')[0] or ROOT_MODULES_FOLDER}/{rest}"


def find_tested_modules(files: Mapping[str, str]) -> set[str]:
    """Return what tests cover by name: `folder/module`, from the names of the files and their `Tests of:` lines."""
    return {f"{name.partition('/')[0]}/{Path(name).stem.removeprefix('test_')}" for name in files} | set(
        find_named_modules(files)
    )


def find_named_modules(files: Mapping[str, str]) -> Iterator[str]:
    """Yield what the `Tests of:` lines name, as `folder/module`; a file outside of the package's folder says both."""
    for name, text in files.items():
        folder = name.partition("/")[0]
        for names in re.findall(r"^# Tests of: (.+)$", text, re.MULTILINE):
            for module in map(str.strip, names.split(",")):
                home = ROOT_MODULES_FOLDER if folder == "architecture" else folder
                yield module if "/" in module else f"{home}/{module}"


def find_long_files(files: Mapping[str, str]) -> Mapping[str, int]:
    """Return the files with too many lines, and how many."""
    return {name: lines for name, text in files.items() if (lines := len(text.splitlines())) > MAX_TEST_LINES}


def find_foreign_folders(folders: set[str], packages: set[str]) -> set[str]:
    """Return the folders of tests that are named after no package, and are none of those that cross them."""
    return folders - packages - SHARED_TEST_FOLDERS - {ROOT_MODULES_FOLDER}


def find_wrong_entries(entries: list[str], present: set[str]) -> list[str]:
    """Return the entries of a list of tests that name no test, stand twice, or stand out of order."""
    return [name for name in entries if name not in present] + [
        name for before, name in pairwise(entries) if name <= before
    ]


def find_repeated_tests(files: Mapping[str, str]) -> Mapping[str, list[str]]:
    """Return the tests and classes that a file defines more than once; the first of them never runs."""
    counts = {name: Counter(find_tests(ast.parse(text))) for name, text in files.items()}
    return {
        name: repeated for name, tests in counts.items() if (repeated := [test for test, n in tests.items() if n > 1])
    }


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    """Return the texts of the files of tests, by their paths below `tests/`."""
    return {path.relative_to(TESTS).as_posix(): path.read_text(encoding="utf-8") for path in TESTS.rglob("*.py")}


@pytest.fixture(scope="module")
def modules() -> list[str]:
    """Return the modules of the package that have names of their own."""
    paths = (path.relative_to(PACKAGE).with_suffix("").as_posix() for path in PACKAGE.rglob("*.py"))
    return sorted(path for path in paths if not path.rpartition("/")[2].startswith("_"))


class TestFiles:
    def test_none_is_longer_than_500_lines(self, files: dict[str, str]) -> None:
        """A file of tests holds the promises of one subject, and is read in one sitting."""
        assert {} == find_long_files(files)

    def test_a_planted_long_file_is_seen(self) -> None:
        """The check fails at the first line too many."""
        assert {"b.py": 501} == find_long_files({"a.py": "x\n" * 500, "b.py": "x\n" * 501})

    def test_no_test_hides_another(self, files: dict[str, str]) -> None:
        """Every test that is written is run: no class or test of a file has the name of one before it."""
        assert {} == find_repeated_tests({name: text for name, text in files.items() if "/test_" in name})

    def test_planted_repetitions_are_seen(self) -> None:
        """The check sees a class, a test of a class and a test of the file that stand twice, and no others."""
        files = {
            "a.py": "class A:\n    def test(self): ...\nclass B:\n    def test(self): ...\ndef test(): ...",
            "b.py": "class A:\n    def test(self): ...\n    def test(self): ...\nclass B: ...\nclass B: ...",
            "c.py": "def test(): ...\ndef test(): ...",
        }

        assert {"b.py": ["A::test", "B"], "c.py": ["test"]} == find_repeated_tests(files)

    def test_folders_mirror_the_packages(self) -> None:
        """Each folder of tests is named after a package, or is one of the few that cross them."""
        packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
        folders = {path.name for path in TESTS.iterdir() if path.is_dir() and path.name != "__pycache__"}

        assert set() == find_foreign_folders(folders, packages)

    def test_a_planted_folder_is_seen(self) -> None:
        """The check fails for a folder that no package has, such as one whose package was renamed."""
        assert {"misc"} == find_foreign_folders({"misc", "schema", "guarantees", "foundation"}, {"schema"})


class TestModules:
    def test_are_tested_in_files_of_their_name(self, files: dict[str, str], modules: list[str]) -> None:
        """A reader of a module knows the file that tests it."""
        untested = find_untested_modules(modules, find_tested_modules(files))

        assert len(untested) <= MAX_MODULES_WITHOUT_TESTS, untested

    def test_a_planted_module_without_tests_is_seen(self) -> None:
        """The check sees a module that no file of tests names, in a package, a subpackage and at the root."""
        modules = ["schema/coercion", "schema/encode", "schema/planted", "journal/storage/planted", "planted", "names"]
        files = {
            "schema/test_coercion.py": "# Tests of: coercion, encode",
            "architecture/test_x.py": "# Tests of: names",
            "runs/test_planted.py": "",
        }

        assert ["schema/planted", "journal/storage/planted", "planted"] == find_untested_modules(
            modules, find_tested_modules(files)
        )

    def test_are_named_as_they_are_called(self, files: dict[str, str], modules: list[str]) -> None:
        """What a `Tests of:` line names is a module, here and after a renaming."""
        named = {module for module in find_named_modules(files) if not module.startswith("support/")}

        assert set() == named - {get_place_of_tests(module) for module in modules}

    def test_a_planted_name_is_seen(self) -> None:
        """Names are taken from every line, each for the package of its file."""
        files = {
            "schema/test_x.py": "# Tests of: coercion, gone\n# Tests of: access/drift",
            "cli/test_y.py": "Tests of: x",
        }

        assert ["schema/coercion", "schema/gone", "access/drift"] == list(find_named_modules(files))


class TestSlowTests:
    def test_exist(self, files: dict[str, str]) -> None:
        """`slow_tests.txt`, whose tests `make test-fast` leaves out, lists tests that exist, in order and once."""
        entries = (TESTS / "slow_tests.txt").read_text(encoding="utf-8").split()
        tests = {name for file, text in files.items() if "/test_" in file for name in find_tests(ast.parse(text))}
        folders = {f"{path.name}/" for path in TESTS.rglob("*") if path.is_dir()}

        assert [] == find_wrong_entries(entries, tests | folders)

    def test_a_planted_entry_is_seen(self) -> None:
        """The check fails for a test that is gone, an entry that stands twice, and one out of order."""
        present = set(find_tests(ast.parse("class A:\n    def test_a(self): ...\ndef test_b(): ...")))

        assert {"A", "A::test_a", "test_b"} == present
        assert ["gone"] == find_wrong_entries(["A::test_a", "gone", "test_b"], present)
        assert ["A", "A"] == find_wrong_entries(["test_b", "A", "A"], present)
