"""Task sets: polars frames of tasks and passages, and their Parquet files."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from talentrl.errors import InputError
from talentrl.files import atomic_path

TASK_SCHEMA = pl.Schema(
    {
        "task_id": pl.String(),
        "benchmark": pl.String(),
        "split": pl.String(),
        "instruction": pl.String(),
        "answers": pl.List(pl.String()),
        "payload": pl.String(),
    }
)
PASSAGE_SCHEMA = pl.Schema({"passage_id": pl.String(), "title": pl.String(), "text": pl.String()})


@dataclass(frozen=True)
class Task:
    """One problem instance; `payload` is what its environment or its teacher needs beyond the instruction."""

    task_id: str
    benchmark: str
    split: str
    instruction: str
    answers: tuple[str, ...]
    payload: dict[str, Any]

    @property
    def task_type(self) -> str | None:
        """The task's group in its benchmark, if its payload names one: `family`, `task_type` or `type`."""
        named = (self.payload.get(key) for key in ("family", "task_type", "type"))
        return next((str(name) for name in named if name is not None), None)


@dataclass(frozen=True)
class TaskSet:
    """Tasks (`TASK_SCHEMA`), and what their searches look in: passages (`PASSAGE_SCHEMA`) or WebShop's products."""

    tasks: pl.DataFrame
    passages: pl.DataFrame = field(default_factory=PASSAGE_SCHEMA.to_frame)
    products: pl.DataFrame | None = None
    """Columns as `webshop_products` says."""

    def split(self, name: str, limit: int | None = None) -> list[Task]:
        """The tasks of split `name` in file order, at most `limit` of them.

        Raises:
            InputError: no task has that split.
        """
        frame = self.tasks.filter(pl.col("split") == name)
        if frame.is_empty():
            found = sorted(self.tasks["split"].unique().to_list())
            raise InputError(f"task set has no split {name!r}: found {found}")
        return list(TaskSet(frame if limit is None else frame.head(limit)))

    def __iter__(self) -> Iterator[Task]:
        """All tasks, in file order."""
        for row in self.tasks.iter_rows(named=True):
            values = {**row, "answers": tuple(row["answers"]), "payload": json.loads(row["payload"])}
            yield Task(**values)

    def write(self, folder: Path) -> None:
        """Write a Parquet file a part into `folder`, whole or not at all."""
        with atomic_path(folder) as temporary:
            temporary.mkdir()
            self.tasks.write_parquet(temporary / "tasks.parquet")
            self.passages.write_parquet(temporary / "passages.parquet")
            if self.products is not None:
                self.products.write_parquet(temporary / "products.parquet")

    @classmethod
    def read(cls, folder: Path) -> "TaskSet":
        """Tasks and passages of a folder that `write` made.

        Raises:
            InputError: a file is missing, is not Parquet, or has other columns.
        """
        tasks = read_parquet(folder / "tasks.parquet", TASK_SCHEMA)
        return cls(tasks, read_parquet(folder / "passages.parquet", PASSAGE_SCHEMA))


def pool(sets: Sequence[TaskSet]) -> TaskSet:
    """One task set of several.

    Sets may name different passages alike, so a passage's id becomes "SET: ID", also in the payloads.

    Raises:
        InputError: two tasks have the same id.
    """
    rows: list[dict[str, Any]] = []
    passages = []
    for one in sets:
        name = one.tasks["benchmark"][0]
        passages.append(one.passages.with_columns(pl.format("{}: {}", pl.lit(name), "passage_id").alias("passage_id")))
        for row in one.tasks.iter_rows(named=True):
            payload = json.loads(row["payload"])
            own = {
                key: [f"{name}: {id}" for id in payload[key]] for key in ("passages", "supporting") if key in payload
            }
            rows.append(row | {"payload": json.dumps(payload | own)})
    tasks = pl.DataFrame(rows, schema=TASK_SCHEMA)
    again = tasks.filter(pl.col("task_id").is_duplicated())
    if not again.is_empty():
        raise InputError(f"tasks.pooled: expected task ids used once, found {again['task_id'][0]!r} again")
    return TaskSet(tasks, pl.concat(passages))


def read_parquet(path: Path, schema: pl.Schema) -> pl.DataFrame:
    """Read a Parquet file and check its columns and types against `schema`.

    Raises:
        InputError: the file is missing, is not Parquet, or does not match; the message names what was found.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        frame = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0]})") from error
    missing = [name for name in schema if name not in frame.columns]
    if missing:
        raise InputError(f"{path}: columns {missing} are missing, found {frame.columns}")
    for name, expected in schema.items():
        if frame.schema[name] != expected:
            raise InputError(f"{path}: column {name!r} is {frame.schema[name]}, expected {expected}")
    return frame.select(list(schema))
