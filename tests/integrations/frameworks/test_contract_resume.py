# Tests of: integrations/pydantic_ai, integrations/langchain, integrations/openai_agents
"""An agent of any framework whose program is killed in a journaled run repeats no effect when it runs again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from framework_contract import Framework

SUPPORT = Path(__file__).parents[2] / "support"


def run_program(framework: Framework, folder: Path, how: str) -> subprocess.CompletedProcess[str]:
    """Run the program of the agent."""
    command = [sys.executable, str(SUPPORT / "framework_driver.py"), framework.name]
    arguments = [str(folder / "runs.db"), str(folder / "effects"), how]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), *sys.path])}
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, env=environment, timeout=120, check=False
    )


class TestKilledRun:
    def test_repeats_no_effect(self, framework: Framework, tmp_path: Path) -> None:
        """What ran before the kill is replayed, the rest runs, also of calls that have an id of an earlier one."""
        killed = run_program(framework, tmp_path, "kill")
        assert -9 == killed.returncode, killed.stderr
        before = (tmp_path / "effects").read_text().split("\n")[:-1]
        assert ["book 1", "book 1", "book 2", "book 3"] == sorted(before)

        resumed = run_program(framework, tmp_path, "go on")
        assert 0 == resumed.returncode, resumed.stderr
        assert [
            "Done. ['booked 1', 'booked 2']",
            "Done. ['booked 1', 'booked 3', 'mailed ann', 'booked 1']",
        ] == resumed.stdout.splitlines()
        effects = (tmp_path / "effects").read_text().split("\n")[:-1]
        assert [*before, "mail ann", "book 1"] == effects

        again = run_program(framework, tmp_path, "go on")
        assert resumed.stdout == again.stdout
        assert effects == (tmp_path / "effects").read_text().split("\n")[:-1]
