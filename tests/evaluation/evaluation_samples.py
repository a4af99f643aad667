"""Made-up episodes for the tests of the evaluation; nothing here is a result."""

import json
import random

import polars as pl

from talentrl.benchmarks.taskset import TASK_SCHEMA

TALENTS = ("bridge", "careful", "compare", "count", "intersect", "lookup", "superlative", "verify")
FAMILIES = TALENTS[:1] + TALENTS[2:]


def episode(task_id, talent, right, **changes):
    """One episode row; `right` is its return."""
    score = float(right) if right is not None else 0.0
    return {
        "episode_id": f"{task_id}/{talent}",
        "task_id": task_id,
        "instruction": f"Question of {task_id}?",
        "answers": ["Lima"],
        "arm_id": f"{task_id}:{talent}",
        "intervention": "routed",
        "talent": talent,
        "return": None if right is None else float(right),
        "exact_match": score,
        "f1": score,
        "routing_valid": talent is not None,
        "routing_probability": 0.5,
        "invalid_actions": 0,
        "searches": 1,
        "stop_reason": "error" if right is None else "answered",
        "sampled_tokens": 20,
        "seconds": 0.5,
        "skills": [{"id": "name-the-entity", "score": 1.2, "bm25": 0.4, "dense": 0.6, "prior": 0.5}],
        "turns": [
            {"role": "system", "text": "Choose a talent, then act."},
            {"role": "user", "text": f"Question of {task_id}?"},
            {"role": "assistant", "text": f"<talent>{talent}</talent>"},
            {"role": "user", "text": "Strategy: search the named thing.\nSkills: name-the-entity"},
            {"role": "assistant", "text": "<search>capital of Peru</search>"},
            {"role": "user", "text": "<information>The capital of Peru is Lima.</information>"},
            {"role": "assistant", "text": "<answer>Lima</answer>" if right else "<answer>Quito</answer>"},
        ],
    } | changes


def frame(rows):
    return pl.DataFrame(rows, infer_schema_length=None)


def sample_inputs(tasks=140, seed=3):
    """Arguments of `write_report` of the shape of a small run; the numbers are drawn, not measured."""
    draw = random.Random(seed)
    names = {f"atlas-test-{i:03d}": FAMILIES[i % len(FAMILIES)] for i in range(tasks)}
    chance = {
        task: {talent: 0.75 if talent == family else draw.uniform(0.05, 0.35) for talent in TALENTS}
        for task, family in names.items()
    }
    outcome = {task: {talent: draw.random() < p for talent, p in arms.items()} for task, arms in chance.items()}

    def routed(accuracy, **changes):
        rows = []
        for task, family in names.items():
            talent = family if draw.random() < accuracy else draw.choice(TALENTS)
            rows.append(episode(task, talent, outcome[task][talent], seconds=draw.uniform(0.4, 0.9), **changes))
        return frame(rows)

    evaluations = {
        "zero_shot": frame([episode(t, None, draw.random() < 0.08, invalid_actions=2) for t in names]),
        "flat": frame([episode(t, None, draw.random() < 0.3, intervention="null") for t in names]),
        "random": routed(0.0, intervention="forced"),
        "sft": routed(0.55),
        "rl": routed(0.9),
        "oracle": frame(
            [episode(t, z, outcome[t][z], intervention="forced") for t in names for z in TALENTS],
        ),
    }
    payloads = [json.dumps({"family": f, "held_out": i % 3 == 0}) for i, f in enumerate(names.values())]
    rows = [(id, "atlas", "test", "?", [], payload) for id, payload in zip(names, payloads, strict=True)]
    task_frame = pl.DataFrame(rows, schema=TASK_SCHEMA, orient="row")
    steps = range(1, 61)
    histories = {
        "sft": pl.DataFrame({"step": steps, "loss": [2.5 / s**0.5 + draw.uniform(0, 0.1) for s in steps]}),
        "rl": pl.DataFrame(
            {
                "step": steps,
                "return/mean": [0.3 + 0.004 * s + draw.uniform(-0.1, 0.1) for s in steps],
                "routing/entropy": [1.8 - 0.015 * s + draw.uniform(-0.05, 0.05) for s in steps],
                "routing/invalid_rate": [max(0.0, 0.2 - 0.01 * s) for s in steps],
                "loss": [draw.uniform(-0.1, 0.1) for s in steps],
            }
        ),
    }
    rows = []
    for step in steps:
        for task in draw.sample(sorted(names), 4):
            good = 0.2 + 0.01 * step
            for talent in sorted({names[task], *draw.sample(TALENTS, 3)}):
                right = draw.random() < chance[task][talent]
                mass = good if talent == names[task] else (1 - good) / 7
                rows.append(episode(task, talent, right, step=step, routing_probability=mass))
    provenance = {
        "bank digest": "0123456789abcdef",
        "training seeds": "0",
        "torch": "2.13.0",
        "trl": "1.16.0",
    }
    return {
        "evaluations": evaluations,
        "tasks": task_frame,
        "histories": histories,
        "rl_episodes": frame(rows),
        "provenance": provenance,
    }
