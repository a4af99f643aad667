"""What the command line shows in a terminal: a bank, a routing decision, the turns of a rollout.

Texts come from files and models, so they are never read as markup.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from talentrl.bank.bank import SkillBank
from talentrl.bank.skill import render_skill
from talentrl.bank.talent import Talent, render_talent
from talentrl.retrieval.index import Hit

if TYPE_CHECKING:
    import polars as pl

    from talentrl.config import Params
    from talentrl.evaluation.retrieval import RetrievalEvaluation
    from talentrl.planning import Plan, Speed

_INTERVAL = ("value", "95 % interval", "p", "test")


def show_bank(console: Console, bank: SkillBank) -> None:
    """A table of talents with their associations, then a table of skills with the talents that name them."""
    talents = _table("Talents", "talent", "description", "skills (weight)")
    for talent in bank.talents.values():
        associations = [f"{skill} ({talent.skills[skill]:g})" for skill in _by_weight(talent)]
        talents.add_row(talent.id, talent.description, ", ".join(associations))
    skills = _table("Skills", "skill", "description", "talents")
    for skill in bank.skills.values():
        naming = [talent.id for talent in bank.talents.values() if skill.id in talent.skills]
        skills.add_row(skill.id, skill.description, ", ".join(naming))
    console.print(talents, skills, sep="\n")


def show_talent(console: Console, bank: SkillBank, id: str) -> None:
    """A talent as its TALENT.md, and what its skills are."""
    talent = bank.talents[id]
    console.print(render_talent(talent), soft_wrap=True)
    skills = _table(f"Skills of {id}", "skill", "weight", "description")
    for skill in _by_weight(talent):
        skills.add_row(skill, f"{talent.skills[skill]:g}", bank.skills[skill].description)
    console.print(skills)


def show_skill(console: Console, bank: SkillBank, id: str) -> None:
    """A skill as its SKILL.md, and the talents that name it."""
    console.print(render_skill(bank.skills[id]), soft_wrap=True)
    talents = _table(f"Talents of {id}", "talent", "weight", "description")
    for talent in bank.talents.values():
        if id in talent.skills:
            talents.add_row(talent.id, f"{talent.skills[id]:g}", talent.description)
    console.print(talents)


def show_probabilities(console: Console, bank: SkillBank, probabilities: Mapping[str, float], policy: str) -> None:
    """Talents in the order of `probabilities`; the last row is the probability of any other routing turn."""
    table = _table(f"Talents under {policy}", "talent", "probability", "description")
    for id, probability in probabilities.items():
        table.add_row(id, f"{probability:.3g}", bank.talents[id].description)
    table.add_section()
    table.add_row("", f"{max(0.0, 1 - sum(probabilities.values())):.3g}", "any other routing turn")
    console.print(table)


def show_plan(console: Console, plan: "Plan", params: "Params", speed: "Speed | None") -> None:
    """Memory by stage and part, then rollouts, tokens, hours (if speeds are assumed) and disk."""
    parts = list(dict.fromkeys(part for stage in plan.memory.values() for part in stage))
    memory = _table("GB on each GPU, at most: an estimate", "part", *plan.memory)
    for part in parts:
        memory.add_row(part, *(f"{stage[part] / 1e9:.1f}" if part in stage else "" for stage in plan.memory.values()))
    memory.add_section()
    memory.add_row("together", *(f"{sum(stage.values()) / 1e9:.1f}" for stage in plan.memory.values()))
    work = _table("Work, at most", "stage", "rollouts a seed", "tokens a seed", "hours, all seeds")
    for stage, tokens in plan.tokens.items():
        rollouts = f"{plan.rollouts[stage]:,}" if stage in plan.rollouts else ""
        hours = f"{plan.seconds[stage] / 3600:.1f}" if speed else "–"
        work.add_row(stage, rollouts, f"{tokens:,}", hours)
    console.print(memory, work, sep="\n")
    lines = [
        f"Model: {params.model.source}, {plan.parameters:,} parameters. Disk: {plan.disk / 1e9:.0f} GB.",
        f"Conversations are taken to be {params.model.max_tokens} tokens long (model.max_tokens).",
    ]
    if speed is None:
        lines.append("Hours: name the speeds that you assume, --tflops and --bandwidth. None is measured here.")
    else:
        whole = sum(plan.seconds[stage] for stage in plan.tokens) / 3600
        lines.append(
            f"Assumed, not measured: {speed.operations / 1e12:g} TFLOP/s and {speed.bandwidth / 1e9:g} GB/s. At these, "
            f"{3600 / plan.seconds['one rollout']:,.0f} rollouts an hour, {whole:.1f} hours in all."
        )
    console.print("\n".join(lines))


def show_hits(
    console: Console, title: str, hits: Sequence[Hit], texts: Mapping[str, str], prior_weight: float | None = None
) -> None:
    """Found documents, the best first, with their `texts` by id; given λ, also the parts of their scores."""
    parts = [] if prior_weight is None else ["bm25", "dense", "prior"]
    table = _table(title, "id", "score", *parts, "text")
    if prior_weight is not None:
        table.caption = f"score = fused bm25 and dense, in standard deviations, + {prior_weight:g} · prior"
    for hit in hits:
        table.add_row(hit.id, *(f"{getattr(hit, part):.3f}" for part in ["score", *parts]), texts[hit.id])
    console.print(table)


def show_scores(console: Console, title: str, scores: "pl.DataFrame") -> None:
    """A benchmark's figures (`evaluation.scores.SCORE_SCHEMA`)."""
    table = _table(title, "system", "tasks of", "metric", "value", "95 % interval", "tasks", "failed")
    for row in scores.iter_rows(named=True):
        digits = 1 if row["metric"] == "score" else 3
        interval = f"{row['low']:.{digits}f} to {row['high']:.{digits}f}"
        figures = (f"{row['value']:.{digits}f}", interval, str(row["tasks"]), str(row["failed"]))
        table.add_row(row["system"], row["group"], row["metric"], *figures)
    console.print(table)


def show_averages(console: Console, metric: str, averages: Mapping[str, "pl.DataFrame"]) -> None:
    """One metric of each system over several benchmarks (`evaluation.averages.average_table`)."""
    table = _table(f"{metric} over benchmarks", "system", "benchmark", "value", "95 % interval", "tasks")
    for system, frame in averages.items():
        for benchmark, value, low, high, tasks in frame.iter_rows():
            table.add_row(system, benchmark, f"{value:.3f}", f"{low:.3f} to {high:.3f}", str(tasks))
        table.add_section()
    console.print(table)


def show_retrieval(console: Console, evaluation: "RetrievalEvaluation") -> None:
    """The sweep on the tuning halves, then each set's held-out half: systems, and their paired differences."""
    from talentrl.evaluation.retrieval import MEASURES, PRIMARY, Setting

    def shown(setting: Setting) -> str:
        return f"{setting.fusion}, α = {setting.alpha:g}"

    names = evaluation.sets["set"].to_list()
    sweep = _table(f"Tuning halves: {PRIMARY}", "setting", *names, "mean")
    for (fusion, alpha), rows in evaluation.sweep.group_by("fusion", "alpha", maintain_order=True):
        setting, values = Setting(fusion, alpha), rows[PRIMARY].to_list()
        mark = " (best)" if setting == evaluation.chosen else ""
        sweep.add_row(shown(setting) + mark, *(f"{value:.3f}" for value in [*values, sum(values) / len(values)]))
    console.print(sweep)
    for sizes in evaluation.sets.iter_rows(named=True):
        title = f"Held-out half of {sizes['set']}: {sizes['held_out']} queries, {sizes['documents']} documents"
        systems = _table(title, "system", "setting", *MEASURES, f"{PRIMARY}, 95 % interval")
        for (system,), rows in evaluation.systems.filter(set=sizes["set"]).group_by("system", maintain_order=True):
            first, primary = rows.row(0, named=True), rows.filter(measure=PRIMARY).row(0, named=True)
            setting = Setting(first["fusion"], first["alpha"])
            values = [f"{value:.3f}" for value in rows["value"]]
            systems.add_row(system, shown(setting), *values, f"{primary['low']:.3f} to {primary['high']:.3f}")
        console.print(systems)
    differences = _table(f"Paired differences in {PRIMARY}, held-out halves", "set", "difference", *_INTERVAL)
    for row in evaluation.differences.filter(measure=PRIMARY).iter_rows(named=True):
        interval = f"{row['low']:+.3f} to {row['high']:+.3f}"
        pair = f"{row['first']} - {row['second']}"
        differences.add_row(row["set"], pair, f"{row['value']:+.3f}", interval, f"{row['p_value']:.4f}", row["test"])
    console.print(differences)


def show_turn(console: Console, label: str, text: str) -> None:
    """A labelled paragraph of a rollout."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=11, style="bold")
    grid.add_column(overflow="fold")
    grid.add_row(label, text)
    console.print(grid)


def _table(title: str, *columns: str) -> Table:
    """An empty table whose first column, an id, is never wrapped."""
    table = Table(title=title, title_justify="left", caption_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, no_wrap=number == 0, overflow="fold")
    return table


def _by_weight(talent: Talent) -> list[str]:
    return sorted(talent.skills, key=lambda skill: (-talent.skills[skill], skill))
