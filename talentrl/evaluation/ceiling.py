"""How many questions the passages can answer at all: the ceiling over any retriever and any reader.

A question counts if one of its gold answers, normalised as for exact match, stands in a passage as whole words. What
stands there need not be an answer (a "1" is in many passages), and yes-or-no answers stand nowhere; so this bounds
readers that copy, from above, and says nothing of comparison questions.
"""

import polars as pl

from talentrl.benchmarks.taskset import TaskSet
from talentrl.environments.scoring import normalise


def recall_ceiling(tasks: TaskSet) -> pl.DataFrame:
    """Answerable questions by split.

    Returns:
        Columns `split`, `questions`; `own`, questions with an answer in one of their own passages (payload
        `passages`), of `with_own` that have any; `pooled`, questions with an answer in any passage of the set.
    """
    wanted = (
        tasks.tasks.select("task_id", pl.col("answers").alias("answer"))
        .explode("answer")
        .with_columns(pl.col("answer").map_elements(normalise, pl.String))
        .filter(pl.col("answer") != "")
    )
    # Spaces around both make a match start and end at a word; matches may share one.
    padded = pl.concat_str(pl.lit(" "), pl.col("text").map_elements(normalise, pl.String), pl.lit(" "))
    aliases = (" " + wanted["answer"].unique() + " ").to_list()
    stated = (
        tasks.passages.select(
            passage="passage_id",
            answer=padded.str.extract_many(pl.lit(aliases, dtype=pl.List(pl.String)), overlapping=True).list.unique(),
        )
        .explode("answer")
        .drop_nulls()
        .with_columns(pl.col("answer").str.strip_chars(" "))
    )
    payload = pl.col("payload").str.json_decode(pl.Struct({"passages": pl.List(pl.String)}))
    own = tasks.tasks.select("task_id", passage=payload.struct.field("passages")).explode("passage").drop_nulls()
    answered_own = own.join(wanted, on="task_id").join(stated, on=["passage", "answer"], how="semi")
    answered = wanted.join(stated, on="answer", how="semi")
    return (
        tasks.tasks.group_by("split", maintain_order=True)
        .agg(
            questions=pl.len(),
            own=pl.col("task_id").is_in(answered_own["task_id"].unique().implode()).sum(),
            with_own=pl.col("task_id").is_in(own["task_id"].unique().implode()).sum(),
            pooled=pl.col("task_id").is_in(answered["task_id"].unique().implode()).sum(),
        )
        .select("split", "questions", "own", "with_own", "pooled")
    )
