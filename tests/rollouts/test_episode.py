"""Episode files: what is written is read back, and a broken file is refused in one line."""

import dataclasses
import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollout_samples import TASK, in_turn, make_runner, request

from talentrl.errors import InputError
from talentrl.rollouts.episode import (
    EPISODE_SCHEMA,
    Episode,
    SkillScore,
    StopReason,
    Turn,
    episodes_frame,
    read_episodes,
    write_episodes,
)

# `return` is a word of the language, so the field is called `value`.
COLUMNS = {"value": "return"}


@pytest.fixture(scope="module")
def episodes():
    """A success, a failure on the way, and a malformed action."""
    runner = make_runner(lambda text, seed: ["<answer>y</answer>", "<search>crash</search>", "?"][seed // 1009])
    return runner.run(
        [
            request(runner, "routed", "a", seed=0),
            request(runner, "null", None, seed=1),
            request(runner, "forced", "b", seed=2),
        ],
        temperature=0.0,
    )


def from_row(row):
    values = {field.name: row[COLUMNS.get(field.name, field.name)] for field in dataclasses.fields(Episode)}
    values["skills"] = [SkillScore(**skill) for skill in values["skills"]]
    values["turns"] = [Turn(**turn) for turn in values["turns"]]
    return Episode(**values)


def test_round_trip(episodes, tmp_path):
    path = tmp_path / "new" / "episodes.parquet"
    write_episodes(path, episodes_frame(episodes))
    frame = read_episodes(path)
    assert frame.schema == EPISODE_SCHEMA
    assert [from_row(row) for row in frame.iter_rows(named=True)] == episodes
    assert [file.name for file in path.parent.iterdir()] == ["episodes.parquet"]
    assert frame["return"].to_list() == [1.0, None, 0.0]
    assert frame["stop_reason"].to_list() == ["answered", "error", "turn_limit"]
    assert frame["talent"].to_list() == ["a", None, "b"]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)


@given(st.lists(texts, max_size=3), st.lists(st.floats(-100, 0, width=32), max_size=5), st.none() | st.floats(0, 1))
def test_any_episode_keeps_its_values(lines, logprobs, value):
    aligned = [False] * len(logprobs)
    episode = Episode(
        *("e", "t", "atlas", "test", "q", lines, "null:none", "null", None, 0, 2**31 - 1, "c", "d", "m"),
        turns=[Turn("user", line) for line in lines],
        token_ids=list(range(len(logprobs))),
        routing_mask=aligned,
        action_mask=aligned,
        logprobs=logprobs,
        value=value,
    )
    assert from_row(episodes_frame([episode]).row(0, named=True)) == episode


def test_no_episodes_are_a_file_too(tmp_path):
    write_episodes(tmp_path / "e.parquet", episodes_frame([]))
    assert read_episodes(tmp_path / "e.parquet").is_empty()


@pytest.mark.parametrize("name", ["token_ids", "routing_mask", "action_mask", "logprobs"])
@pytest.mark.parametrize("cut", ["shorter", "missing"])
def test_misaligned_tokens_are_refused(episodes, tmp_path, name, cut):
    frame = episodes_frame(episodes)
    shorter = pl.col(name).list.head(3) if cut == "shorter" else pl.lit(None, EPISODE_SCHEMA[name])
    frame = frame.with_columns(pl.when(pl.col("rollout").cum_count() == 2).then(shorter).otherwise(name).alias(name))
    write_episodes(tmp_path / "e.parquet", frame)
    with pytest.raises(InputError) as caught:
        read_episodes(tmp_path / "e.parquet")
    assert str(caught.value) == (
        f"{tmp_path}/e.parquet: episode 't1/null:none/0' has token_ids, masks and logprobs of different lengths"
    )


def write_nothing(path, frame):
    pass


def write_text(path, frame):
    path.write_text("episodes")


def write_half(path, frame):
    frame.write_parquet(path)
    path.write_bytes(path.read_bytes()[:-40])


def write_folder(path, frame):
    path.mkdir()


def write_without_a_column(path, frame):
    frame.drop("logprobs").write_parquet(path)


def write_another_type(path, frame):
    frame.with_columns(pl.col("seed").cast(pl.String)).write_parquet(path)


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (write_nothing, "no such file"),
        (write_folder, "no such file"),
        (write_text, "not a readable Parquet file"),
        (write_half, "not a readable Parquet file"),
        (write_without_a_column, r"columns \['logprobs'\] are missing"),
        (write_another_type, "column 'seed' is String, expected Int64"),
    ],
)
def test_broken_files_are_refused_in_one_line(episodes, tmp_path, write, words):
    path = tmp_path / "e.parquet"
    write(path, episodes_frame(episodes))
    with pytest.raises(InputError, match=words) as caught:
        read_episodes(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_write_that_fails_leaves_the_old_file(episodes, tmp_path, monkeypatch):
    path = tmp_path / "e.parquet"
    write_episodes(path, episodes_frame(episodes))
    before = path.read_bytes()

    def fail(self, target):
        target.write_text("half")
        raise OSError("disk full")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", fail)
    with pytest.raises(OSError, match="disk full"):
        write_episodes(path, episodes_frame(episodes))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_every_stop_reason_is_recorded_as_its_word():
    assert {reason.value for reason in StopReason} == {"answered", "turn_limit", "token_limit", "error"}


def test_scores_are_none_until_judged():
    runner = make_runner(in_turn("<answer>y</answer>"))
    episode = runner.new_episode(request(runner, task=TASK))
    assert (episode.value, episode.exact_match, episode.f1) == (None, None, None)
    assert not math.isnan(episode.seconds)
