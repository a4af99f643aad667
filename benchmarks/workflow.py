"""What Prefect and MLflow cost: `python -m benchmarks.workflow [--stages 9] [--repeats 3]`.

A project with a chain of stages that do nothing, first all stale, then none: `dvc repro` beside the flow `pipeline`,
both as processes of their own, the flow with a server that runs already. Then the figures of training steps, sent to
MLflow on SQLite.
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


def measure_stages(stages: int, repeats: int) -> None:
    commands = {"dvc repro": ("dvc", "repro"), "pipeline": ("flows.pipeline",)}
    times: dict[tuple[str, str], list[float]] = {}
    for repeat in range(repeats):
        for name, command in commands.items():
            Path("words.txt").write_text(f"{name} {repeat}")
            for state in ("all stale", "none stale"):
                times.setdefault((name, state), []).append(seconds(*command))
    median = {key: statistics.median(values) for key, values in times.items()}
    for (name, state), value in median.items():
        print(f"{name:10} {state:10} {value:7.2f} s for {stages} stages")
    for state in ("all stale", "none stale"):
        dvc, flow = median["dvc repro", state], median["pipeline", state]
        print(f"pipeline / dvc repro, {state}: {flow / dvc:.2f}; {(flow - dvc) / stages:+.2f} s a stage")


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
    with tempfile.TemporaryDirectory() as folder, chdir(folder), prefect_test_harness(server_startup_timeout=300):
        os.environ["PREFECT_API_URL"] = str(PREFECT_API_URL.value())
        make_project(arguments.stages)
        measure_stages(arguments.stages, arguments.repeats)
        measure_tracking()


if __name__ == "__main__":
    main()
