"""A package of plugins/ as its user meets it: listed, refused, assigned, called; run by the Python that has it."""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = sys.argv[1]
PRAVAL_TOOLS = Path(sys.executable).with_name("praval-tools")


def typed(*arguments: str) -> tuple[int, str]:
    """Type in a command; return its exit code and what it prints; a failure of the command itself ends this."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PRAVAL_TOOLS_PLUGINS")}
    env["SALES_URL"] = "sqlite:///sales.db"
    done = subprocess.run([PRAVAL_TOOLS, *arguments], env=env, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode not in (0, 3):
        sys.exit(f"praval-tools {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.returncode, done.stdout


def root(name: str, *, writable: bool = False) -> str:
    """Return the table of a declared folder."""
    lines = (f'[[plugins."{PACKAGE}".settings.roots]]', f'name = "{name}"', f'path = "{Path(name).absolute()}"',
             f"writable = {str(writable).lower()}\n")  # fmt: skip
    return "\n".join(lines)


def called(tool: str, **arguments: object) -> object:
    """Have a tool refused, assign it, and call it; return its result."""
    text = json.dumps(arguments)
    assert typed("call", "analyst", tool, text)[0] == 3, f"{tool} was not refused"
    assert typed("assign", tool, "analyst")[0] == 0, tool
    code, out = typed("call", "analyst", tool, text)
    assert code == 0, (tool, code, out)
    return json.loads(out)


def files() -> str:
    """Call the tools of praval-tools-files."""
    found = called("files_search", path="data", text="south")
    assert found["matches"] == [{"path": "data/sales.csv", "line": 3, "text": "south,4"}], found
    assert called("files_read", path="data/sales.csv")["size"] == 38
    return "files_write"


def sql() -> str:
    """Call the tools of praval-tools-sql."""
    assert called("sql_tables")["tables"] == [{"name": "sales", "kind": "table"}]
    asked = "SELECT region, sum(amount) AS total FROM sales GROUP BY region"
    assert called("sql_query", sql=asked)["rows"] == [["north", 8], ["south", 4]]
    return "sql_write"


def data() -> str:
    """Call the tools of praval-tools-data."""
    sums = [{"function": "sum", "column": "amount"}]
    found = called("data_aggregate", path="data/sales.csv", group_by=["region"], aggregations=sums, sort="region")
    assert found["rows"] == [["north", 8], ["south", 4]], found
    called("data_plot", path="data/sales.csv", output="plots/p.png", kind="bar", x="region", y=["amount"],
           aggregate="sum")  # fmt: skip
    assert Path("plots/p.png").read_bytes().startswith(b"\x89PNG")
    return ""


def prepared() -> None:
    """Make the data, and the configuration that leads to them."""
    rows = [("north", 3), ("south", 4), ("north", 5)]
    for name in ("data", "plots"):
        Path(name).mkdir()
    Path("data/sales.csv").write_text("region,amount\n" + "".join(f"{name},{amount}\n" for name, amount in rows))
    with sqlite3.connect("sales.db") as made:
        made.execute("CREATE TABLE sales (region TEXT, amount INT)")
        made.executemany("INSERT INTO sales VALUES (?, ?)", rows)
    made.close()
    tables = {
        "praval-tools-files": root("data", writable=True),
        "praval-tools-sql": f'[plugins."{PACKAGE}".settings]\nurl_env = "SALES_URL"\n',
        "praval-tools-data": root("data") + root("plots", writable=True),
    }
    Path("praval_tools.toml").write_text(tables[PACKAGE])


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    prepared()
    prefix = PACKAGE.removeprefix("praval-tools-")
    listed = [one["name"] for one in json.loads(typed("list", "--json")[1])]
    assert any(name.startswith(f"{prefix}_") for name in listed), listed
    assert typed("plugins", "--strict")[0] == 0
    waits = {"files": files, "sql": sql, "data": data}[prefix]()
    if waits:  # writing is granted, and waits for a person all the same
        assert typed("assign", waits, "analyst")[0] == 0
        text = '{"sql": "DELETE FROM sales"}' if prefix == "sql" else '{"path": "data/x.txt", "text": "x"}'
        assert typed("call", "analyst", waits, text)[0] == 3
        assert not Path("data/x.txt").exists()
    assert typed("plugins", "check")[0] == 0
    os.chdir("/")
print("  listed, refused, assigned and called:", PACKAGE)
