"""Uses an installed package of plugins/ as its user does: lists, refuses, assigns and calls its tools."""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = sys.argv[1]
PRAVAL_TOOLS = Path(sys.executable).with_name("praval-tools")


def run_cli(*arguments: str) -> tuple[int, str]:
    """Run a command; return its exit code and output. A failure of the command itself ends this program."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PRAVAL_TOOLS_PLUGINS")}
    env["SALES_URL"] = "sqlite:///sales.db"
    process = subprocess.run([PRAVAL_TOOLS, *arguments], env=env, capture_output=True, text=True, check=False)  # noqa: S603
    if process.returncode not in (0, 3):
        sys.exit(
            f"praval-tools {' '.join(arguments)} ended with {process.returncode}:\n{process.stdout}{process.stderr}"
        )
    return process.returncode, process.stdout


def format_root(name: str, *, writable: bool = False) -> str:
    """Return the table of a declared folder."""
    lines = (f'[[plugins."{PACKAGE}".settings.roots]]', f'name = "{name}"', f'path = "{Path(name).absolute()}"',
             f"writable = {str(writable).lower()}\n")  # fmt: skip
    return "\n".join(lines)


def check_and_call(tool: str, **arguments: object) -> object:
    """Check that a tool is refused, assign it, and call it; return its result."""
    text = json.dumps(arguments)
    assert run_cli("call", "analyst", tool, text)[0] == 3, f"{tool} was not refused"
    assert run_cli("assign", tool, "analyst")[0] == 0, tool
    code, out = run_cli("call", "analyst", tool, text)
    assert code == 0, (tool, code, out)
    return json.loads(out)


def call_files_tools() -> str:
    """Call the tools of praval-tools-files."""
    result = check_and_call("files_search", path="data", text="south")
    assert result["matches"] == [{"path": "data/sales.csv", "line": 3, "text": "south,4"}], result
    assert check_and_call("files_read", path="data/sales.csv")["size"] == 38
    return "files_write"


def call_sql_tools() -> str:
    """Call the tools of praval-tools-sql."""
    assert check_and_call("sql_tables")["tables"] == [{"name": "sales", "kind": "table"}]
    query = "SELECT region, sum(amount) AS total FROM sales GROUP BY region"
    assert check_and_call("sql_query", sql=query)["rows"] == [["north", 8], ["south", 4]]
    return "sql_write"


def call_data_tools() -> str:
    """Call the tools of praval-tools-data."""
    sums = [{"function": "sum", "column": "amount"}]
    result = check_and_call(
        "data_aggregate", path="data/sales.csv", group_by=["region"], aggregations=sums, sort="region"
    )
    assert result["rows"] == [["north", 8], ["south", 4]], result
    check_and_call("data_plot", path="data/sales.csv", output="plots/p.png", kind="bar", x="region", y=["amount"],
           aggregate="sum")  # fmt: skip
    assert Path("plots/p.png").read_bytes().startswith(b"\x89PNG")
    return ""


def prepare_data() -> None:
    """Write the data, and the configuration that declares them."""
    rows = [("north", 3), ("south", 4), ("north", 5)]
    for name in ("data", "plots"):
        Path(name).mkdir()
    Path("data/sales.csv").write_text("region,amount\n" + "".join(f"{name},{amount}\n" for name, amount in rows))
    with sqlite3.connect("sales.db") as connection:
        connection.execute("CREATE TABLE sales (region TEXT, amount INT)")
        connection.executemany("INSERT INTO sales VALUES (?, ?)", rows)
    connection.close()
    tables = {
        "praval-tools-files": format_root("data", writable=True),
        "praval-tools-sql": f'[plugins."{PACKAGE}".settings]\nurl_env = "SALES_URL"\n',
        "praval-tools-data": format_root("data") + format_root("plots", writable=True),
    }
    Path("praval_tools.toml").write_text(tables[PACKAGE])


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    prepare_data()
    prefix = PACKAGE.removeprefix("praval-tools-")
    listed = [tool["name"] for tool in json.loads(run_cli("list", "--json")[1])]
    assert any(name.startswith(f"{prefix}_") for name in listed), listed
    assert run_cli("plugins", "--strict")[0] == 0
    waiting_tool = {"files": call_files_tools, "sql": call_sql_tools, "data": call_data_tools}[prefix]()
    if waiting_tool:  # writing is granted, and waits for a person all the same
        assert run_cli("assign", waiting_tool, "analyst")[0] == 0
        text = '{"sql": "DELETE FROM sales"}' if prefix == "sql" else '{"path": "data/x.txt", "text": "x"}'
        assert run_cli("call", "analyst", waiting_tool, text)[0] == 3
        assert not Path("data/x.txt").exists()
    assert run_cli("plugins", "check")[0] == 0
    os.chdir("/")
print("  listed, refused, assigned and called:", PACKAGE)
