"""
Measure every target, side by side with the peers, and say plainly which are met.

Started outside its own virtual environment it builds `.venv-bench` (the peers pinned by `constraints.txt`, and the
package itself) and goes on in it. `make bench` runs it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import _venv


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="fewer rounds, 10,000 tools for 100,000: a look, not a verdict"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the plot (SVG)")
    parser.add_argument(
        "--docs", action="store_true", help="write docs/explanation/speed.md with its plot, and benchmarks/TARGETS.md"
    )
    parser.add_argument(
        "--only", metavar="PART", nargs="+",
        help="calls declare lookups exports live journal web plugins processes workers mcp frameworks import",
    )
    parser.add_argument(
        "--here", action="store_true", help="measure in this interpreter; peers that it lacks are left out"
    )
    return parser.parse_args()


def main() -> int:
    """Measure, print, write; 0 unless something breaks."""
    options = _arguments()
    if not options.here and not _venv.inside():
        _venv.enter(sys.argv[1:])
    import _session

    return _session.run(options)


if __name__ == "__main__":
    sys.exit(main())
