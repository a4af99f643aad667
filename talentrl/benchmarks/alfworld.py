"""ALFWorld games as tasks, from JSONL files or from the folders that `alfworld-download` makes.

Data: ALFWorld (Shridhar et al., 2021, https://alfworld.github.io, MIT), on scenes and tasks of ALFRED. One path is
enough to find either layout:

    PATH/SPLIT.jsonl[.gz|.xz]                                       a game a line
    PATH[/json_2.1.1]/SPLIT/TYPE-OBJECT-…-TARGET-SCENE/TRIAL/game.tw-pddl

Every game is a task, once; a split that is not whole is refused, since a success rate over some of the games cannot be
compared with a published one.
"""

import json
import lzma
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from talentrl.benchmarks.records import PACKED, open_text
from talentrl.benchmarks.taskset import TASK_SCHEMA
from talentrl.errors import InputError

GAMES = {"train": 3553, "valid_seen": 140, "valid_unseen": 134, "valid_train": 200}
"""Split → its published number of games."""
TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)

_TASK = re.compile(r'"Your task is to: ((?:[^"\\]|\\.)*)\."')
_GAME = "game.tw-pddl"


def load_alfworld(path: Path, splits: Sequence[str] = tuple(GAMES), partial: bool = False) -> pl.DataFrame:
    """The games of `splits` as a frame of `TASK_SCHEMA`.

    A task's id is `TYPE-OBJECT-…-TARGET-SCENE/TRIAL`, its instruction the sentence behind "Your task is to:". It has no
    answers. Its payload holds `problem` (PDDL), `task_type`, `object`, `target` (the receptacle, or the lamp to look
    by), `scene` (the number of the room) and `walkthrough`, the commands of a planner that knows all.

    Args:
        path: the folder with one of the two layouts.
        splits: names of `GAMES`.
        partial: take splits that are not whole, and leave out those that are not there at all.

    Raises:
        InputError: a split is missing or does not have its published number of games, a game is broken, comes twice,
            or is of the old grammar ("put X in/on Y"), which no longer is what ALFWorld plays.
    """
    unknown = [split for split in splits if split not in GAMES]
    if unknown or not splits:
        raise InputError(f"{path}: splits: expected some of {list(GAMES)}, found {unknown or 'none'}")
    rows: dict[str, tuple[object, ...]] = {}
    for split in splits:
        before = len(rows)
        for where, game in _games(path, split, partial):
            name, row = _row(game, split, where)
            if name in rows:
                raise InputError(f"{where}: field 'id': expected one not used before, found {name!r} again")
            rows[name] = row
        found = len(rows) - before
        if found != GAMES[split] and not partial:
            raise InputError(
                f"{path}: split {split!r}: expected all {GAMES[split]} games, found {found}{_lacking(path, split)}"
            )
    if not rows:
        raise InputError(f"{path}: found no games of {list(splits)}, expected SPLIT.jsonl[.gz|.xz] or SPLIT/…/{_GAME}")
    return pl.DataFrame(list(rows.values()), schema=TASK_SCHEMA, orient="row")


def _games(path: Path, split: str, partial: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """The games of a split in the fields of the JSONL layout, each with where it was found."""
    for suffix in ("", *PACKED):
        file = path / f"{split}.jsonl{suffix}"
        if file.is_file():
            return _games_of_file(file)
    folder = _folder(path, split)
    if folder is not None:
        return _games_of_folder(folder)
    if partial:
        return iter(())
    raise InputError(
        f"{path}: split {split!r} is missing: expected {split}.jsonl, {split}.jsonl.gz, {split}.jsonl.xz, or a folder "
        f"{split}/ there or in json_2.1.1/ there"
    )


def _games_of_file(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        with open_text(path) as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield f"{path}:{number}", _object(line, f"{path}:{number}")
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not readable as {path.suffix} ({error})") from error


def _folder(path: Path, split: str) -> Path | None:
    """The folder of a split in the layout of `alfworld-download`."""
    return next((folder for folder in (path / split, path / "json_2.1.1" / split) if folder.is_dir()), None)


def _games_of_folder(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Games in the order of their paths, but those that ALFWorld leaves out: sliced, movable, or not solvable."""
    for path in sorted(folder.glob(f"*/*/{_GAME}")):
        trial, kind = path.parent.name, path.parent.parent.name
        if _is_left_out(kind):
            continue
        try:
            game = _object(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: not readable ({error})") from error
        if game.get("solvable") is False:
            continue
        parts = kind.split("-")
        if len(parts) != 5:
            raise InputError(f"{path}: folder: expected TYPE-OBJECT-…-TARGET-SCENE, found {kind!r}")
        grammar = game.get("grammar")
        task = _TASK.search(grammar) if isinstance(grammar, str) else None
        if not isinstance(grammar, str) or task is None:
            raise InputError(f"{path}: field 'grammar': expected a text with 'Your task is to: ….', found none")
        if "move {o} to {r}" not in grammar:
            raise _old_grammar(str(path), "field 'grammar'")
        fields = dict(zip(("task_type", "object_target", "mrecep_target", "target", "scene_num"), parts, strict=True))
        sentence = json.loads(f'"{task[1]}"')
        yield str(path), {**game, **fields, "id": f"{kind}/{trial}", "split": folder.name, "task": sentence}


def _is_left_out(kind: str) -> bool:
    return "movable" in kind or "Sliced" in kind


def _lacking(path: Path, split: str) -> str:
    """Folders of a split that should hold a game and do not, for a message."""
    folder = _folder(path, split)
    if folder is None:
        return ""
    trials = (trial for trial in sorted(folder.glob("*/*/")) if not _is_left_out(trial.parent.name))
    lacking = [str(trial.relative_to(folder)) for trial in trials if not (trial / _GAME).is_file()]
    return f"; no {_GAME} in {', '.join(lacking[:3])}{' and others' * (len(lacking) > 3)}" if lacking else ""


def _row(game: dict[str, Any], split: str, where: str) -> tuple[str, tuple[object, ...]]:
    """The id of a game and its row of the frame."""
    name, kind, task, problem = (_text(game, field, where) for field in ("id", "task_type", "task", "pddl_problem"))
    if _text(game, "split", where) != split:
        raise InputError(f"{where}: field 'split': expected {split!r}, found {game['split']!r}")
    if kind not in TASK_TYPES:
        raise InputError(f"{where}: field 'task_type': expected one of {list(TASK_TYPES)}, found {kind!r}")
    if problem.count("(") != problem.count(")"):
        raise InputError(f"{where}: field 'pddl_problem': parentheses do not match: is it cut off?")
    if "(:goal" not in problem:
        raise InputError(f"{where}: field 'pddl_problem': expected a (:goal …), found none")
    walkthrough = game.get("walkthrough")
    if walkthrough is not None and not (
        isinstance(walkthrough, list) and all(isinstance(command, str) for command in walkthrough)
    ):
        raise InputError(f"{where}: field 'walkthrough': expected a list of commands, found {walkthrough!r:.60}")
    if any(command.startswith("put ") for command in walkthrough or ()):
        raise _old_grammar(where, "field 'walkthrough'")
    payload = {
        "problem": problem,
        "task_type": kind,
        "object": _text(game, "object_target", where),
        "target": _text(game, "target", where),
        "scene": _scene(game.get("scene_num"), where),
        "walkthrough": walkthrough or [],
    }
    return name, (name, "alfworld", split, task, [], json.dumps(payload))


def _old_grammar(where: str, field: str) -> InputError:
    return InputError(
        f"{where}: {field}: found the old grammar ('put X in/on Y'), expected that of json_2.1.1 with 'move X to Y': "
        "download the games again"
    )


def _scene(value: object, where: str) -> int:
    if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()):
        return int(value)
    raise InputError(f"{where}: field 'scene_num': expected the number of a room, found {value!r:.60}")


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InputError(f"{where}: not JSON ({error}): is it cut off?") from error
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected an object, found {type(value).__name__}")
    return value


def _text(game: dict[str, Any], field: str, where: str) -> str:
    value = game.get(field)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{where}: field {field!r}: expected a text, found {value!r:.60}")
    return value
