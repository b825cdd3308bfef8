"""The benchmarks' own virtual environment, so that nobody's working environment gets the peers."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
HOME: Final = ROOT / ".venv-bench"
CONSTRAINTS: Final = ROOT / "benchmarks" / "constraints.txt"
WANTED: Final = (
    "pydantic", "toolregistry", "langchain-core", "langchain", "langgraph", "pydantic-ai-slim", "openai-agents",
    "praval", "mcp", "uvicorn", "fastmcp", "matplotlib", "rich", "psycopg[binary]", "celery[redis]", "cryptography",
)  # fmt: skip
_STAMP: Final = HOME / "built-from"


def inside() -> bool:
    """Tell whether this interpreter is the environment's own."""
    return Path(sys.prefix).resolve() == HOME.resolve()


def enter(arguments: list[str]) -> None:
    """Build the environment where it is missing or older than the package, and go on in it; does not return."""
    python = HOME / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    peers, package = _digest([CONSTRAINTS]), _digest(sorted((ROOT / "praval_tools").rglob("*.py")))
    built = _STAMP.read_text().split() if _STAMP.exists() else ["", ""]
    if not python.exists() or built[0] != peers:
        print(f"Building {HOME.name} with the peers, pinned by {CONSTRAINTS.name} …", file=sys.stderr)
        venv.create(HOME, with_pip=True, clear=True)
        _pip(python, *WANTED, str(ROOT))
    elif built[1] != package:
        print(f"Installing the package into {HOME.name} anew …", file=sys.stderr)
        _pip(python, "--force-reinstall", "--no-deps", str(ROOT))
    _STAMP.write_text(f"{peers} {package}\n")
    run = [str(python), str(ROOT / "benchmarks" / "run.py"), *arguments]
    sys.exit(subprocess.run(run, check=False).returncode)


def _pip(python: Path, *wanted: str) -> None:
    quiet = ["-q", "--disable-pip-version-check", "-c", str(CONSTRAINTS)]
    subprocess.run([str(python), "-m", "pip", "install", *quiet, *wanted], check=True)


def _digest(files: list[Path]) -> str:
    made = hashlib.sha256()
    for file in [*files, ROOT / "pyproject.toml"]:
        if file.exists():
            made.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return made.hexdigest()[:16]
