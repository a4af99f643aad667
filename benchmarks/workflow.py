"""What Prefect and MLflow cost: `python -m benchmarks.workflow [--stages 9] [--repeats 3]`.

A project with a chain of stages that do nothing, first all stale, then none: `dvc repro` beside the flow `pipeline`,
both as processes of their own, the flow with a server that runs already. A chain of one stage tells what a process
needs to start, and the difference what each further stage adds. Then the figures of training steps, sent to MLflow on
SQLite.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import chdir
from pathlib import Path

import flows  # noqa: F401  (sets Prefect's environment before Prefect is imported)

REPOSITORY = Path(__file__).parents[1]
FIGURES = 60


def seconds(*module: str) -> float:
    """Wall time of `python -m MODULE ARGUMENTS`."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", *module], check=True, capture_output=True)
    return time.perf_counter() - started


def make_project(stages: int) -> None:
    lines = ["stages:"]
    for number in range(stages):
        before = "words.txt" if number == 0 else f"{number - 1}.txt"
        lines.append(f"  s{number}: {{cmd: cp {before} {number}.txt, deps: [{before}], outs: [{number}.txt]}}")
    Path("dvc.yaml").write_text("\n".join(lines) + "\n")
    subprocess.run(["git", "init", "-q"], check=True)
    seconds("dvc", "init", "-q")


def measure_stages(stages: int, repeats: int) -> dict[tuple[str, str], float]:
    """Median seconds of each command, by (command, whether stages are stale), for a chain of `stages`."""
    commands = {"dvc repro": ("dvc", "repro"), "pipeline": ("flows.pipeline",)}
    times: dict[tuple[str, str], list[float]] = {}
    make_project(stages)
    for repeat in range(repeats):
        for name, command in commands.items():
            Path("words.txt").write_text(f"{name} {repeat}")
            for state in ("all stale", "none stale"):
                times.setdefault((name, state), []).append(seconds(*command))
    return {key: statistics.median(values) for key, values in times.items()}


def compare_stages(stages: int, repeats: int) -> None:
    medians = {}
    for count in (1, stages):
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            medians[count] = measure_stages(count, repeats)
    print(f"seconds | 1 stage | {stages} stages | each further stage")
    for key in medians[1]:
        one, many = medians[1][key], medians[stages][key]
        print(f"{', '.join(key)} | {one:.2f} | {many:.2f} | {(many - one) / (stages - 1):.2f}")
    for state in ("all stale", "none stale"):
        dvc, flow = (medians[stages][name, state] for name in ("dvc repro", "pipeline"))
        print(f"pipeline / dvc repro, {state}: {flow / dvc:.2f}; {(flow - dvc) / stages:+.2f} s a stage with the start")


def measure_tracking(steps: int = 200) -> None:
    from talentrl.tracking import track

    with track("rl", {}, {}) as run:
        run.log({"warm": 0.0})
        run.flush()
        started = time.perf_counter()
        for step in range(steps):
            run.log({f"figure/{number}": float(step) for number in range(FIGURES)}, step)
        run.flush()
        taken = (time.perf_counter() - started) / steps
    print(f"MLflow on SQLite: {1000 * taken:.2f} ms for the {FIGURES} figures of a step, 1 % of {100 * taken:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", type=int, default=9)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    from prefect.settings import PREFECT_API_URL
    from prefect.testing.utilities import prefect_test_harness

    os.environ["PYTHONPATH"] = str(REPOSITORY)
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    with prefect_test_harness(server_startup_timeout=300):
        os.environ["PREFECT_API_URL"] = str(PREFECT_API_URL.value())
        compare_stages(arguments.stages, arguments.repeats)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        measure_tracking()


if __name__ == "__main__":
    main()
