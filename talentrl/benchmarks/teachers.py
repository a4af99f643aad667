"""The scripted teachers of the benchmarks that have one."""

from collections.abc import Callable, Generator

from talentrl.benchmarks import alfworld_teacher, atlas_teacher, multihop_teacher, webshop_teacher
from talentrl.benchmarks.taskset import Task
from talentrl.errors import InputError

Teacher = Callable[[Task, str, str], Generator[str, str, None]]
"""Plays a talent on a task, given the environment's first observation: yields turns, is sent observations."""


def _multihop(task: Task, talent: str, opening: str) -> Generator[str, str, None]:
    return multihop_teacher.play(task, talent)


_TEACHERS: dict[str, Teacher] = {
    "atlas": atlas_teacher.play,
    "alfworld": alfworld_teacher.play,
    **dict.fromkeys(("hotpotqa", "2wikimultihopqa", "musique"), _multihop),
    "webshop": lambda task, talent, opening: webshop_teacher.play(task, talent),
}


def play(task: Task, talent: str, opening: str) -> Generator[str, str, None]:
    """The `Teacher` of every task whose benchmark has one.

    Raises:
        InputError: it has none.
    """
    if task.benchmark not in _TEACHERS:
        raise InputError(
            f"task {task.task_id!r}: {task.benchmark!r} has no teacher, expected one of {sorted(_TEACHERS)}"
        )
    return _TEACHERS[task.benchmark](task, talent, opening)
