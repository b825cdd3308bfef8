"""The hook of pre-commit: a real `git commit` with a faulty configuration is refused, offline."""

# Tests of: check

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import praval_tools

ROOT = Path(praval_tools.__file__).parent.parent
GOOD = "tools: [{name: look, module: shop, function: look}]\nagents: {ann: {tools: [look]}}\n"

pytest.importorskip("pre_commit", reason="needs pre-commit")


@pytest.fixture
def git(tmp_path: Path) -> object:
    """A git repository with the hook as the documentation has it, and a function that runs git in it."""
    folder = tmp_path / "work"
    folder.mkdir()
    scripts = Path(sys.executable).parent
    environment = {
        **os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path),
        "PRE_COMMIT_HOME": str(tmp_path / "cache"), "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip

    def run(*words: str, program: str = "git") -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, *words], cwd=folder, env=environment, capture_output=True, text=True)

    page = (ROOT / "docs" / "how-to" / "configure.md").read_text(encoding="utf-8")
    config = re.search(r'```yaml title="\.pre-commit-config\.yaml"\n(.*?)```', page, re.DOTALL)
    assert config is not None
    (folder / ".pre-commit-config.yaml").write_text(config[1])
    (folder / "shop.py").write_text('def look(order: str) -> str:\n    "Look."\n    return order\n')
    (folder / "tools.yml").write_text(GOOD)
    run("init", "-q")
    for name, value in (("user.name", "T"), ("user.email", "t@example.org")):
        run("config", name, value)
    installed = run("-m", "pre_commit", "install", program=sys.executable)
    assert 0 == installed.returncode, installed.stderr
    run("add", ".")
    return run


def test_a_commit_with_a_mistake_is_refused(git: object, tmp_path: Path) -> None:
    """A mistake in a file of the configuration, or in a module of it, ends the commit with its line and key."""
    assert callable(git)
    first = git("commit", "-qm", "first")
    assert 0 == first.returncode, first.stdout + first.stderr
    assert "Passed" in first.stdout + first.stderr

    (tmp_path / "work" / "tools.yml").write_text(GOOD.replace("agents", "agnets"))
    second = git("commit", "-qam", "second")
    assert 1 == second.returncode
    assert "tools.yml:2: agnets: unknown key; did you mean 'agents'" in second.stdout + second.stderr

    (tmp_path / "work" / "tools.yml").write_text(GOOD)
    (tmp_path / "work" / "shop.py").write_text("")
    third = git("commit", "-qam", "third")
    assert 1 == third.returncode
    assert "module 'shop' has no function 'look'" in third.stdout + third.stderr


def test_the_repository_offers_the_hook(git: object, tmp_path: Path) -> None:
    """`.pre-commit-hooks.yaml` is one that pre-commit takes, and runs the same command on the same files."""
    assert callable(git)
    checked = git("-m", "pre_commit", "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml"), program=sys.executable)
    assert 0 == checked.returncode, checked.stdout
    offered = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    documented = (tmp_path / "work" / ".pre-commit-config.yaml").read_text()

    for key in ("entry", "pass_filenames", "files"):
        lines = [re.search(rf"^ *{key}: (.*)$", text, re.MULTILINE) for text in (offered, documented)]
        assert lines[0] is not None
        assert lines[1] is not None
        assert lines[0][1] == lines[1][1]
