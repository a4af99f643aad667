"""Checkpoints on benchmarks as a Prefect flow: each pair is one `talentrl evaluate`, a child process of its own.

A pair's episodes and figures lie in `benchmark_runs/CHECKPOINT/BENCHMARK`. A pair that fails does not stop the others.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from prefect import flow, get_run_logger, runtime, task
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, Failed, State
from pydantic import Field

from flows.artifacts import Progress, artifact_key
from flows.child import StageFailed, may_end_well, run_child
from flows.hardware import gpu_slots
from flows.pipeline import exit_codes
from talentrl import layout
from talentrl.config import Benchmark, Section, load_params, validated
from talentrl.errors import InputError

TALENTRL = [sys.executable, "-c", "from talentrl.cli import main; main()"]


class Source(Section):
    """A benchmark to answer."""

    benchmark: Benchmark
    path: Annotated[str | None, Field(description="Its file or folder; else that of profiles/BENCHMARK.yaml")] = None


class Pair(NamedTuple):
    """A model folder and the benchmark that it answers."""

    checkpoint: str
    source: Source

    def __str__(self) -> str:
        return f"{self.source.benchmark} with {self.checkpoint}"

    @property
    def folder(self) -> Path:
        """Where its episodes and figures lie."""
        return layout.BENCHMARKS / artifact_key(self.checkpoint) / self.source.benchmark


@task(task_run_name="{pair}", cache_policy=NO_CACHE, retries=1, retry_condition_fn=may_end_well)
def answer(pair: Pair, tasks: int | None) -> State[Any]:
    """Let the checkpoint answer the first `tasks` tasks of the benchmark. Ends Completed or Failed."""
    log = get_run_logger().info
    command = [*TALENTRL, "evaluate", "--benchmark", pair.source.benchmark, "--checkpoint", pair.checkpoint]
    command += ["--output", str(pair.folder)]
    for option, value in (("--path", pair.source.path), ("--tasks", tasks)):
        command += [option, str(value)] if value is not None else []
    progress = Progress(str(pair))
    try:
        with gpu_slots(load_params().hardware, log):
            run_child(command, str(pair), log, progress=progress)
    except StageFailed as error:
        return Failed(data=error, message=str(error))
    progress.done()
    return Completed()


def run_name() -> str:
    """What a flow run is called: its checkpoints and benchmarks."""
    parameters = runtime.flow_run.parameters
    benchmarks = [source.benchmark for source in parameters["benchmarks"]]
    return f"{', '.join(parameters['checkpoints'])} on {', '.join(benchmarks)}"


@flow(flow_run_name=run_name)
def evaluate(
    checkpoints: Annotated[list[str], Field(min_length=1)],
    benchmarks: Annotated[list[Source], Field(min_length=1)],
    tasks: Annotated[int | None, Field(ge=1)] = None,
) -> dict[str, str] | State[Any]:
    """Let each checkpoint answer each benchmark, and show the figures in one table.

    Args:
        checkpoints: model folders, such as data/rl/7.
        benchmarks: what they answer.
        tasks: the first so many of each; else evaluate.tasks.
    """
    pairs = plan(checkpoints, benchmarks)
    results: dict[str, str] = {}
    failures: list[str] = []
    done: list[Pair] = []
    for pair in pairs:
        state = answer(pair, tasks, return_state=True)
        results[str(pair)] = state.name or state.type.value
        if state.is_completed():
            done.append(pair)
            create_table_artifact(scores(done), key="evaluate-scores", description="Figures so far")
        else:
            failures.append(state.message or str(pair))
    if failures:
        message = "\n".join([f"{len(failures)} of {len(results)} evaluations failed", *failures])
        return Failed(data=StageFailed(message), message=message)
    return results


def plan(checkpoints: Iterable[str], benchmarks: Iterable[Source]) -> list[Pair]:
    """All pairs. Raises InputError for a checkpoint that is no folder, and for pairs that would share a folder."""
    pairs = [Pair(checkpoint, source) for source in benchmarks for checkpoint in checkpoints]
    folders: set[Path] = set()
    for pair in pairs:
        if not Path(pair.checkpoint).is_dir():
            raise InputError(f"checkpoint {pair.checkpoint}: found no such folder, expected a model's")
        if pair.folder in folders:
            raise InputError(f"{pair}: found twice in {pair.folder}, expected one of each")
        folders.add(pair.folder)
    return pairs


def scores(pairs: Iterable[Pair]) -> list[dict[str, Any]]:
    """The figures that `talentrl evaluate` wrote, one dict a pair, system, group of tasks and metric."""
    return [
        {"checkpoint": pair.checkpoint, "benchmark": pair.source.benchmark, **row}
        for pair in pairs
        for row in json.loads((pair.folder / "scores.json").read_text(encoding="utf-8"))["scores"]
    ]


def main() -> None:
    """`python -m flows.evaluate --checkpoints … --benchmarks …`: exit code 2 on bad input, 1 if a pair failed."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.evaluate", description="Checkpoints on benchmarks, and one table of their figures."
    )
    parser.add_argument("--checkpoints", nargs="+", required=True, metavar="FOLDER", help="model folders")
    parser.add_argument("--benchmarks", nargs="+", required=True, metavar="NAME[=PATH]", help="with file or folder")
    parser.add_argument("--tasks", type=int, metavar="N", help="their first N tasks; else evaluate.tasks")
    arguments = parser.parse_args()
    with exit_codes("evaluate"):
        # Bad input is refused before a server starts.
        texts = [text.partition("=") for text in arguments.benchmarks]
        sources = [
            validated(Source, {"benchmark": name, "path": path or None}, "--benchmarks") for name, _, path in texts
        ]
        plan(arguments.checkpoints, sources)
        evaluate(arguments.checkpoints, sources, arguments.tasks)


if __name__ == "__main__":
    main()
