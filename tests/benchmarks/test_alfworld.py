"""ALFWorld games as tasks: both layouts, every game once, and nothing that is not whole."""

import gzip
import json
import lzma
import os
import shutil
from pathlib import Path

import pytest

from talentrl.benchmarks.alfworld import GAMES, TASK_TYPES, load_alfworld
from talentrl.errors import InputError

DATA = Path(os.environ.get("TALENTRL_DATA", Path(__file__).parents[2] / "../shared/data")) / "alfworld"
real = pytest.mark.skipif(not (DATA / "train.jsonl.xz").is_file(), reason=f"no {DATA}: set TALENTRL_DATA")
GRAMMAR = (
    'grammar :: """{"task": [{"rhs": "Your task is to: UNKNOWN GOAL."}]}""" action P { template :: "move {o} to {r}"; }'
)


def item(trial: int = 1, **changes) -> dict:
    """A game in the fields of the JSONL layout."""
    fields = {
        "id": f"pick_and_place_simple-Mug-None-Desk-308/trial_{trial}",
        "split": "valid_seen",
        "task_type": "pick_and_place_simple",
        "object_target": "Mug",
        "mrecep_target": "",
        "target": "Desk",
        "scene_num": 308,
        "task": "put a mug in desk",
        "walkthrough": ["go to shelf 1", "take mug 1 from shelf 1", "move mug 1 to desk 1"],
        "pddl_problem": "(define (problem p) (:objects) (:init) (:goal (and)))",
    }
    return {name: value for name, value in (fields | changes).items() if value is not None}


def write_lines(folder: Path, *items: dict, name: str = "valid_seen.jsonl") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps(value) + "\n" for value in items), encoding="utf-8")
    return folder


def write_game(root: Path, game: dict | None = None, split: str = "valid_seen", **changes) -> Path:
    """A game in the layout of `alfworld-download`; a change to None leaves a field out."""
    game = game or item()
    file = {
        "grammar": GRAMMAR.replace("UNKNOWN GOAL", game["task"]),
        "pddl_domain": "(define (domain alfred))",
        "pddl_problem": game["pddl_problem"],
        "solvable": True,
        "walkthrough": game["walkthrough"],
    } | changes
    path = root / split / game["id"] / "game.tw-pddl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({name: value for name, value in file.items() if value is not None}), encoding="utf-8")
    return path


def test_a_line_becomes_a_task(tmp_path):
    frame = load_alfworld(write_lines(tmp_path, item()), ["valid_seen"], partial=True)
    (row,) = frame.iter_rows(named=True)
    payload = json.loads(row.pop("payload"))
    assert row == {
        "task_id": "pick_and_place_simple-Mug-None-Desk-308/trial_1",
        "benchmark": "alfworld",
        "split": "valid_seen",
        "instruction": "put a mug in desk",
        "answers": [],
    }
    assert payload == {
        "problem": item()["pddl_problem"],
        "task_type": "pick_and_place_simple",
        "object": "Mug",
        "target": "Desk",
        "scene": 308,
        "walkthrough": item()["walkthrough"],
    }


@pytest.mark.parametrize("inner", [".", "json_2.1.1"])
def test_the_folders_of_the_download_give_the_same_task(tmp_path, inner):
    write_game(tmp_path / "games" / inner)
    lines = load_alfworld(write_lines(tmp_path / "lines", item()), ["valid_seen"], partial=True)
    assert load_alfworld(tmp_path / "games", ["valid_seen"], partial=True).equals(lines)


@pytest.mark.parametrize(("suffix", "compress"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_plain_and_compressed_lines_are_the_same(tmp_path, suffix, compress):
    data = (json.dumps(item()) + "\n\n" + json.dumps(item(2))).encode()
    (tmp_path / f"valid_seen.jsonl{suffix}").write_bytes(compress(data))
    assert len(load_alfworld(tmp_path, ["valid_seen"], partial=True)) == 2


def test_quotes_and_unicode_in_a_task_survive_the_grammar(tmp_path):
    write_game(tmp_path, item(task=r"put the \"best\" caf\u00e9 mug. in desk"))
    assert load_alfworld(tmp_path, partial=True)["instruction"].to_list() == ['put the "best" café mug. in desk']


def test_games_that_alfworld_leaves_out_are_left_out(tmp_path):
    write_game(tmp_path)
    write_game(tmp_path, item(2), solvable=False)
    write_game(tmp_path, item(id="pick_and_place_with_movable_recep-Mug-Pan-Desk-308/trial_3"))
    write_game(tmp_path, item(id="pick_and_place_simple-AppleSliced-None-Desk-308/trial_4"))
    assert load_alfworld(tmp_path, partial=True)["task_id"].to_list() == [item()["id"]]


@real
def test_every_published_game_is_there_once():
    frame = load_alfworld(DATA)
    assert dict(frame["split"].value_counts().iter_rows()) == GAMES
    assert frame["task_id"].n_unique() == sum(GAMES.values()) == 4027
    assert (frame["answers"].list.len() == 0).all()
    kinds = frame.select(frame["payload"].str.json_path_match("$.task_type"), "split")
    counts = {split: dict(part["payload"].value_counts().iter_rows()) for (split,), part in kinds.group_by("split")}
    assert [counts["valid_unseen"][kind] for kind in TASK_TYPES] == [24, 18, 31, 23, 21, 17]
    assert [counts["train"][kind] for kind in TASK_TYPES] == [790, 308, 650, 459, 533, 813]


@real
def test_a_split_is_loaded_alone_and_in_file_order():
    frame = load_alfworld(DATA, ["valid_unseen"])
    with lzma.open(DATA / "valid_unseen.jsonl.xz", "rt", encoding="utf-8") as file:
        assert frame["task_id"].to_list() == [json.loads(line)["id"] for line in file]


@real
def test_real_games_are_the_same_from_folders(tmp_path):
    grammar = (DATA / "alfred_game.twl2").read_text(encoding="utf-8")
    with lzma.open(DATA / "valid_seen.jsonl.xz", "rt", encoding="utf-8") as file:
        for line in file:
            game = json.loads(line)
            write_game(tmp_path, game, grammar=grammar.replace("UNKNOWN GOAL", game["task"]))
    from_lines = load_alfworld(DATA, ["valid_seen"])
    assert load_alfworld(tmp_path, ["valid_seen"]).equals(from_lines.sort("task_id"))


@real
def test_a_game_that_is_gone_is_named(tmp_path):
    grammar = (DATA / "alfred_game.twl2").read_text(encoding="utf-8")
    with lzma.open(DATA / "valid_unseen.jsonl.xz", "rt", encoding="utf-8") as file:
        games = [json.loads(line) for line in file]
    paths = [write_game(tmp_path, game, "valid_unseen", grammar=grammar) for game in games]
    paths[5].unlink()
    with pytest.raises(InputError) as refusal:
        load_alfworld(tmp_path, ["valid_unseen"])
    assert str(refusal.value) == (
        f"{tmp_path}: split 'valid_unseen': expected all 134 games, found 133; no game.tw-pddl in {games[5]['id']}"
    )
    shutil.rmtree(paths[7].parent)
    assert len(load_alfworld(tmp_path, ["valid_unseen"], partial=True)) == 132


def test_a_split_that_is_not_whole_is_refused(tmp_path):
    write_lines(tmp_path, item())
    with pytest.raises(InputError, match="split 'valid_seen': expected all 140 games, found 1"):
        load_alfworld(tmp_path, ["valid_seen"])


def test_a_split_that_is_missing_is_refused_and_left_out_on_request(tmp_path):
    write_lines(tmp_path, item())
    with pytest.raises(InputError, match=r"split 'train' is missing: expected train\.jsonl, .* or a folder train/"):
        load_alfworld(tmp_path)
    assert load_alfworld(tmp_path, partial=True)["split"].to_list() == ["valid_seen"]
    with pytest.raises(InputError, match="found no games"):
        load_alfworld(tmp_path, ["train"], partial=True)


@pytest.mark.parametrize("splits", [[], ["test"], ["valid_seen", "dev"]])
def test_unknown_splits_are_refused(tmp_path, splits):
    with pytest.raises(InputError, match="splits: expected some of"):
        load_alfworld(tmp_path, splits)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": None}, "field 'id': expected a text, found None"),
        ({"split": "train"}, "field 'split': expected 'valid_seen', found 'train'"),
        ({"task": " "}, "field 'task': expected a text"),
        ({"task_type": "pick_three"}, "field 'task_type': expected one of"),
        ({"object_target": None}, "field 'object_target': expected a text"),
        ({"scene_num": "kitchen"}, "field 'scene_num': expected the number of a room"),
        ({"pddl_problem": None}, "field 'pddl_problem': expected a text"),
        ({"pddl_problem": "(define (problem p) (:goal (and)"}, "field 'pddl_problem': parentheses do not match"),
        ({"pddl_problem": "(define (problem p) (:init))"}, r"field 'pddl_problem': expected a \(:goal"),
        ({"walkthrough": "go to desk 1"}, "field 'walkthrough': expected a list of commands"),
        ({"walkthrough": ["put mug 1 in/on desk 1"]}, r"field 'walkthrough': found the old grammar .* 'move X to Y'"),
    ],
)
def test_a_broken_line_is_named(tmp_path, changes, message):
    write_lines(tmp_path, item(), item(2, **changes))
    with pytest.raises(InputError, match=rf"valid_seen\.jsonl:2: {message}"):
        load_alfworld(tmp_path, ["valid_seen"], partial=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grammar": None}, "field 'grammar': expected a text with 'Your task is to"),
        ({"grammar": GRAMMAR.replace("Your task is to", "Please")}, "field 'grammar': expected a text with"),
        (
            {"grammar": GRAMMAR.replace("move {o} to {r}", "put {o} in/on {r}")},
            "field 'grammar': found the old grammar",
        ),
        ({"pddl_problem": None}, "field 'pddl_problem': expected a text"),
        ({"game": item(id="Mug/trial_1")}, "folder: expected TYPE-OBJECT-"),
    ],
)
def test_a_broken_game_file_is_named(tmp_path, changes, message):
    write_game(tmp_path, **changes)
    with pytest.raises(InputError, match=rf"game\.tw-pddl: {message}"):
        load_alfworld(tmp_path, ["valid_seen"], partial=True)


def test_a_game_that_comes_twice_is_refused(tmp_path):
    write_lines(tmp_path, item(), item())
    with pytest.raises(InputError, match=r"valid_seen\.jsonl:2: field 'id': expected one not used before"):
        load_alfworld(tmp_path, ["valid_seen"], partial=True)


@pytest.mark.parametrize("length", [1, 100, -20])
def test_files_that_are_cut_off_are_refused(tmp_path, length):
    (tmp_path / "valid_seen.jsonl.xz").write_bytes(lzma.compress(json.dumps(item()).encode())[:length])
    with pytest.raises(InputError, match=r"valid_seen\.jsonl\.xz: not readable as \.xz"):
        load_alfworld(tmp_path, ["valid_seen"], partial=True)
    path = write_game(tmp_path / "games")
    path.write_text(path.read_text()[:length])
    with pytest.raises(InputError, match=r"game\.tw-pddl: not JSON .*: is it cut off\?"):
        load_alfworld(tmp_path / "games", ["valid_seen"], partial=True)
