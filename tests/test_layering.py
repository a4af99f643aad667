"""Who may import whom (DESIGN §3), asserted from the imports themselves, also those inside functions."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
BOTTOM = {"errors", "files", "layout", "memory", "offline", "processes", "timing"}
ROLLOUTS_AND_BELOW = {
    *("rollouts", "policy", "environments", "retrieval", "bank", "benchmarks", "config", "provenance"),
    *BOTTOM,
}
# Part of the library -> the other parts it may import.
ALLOWED = {
    "__init__": set(),
    "errors": set(),
    "files": set(),
    "layout": {"errors"},
    "offline": set(),
    "memory": set(),
    "processes": set(),
    "timing": set(),
    "config": BOTTOM,
    "provenance": BOTTOM,
    "tracking": {"provenance", "config", *BOTTOM},
    "sweep": {"config", *BOTTOM},
    "servers": BOTTOM,
    "stages": {"provenance", *BOTTOM},
    "bank": {"config", *BOTTOM},
    "benchmarks": {"config", *BOTTOM},
    "retrieval": {"bank", "config", *BOTTOM},
    "policy": {"bank", "config", *BOTTOM},
    "environments": {"policy.parser", "retrieval", "benchmarks", "config", *BOTTOM},
    "rollouts": ROLLOUTS_AND_BELOW - {"rollouts"},
    "learning": ROLLOUTS_AND_BELOW,
    "evaluation": {"sweep", *ROLLOUTS_AND_BELOW},
    # What the command line is made of stands on top.
    "agent": ROLLOUTS_AND_BELOW,
    "planning": {"learning", *ROLLOUTS_AND_BELOW},
    "display": {"evaluation", "planning", *ROLLOUTS_AND_BELOW},
    "run_display": set(),
    "runs_cli": {"run_display", "evaluation", "servers", "stages", "tracking", *ROLLOUTS_AND_BELOW},
    "cli": {
        *("agent", "display", "runs_cli", "planning", "learning", "evaluation", "servers", "tracking", "__init__"),
        *ROLLOUTS_AND_BELOW,
    },
}
HEAVY = (
    "torch",
    "transformers",
    "mlflow",
    "elasticsearch",
    "sentence_transformers",
    "trl",
    "datasets",
    "dvc",
    "prefect",
)


def modules(folder: str) -> dict[str, Path]:
    """Dotted names of the modules in a package of the repository."""
    found = {}
    for path in sorted((REPOSITORY / folder).rglob("*.py")):
        parts = path.relative_to(REPOSITORY).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


LIBRARY = modules("talentrl")
TASKS = modules("tasks")
FLOWS = modules("flows")


def imports(path: Path, top_level: bool = False) -> Iterator[str]:
    """Dotted names that a file imports; modules of the library to the module, all others as they stand.

    `top_level`: only those that run when the file is imported.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    if top_level:
        inside = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        later = {
            child for node in nodes if isinstance(node, inside) or is_typing_only(node) for child in ast.walk(node)
        }
        nodes = [node for node in nodes if node not in later]
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in LIBRARY else str(node.module)


def is_typing_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def part_of(module: str) -> str:
    """The part of the library that a module belongs to: `talentrl.bank.skill` is of `bank`."""
    return module.split(".")[1] if "." in module else "__init__"


def root_of(module: str) -> str:
    return module.split(".")[0]


def test_every_part_of_the_library_has_a_place():
    assert {part_of(name) for name in LIBRARY} <= set(ALLOWED)


@pytest.mark.parametrize("module", LIBRARY)
def test_the_library_imports_downwards_only(module):
    part = part_of(module)
    for found in imports(LIBRARY[module]):
        if root_of(found) != "talentrl" or part_of(found) == part:
            continue
        inside = found.removeprefix("talentrl.")
        assert part_of(found) in ALLOWED[part] or inside in ALLOWED[part], f"{module} imports {found}"


def test_there_are_no_circles():
    # Also lazy imports count: a circle that runs later is a circle.
    graph = {
        name: {found for found in imports(path) if found in LIBRARY and found != name} for name, path in LIBRARY.items()
    }
    for package in [name for name, path in LIBRARY.items() if path.name == "__init__.py"]:
        for name in graph:
            if name.startswith(f"{package}."):
                graph[name].discard(package)
    assert len(list(TopologicalSorter(graph).static_order())) == len(LIBRARY)


@pytest.mark.parametrize("module", LIBRARY)
def test_the_library_knows_no_orchestration(module):
    assert not {root_of(name) for name in imports(LIBRARY[module])} & {"prefect", "dvc", "tasks", "flows"}


def test_only_tracking_imports_mlflow():
    everything = {**LIBRARY, **TASKS, **FLOWS}
    users = {name for name, path in everything.items() if "mlflow" in map(root_of, imports(path))}
    assert {name for name in users if not name.startswith("talentrl.tracking.")} == set()


@pytest.mark.parametrize("module", TASKS)
def test_tasks_import_the_library_and_tasks_alone(module):
    found = {root_of(name) for name in imports(TASKS[module])}
    assert not found & {"flows", "prefect", "dvc"}
    if module not in ("tasks", "tasks.stage"):
        assert len(TASKS[module].read_text().splitlines()) <= 80, "a task reads, calls the library, and writes"


@pytest.mark.parametrize("module", FLOWS)
def test_flows_order_work_and_compute_nothing(module):
    computing = {"torch", "transformers", "trl", "polars", "numpy", "sentence_transformers", "mlflow"}
    assert not {root_of(name) for name in imports(FLOWS[module])} & computing


@pytest.mark.parametrize("module", [name for name in ("talentrl", "talentrl.cli") if name in LIBRARY])
def test_import_is_light(module):
    code = f"import sys, {module}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", ["talentrl.config", "talentrl.bank.bank", "talentrl.rollouts.runner"])
def test_heavy_libraries_are_imported_where_they_are_used(module):
    # mlflow and torch are not needed to read params or a bank; the command line reads both.
    assert not {root_of(name) for name in imports(LIBRARY[module], top_level=True)} & set(HEAVY)
