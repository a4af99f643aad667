import re
from html.parser import HTMLParser

import polars as pl
import pytest
from evaluation_samples import episode, frame, sample_inputs

from talentrl.benchmarks.taskset import TASK_SCHEMA
from talentrl.errors import InputError
from talentrl.evaluation import summary
from talentrl.evaluation.examples import pick_examples
from talentrl.evaluation.report import headline, write_report

SECTIONS = {
    *("comparison", "differences", "learning", "use", "contrast", "confusion", "families", "episodes"),
    "provenance",
}


class Page(HTMLParser):
    """Sections, ids, links and open elements of a page."""

    VOID = frozenset({"meta", "link", "br"})

    def __init__(self, text):
        super().__init__()
        self.sections, self.ids, self.loads, self.tags, self.stack = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag == "section":
            self.sections.append(attributes["id"])
        if "id" in attributes:
            self.ids.append(attributes["id"])
        self.loads += [attributes[name] for name in ("src", "href", "xlink:href", "srcset") if name in attributes]
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.stack.pop()

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag


@pytest.fixture(scope="module")
def inputs():
    return sample_inputs(tasks=42)


@pytest.fixture(scope="module")
def text(inputs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    write_report(folder / "index.html", **inputs)
    assert [path.name for path in folder.iterdir()] == ["index.html"]
    return (folder / "index.html").read_text(encoding="utf-8")


def write(folder, **inputs):
    write_report(folder / "index.html", **inputs)
    return (folder / "index.html").read_text(encoding="utf-8")


def test_every_section_is_there_and_the_page_is_well_formed(text):
    page = Page(text)
    assert set(page.sections) == SECTIONS
    assert page.stack == []
    assert len(page.ids) == len(set(page.ids))


def test_page_loads_nothing(text):
    assert "http" not in text
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    page = Page(text)
    assert all(link.startswith("#") or link == "data:," for link in page.loads)
    assert {link[1:] for link in page.loads if link.startswith("#")} <= set(page.ids)
    assert not {"script", "iframe", "img", "object"} & {tag for tag, _ in page.tags}


def test_charts_are_described_and_tables_captioned(text):
    charts = [attributes for tag, attributes in Page(text).tags if tag == "svg"]
    assert len(charts) >= 9
    assert all(chart["role"] == "img" and chart["aria-label"] for chart in charts)
    assert text.count("<table") == text.count("<caption")


def test_chart_text_stays_text_and_colours_follow_the_page(text):
    assert "Flat retrieval, no talent</text>" in text
    assert "currentColor" in text
    assert "#0a0b0" not in text


def test_equal_inputs_give_equal_bytes(text, inputs, tmp_path):
    assert write(tmp_path, **inputs) == text
    assert write(tmp_path, **sample_inputs(tasks=42)) == text


def test_hostile_text_is_escaped(inputs, tmp_path):
    hostile = "<script>alert(1)</script> & \"$x$\" 'y' </pre>"
    named = pl.lit(hostile)
    evaluations = {
        name: part.with_columns(
            instruction=named, talent=pl.when(pl.col("talent") == "count").then(named).otherwise("talent")
        )
        for name, part in inputs["evaluations"].items()
    }
    page = write(tmp_path, **inputs | {"evaluations": evaluations, "provenance": {hostile: hostile}})
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert Page(page).stack == []


def test_missing_parts_are_said(tmp_path, inputs):
    tasks = TASK_SCHEMA.to_frame()
    flat = {"flat": inputs["evaluations"]["flat"]}
    page = write(tmp_path, evaluations=flat, tasks=tasks, histories={}, rl_episodes=None, provenance={})
    assert set(Page(page).sections) == SECTIONS
    assert page.count('class="missing"') == 11
    assert "cannot say whether routing training helped" in page


def test_a_report_without_any_evaluation_is_still_a_page(tmp_path):
    tasks = TASK_SCHEMA.to_frame()
    page = write(tmp_path, evaluations={}, tasks=tasks, histories={}, rl_episodes=None, provenance={})
    assert set(Page(page).sections) == SECTIONS
    assert "<svg" not in page


def test_a_refused_report_leaves_the_old_one(tmp_path, inputs):
    (tmp_path / "index.html").write_text("old")
    broken = inputs["evaluations"] | {"rl": inputs["evaluations"]["rl"].head(5)}
    with pytest.raises(InputError, match="differ in tasks"):
        write_report(tmp_path / "index.html", **inputs | {"evaluations": broken})
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    assert (tmp_path / "index.html").read_text() == "old"


def systems(rl, sft):
    make = {"rl": rl, "sft": sft}
    return {name: frame([episode(f"t{i:02d}", "lookup", r) for i, r in enumerate(v)]) for name, v in make.items()}


@pytest.mark.parametrize(
    ("rl", "sft", "verdict"),
    [
        ([1] * 30, [0] * 20 + [1] * 10, "RL raised exact match: +0.667"),
        ([0] * 20 + [1] * 10, [1] * 30, "RL lowered exact match: −0.667"),
        ([1, 0] * 15, [0, 1] * 15, "RL made no difference to exact match that this test can show: +0.000"),
        ([1] * 30, [1] * 30, "RL made no difference to exact match that this test can show: +0.000"),
        ([1] * 3, [0] * 3, "Interval and exact test disagree on whether RL changed exact match"),
        ([1], [0], "RL made no difference to exact match that this test can show"),
    ],
)
def test_headline_says_what_the_figures_say(rl, sft, verdict):
    data = systems(rl, sft)
    first = headline(summary.difference_table(data), data, "exact match")[0]
    assert first.startswith(verdict)
    assert f"on {len(rl)} tasks" in first
    clear = verdict.startswith(("RL raised", "RL lowered", "Interval"))
    assert ("does not exclude 0" not in first) == clear


def test_examples_are_one_of_each_kind_with_sft_beside():
    data = summary.prepare(systems([1, 1, 1, 1, 0, 0, 1], [0, 0, 0, 1, 1, 0, 1]))
    examples = pick_examples(data)
    assert [example.kind for example in examples] == [
        *["RL right where SFT is wrong"] * 2,
        *("RL wrong where SFT is right", "Both right", "Both wrong"),
    ]
    assert all(example.other["task_id"] == example.main["task_id"] for example in examples)
    assert pick_examples(data) == examples
    assert {example.main_system for example in pick_examples({"sft": data["sft"]})} == {"sft"}
    assert pick_examples({}) == []


def test_histories_of_several_seeds_and_odd_columns_are_drawn(tmp_path, inputs):
    steps = [1, 2, 3] * 2
    history = pl.DataFrame(
        {
            "step": steps,
            "run_seed": [0] * 3 + [1] * 3,
            "loss": [2.0, 1.0, 0.5, 2.5, None, 0.7],
            "epoch": [0.1] * 6,
            "note": ["x"] * 6,
            "reward": [float("nan")] * 6,
        }
    )
    page = write(tmp_path, **inputs | {"histories": {"sft": history}})
    assert 'aria-label="loss by training step: from 2 to 0.5; from 2.5 to 0.7"' in page
    assert "reward by training step" not in page
