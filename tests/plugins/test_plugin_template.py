"""`plugins new`: what it writes is a whole plugin, which installs alone, passes its own tests, and works."""

# Tests of: cli/plugin_template

from __future__ import annotations

import os
import site as python_site
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from cli_rig import Run, run  # noqa: F401

from praval_tools.cli.plugin_template import derive_plugin_names, render_plugin_files

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "plugins" / "template"


def files_of(folder: Path) -> dict[str, str]:
    """Return the files of a folder by path, what Python and pip leave behind aside."""
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file()
        and not {"__pycache__", ".pytest_cache", "build", "dist"} & set(path.relative_to(folder).parts)
    }


class Environment:
    """A fresh virtual environment, in which this one's packages are at hand, as if pip had fetched them."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False)
        self.python = next(
            path for path in (folder / "bin" / "python", folder / "Scripts" / "python.exe") if path.exists()
        )
        (own,) = (path for path in folder.rglob("site-packages"))
        known = [path for path in python_site.getsitepackages() if Path(path).is_dir()]
        lines = [f"import site; site.addsitedir({path!r})" for path in known]
        (own / "known.pth").write_text("\n".join([*lines, str(ROOT)]) + "\n")
        self.own = own

    def run(self, *arguments: str, cwd: Path, allowed: str = "praval-tools-weather") -> str:
        """Run Python there and return what it prints; it must succeed."""
        env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        env |= {"PRAVAL_TOOLS_PLUGINS": allowed, "COLUMNS": "100"}
        done = subprocess.run([str(self.python), *arguments], cwd=cwd, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def install(self, package: Path) -> None:
        """Install a package with pip, from its folder."""
        quietly = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
        command = [sys.executable, "-m", "pip", "--python", str(self.python), "install", *quietly, str(package)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


class TestTemplate:
    def test_the_rendered_one_is_the_one_of_the_command(self) -> None:
        """`plugins/template` is what the command writes: there is one form."""
        assert render_plugin_files(derive_plugin_names("praval-tools-example")) == files_of(TEMPLATE)

    def test_installed_tested_listed_called(self, tmp_path: Path, run: Run) -> None:
        """In a fresh environment: pip installs it, its own tests pass, its tool is listed, granted and called."""
        code, out, _ = run("plugins", "new", "praval-tools-weather", "--into", str(tmp_path))
        package = tmp_path / "praval-tools-weather"
        assert (0, True) == (code, str(package) in out)
        assert "pip install -e '.[test]'" in out  # without it there may be no pytest for the next step
        there = Environment(tmp_path / "env")
        there.install(package)

        assert (there.own / "praval_tools_weather").is_dir()
        passed = there.run("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=package)
        assert "3 passed" in passed
        work = tmp_path / "work"
        work.mkdir()
        assert "weather_greet  plugin:praval-tools-weather" in there.run("-m", "praval_tools", "list", cwd=work)
        there.run("-m", "praval_tools", "assign", "weather_greet", "analyst", cwd=work)
        called = there.run("-m", "praval_tools", "call", "analyst", "weather_greet", "name=Ann", cwd=work)
        assert "Hello, Ann!\n" == called
        assert "praval-tools-weather 0.1.0 (plugin" in there.run(
            "-m", "praval_tools", "show", "weather_greet", cwd=work
        )

    def test_its_last_command_works_in_the_new_folder(self, tmp_path: Path) -> None:
        """Broken promise: it began with the path of the program, which was relative to the folder before."""
        program = os.path.relpath(Path(sys.executable).parent / "praval-tools", tmp_path)
        command = [program, "plugins", "new", "weather"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)

        assert "praval-tools list" == done.stdout.splitlines()[-1].strip()

    @pytest.mark.parametrize("name", [
        "Weather", "weather station", "../evil", "-x", "1st", "", "a" * 61, "x--y", "praval-tools-1st",
    ])  # fmt: skip
    def test_names_that_are_none(self, tmp_path: Path, run: Run, name: str) -> None:
        """A name that pip or Python would not take, or has, is a usage error, and nothing is written."""
        code, _, err = run("plugins", "new", "--into", str(tmp_path), "--", name)

        assert (2, True) == (code, "is not a valid plugin name" in err or "is reserved or taken" in err)
        assert [] == list(tmp_path.iterdir())

    def test_what_is_there_stays(self, tmp_path: Path, run: Run) -> None:
        """A folder of that name is not touched."""
        (tmp_path / "weather").mkdir()
        code, _, err = run("plugins", "new", "weather", "--into", str(tmp_path))

        assert (1, True) == (code, "exists; choose another name" in err)
        assert [] == list((tmp_path / "weather").iterdir())
