"""How well retrieval finds labelled documents: BM25, dense and hybrid, over a sweep of α and fusion.

A setting is chosen on the tuning halves of the sets; on the held-out halves it is compared with BM25, with dense
similarity and with the project's own setting. The query is the unit of evidence, and differences are taken
within each query (`talentrl.evaluation.statistics`).

Measures, a query at a time and over its first ten hits, as trec_eval computes them (through `ir_measures`):
recall@k, the share of the relevant documents among the first k; nDCG@10 with gain 1 for a relevant document
(Järvelin & Kekäläinen 2002); MRR, the mean over queries of 1 / rank of the first relevant document, 0 where
there is none (Voorhees 1999).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import ir_measures
import polars as pl
from ir_measures import RR, R, nDCG
from tqdm import tqdm

from talentrl import layout
from talentrl.config import RetrievalSection
from talentrl.errors import InputError
from talentrl.evaluation.labels import LabelledSet, is_held_out
from talentrl.evaluation.statistics import compare_paired, mean_interval
from talentrl.files import sha256
from talentrl.retrieval.backends import build_index, open_index
from talentrl.retrieval.encoder import Encoder
from talentrl.retrieval.fusion import Fusion

DEPTH = 10
MEASURES = {**{f"recall@{k}": R @ k for k in (1, 2, 5, 10)}, "nDCG@10": nDCG @ 10, "MRR": RR @ DEPTH}
PRIMARY = "nDCG@10"
"""The measure by which a setting is chosen."""


@dataclass(frozen=True)
class Setting:
    """A fusion, and α: the share of dense similarity in it."""

    fusion: Fusion
    alpha: float


BM25, DENSE = Setting("linear", 0.0), Setting("linear", 1.0)
# At its ends, α = 0 and α = 1, `rrf` ranks as `linear` does.
SWEEP = [
    *(Setting("linear", alpha) for alpha in (0.0, 0.25, 0.5, 0.75, 1.0)),
    *(Setting("rrf", alpha) for alpha in (0.25, 0.5, 0.75)),
]


@dataclass(frozen=True)
class RetrievalEvaluation:
    """What came out, as frames.

    Columns: `sets` has set, documents, tuning, held_out (numbers of queries); `sweep` set, fusion, alpha and a
    column a measure (means over the tuning half); `systems` set, system, fusion, alpha, measure, value, low, high;
    `differences` set, first, second, measure, value, low, high, p_value, test (both over the held-out half).
    """

    sets: pl.DataFrame
    sweep: pl.DataFrame
    chosen: Setting
    systems: pl.DataFrame
    differences: pl.DataFrame

    def record(self) -> dict[str, Any]:
        """All of it as JSON data."""
        frames = {name: getattr(self, name).to_dicts() for name in ("sets", "sweep", "systems", "differences")}
        return {**frames, "chosen": asdict(self.chosen)}


def evaluate_retrieval(
    sets: Sequence[LabelledSet], encoder: Encoder, settings: RetrievalSection, seed: int
) -> RetrievalEvaluation:
    """Index each set with the project's back end, search it under every setting, and compare.

    Args:
        sets: at least one, of different names.
        encoder: makes the vectors of documents and queries.
        settings: the project's; its α and fusion are the system `hybrid`.
        seed: of the resampling.

    Raises:
        InputError: a name occurs twice, or the back end refuses.
    """
    names = [labelled.name for labelled in sets]
    if len(set(names)) < len(names):
        raise InputError(f"retrieval evaluation: found sets named {names}, expected different names")
    hybrid = Setting(settings.fusion, settings.alpha)
    tried = list(dict.fromkeys([*SWEEP, hybrid]))
    values = pl.concat(_values(labelled, tried, encoder, settings) for labelled in sets)
    sweep = (
        values.filter(~pl.col("held_out"))
        .group_by("set", "fusion", "alpha", maintain_order=True)
        .agg(pl.col(list(MEASURES)).mean())
    )
    chosen = choose(sweep)
    compared = {"bm25": BM25, "dense": DENSE, "hybrid": hybrid} | ({} if chosen == hybrid else {"chosen": chosen})
    pairs = [("hybrid", "bm25"), ("hybrid", "dense"), *([] if chosen == hybrid else [("chosen", "hybrid")])]
    held_out = values.filter(pl.col("held_out"))
    return RetrievalEvaluation(
        pl.DataFrame([_sizes(labelled) for labelled in sets]),
        sweep,
        chosen,
        pl.DataFrame([row for name in names for row in _systems(held_out, name, compared, seed)]),
        pl.DataFrame([row for name in names for row in _differences(held_out, name, compared, pairs, seed)]),
    )


def choose(sweep: pl.DataFrame) -> Setting:
    """The setting with the highest nDCG@10, averaged over the sets; among equals the one tried first."""
    means = sweep.group_by("fusion", "alpha", maintain_order=True).agg(pl.col(PRIMARY).mean())
    best = means.row(int(means[PRIMARY].round(9).arg_max() or 0), named=True)
    return Setting(best["fusion"], best["alpha"])


def measure_rankings(
    rankings: Mapping[str, Sequence[str]], relevant: Mapping[str, Iterable[str]]
) -> dict[str, dict[str, float]]:
    """Every measure of `MEASURES` for every query.

    Args:
        rankings: query id -> document ids, the best first.
        relevant: query id -> ids of its relevant documents, at least one.
    """
    labels = [ir_measures.Qrel(query, id, 1) for query, ids in relevant.items() for id in ids]
    # Scores that fall with the place keep our order; trec_eval orders documents of equal score by id, the last first.
    run = [ir_measures.ScoredDoc(query, id, -place) for query, ids in rankings.items() for place, id in enumerate(ids)]
    name_of = {measure: name for name, measure in MEASURES.items()}
    values = {query: dict.fromkeys(MEASURES, 0.0) for query in rankings}
    for found in ir_measures.iter_calc(MEASURES.values(), labels, run):
        values[found.query_id][name_of[found.measure]] = float(found.value)
    return values


def _values(
    labelled: LabelledSet, tried: Sequence[Setting], encoder: Encoder, settings: RetrievalSection
) -> pl.DataFrame:
    """One row a setting and query: set, fusion, alpha, query, held_out and a column a measure."""
    folder = layout.SCRATCH / f"evaluation-{sha256(labelled.name.encode())[:12]}"
    build_index(folder, labelled.documents, encoder, settings)
    rows: list[dict[str, Any]] = []
    for setting in tqdm(tried, desc=f"searching {labelled.name}", unit="setting"):
        index = open_index(folder, encoder, settings.model_copy(update=asdict(setting)))
        found = index.search_many(list(labelled.queries.values()), DEPTH)
        rankings = {id: [hit.id for hit in hits] for id, hits in zip(labelled.queries, found, strict=True)}
        for query, measured in measure_rankings(rankings, labelled.relevant).items():
            key = {"set": labelled.name, **asdict(setting), "query": query, "held_out": is_held_out(query)}
            rows.append({**key, **measured})
    return pl.DataFrame(rows)


def _sizes(labelled: LabelledSet) -> dict[str, Any]:
    held_out = sum(map(is_held_out, labelled.queries))
    sizes = {"documents": len(labelled.documents), "tuning": len(labelled.queries) - held_out, "held_out": held_out}
    return {"set": labelled.name, **sizes}


def _by_query(held_out: pl.DataFrame, name: str, setting: Setting, measure: str) -> dict[str, float]:
    frame = held_out.filter(set=name, fusion=setting.fusion, alpha=setting.alpha)
    return dict(zip(frame["query"], frame[measure], strict=True))


def _systems(held_out: pl.DataFrame, name: str, compared: Mapping[str, Setting], seed: int) -> Iterable[dict[str, Any]]:
    for system, setting in compared.items():
        for measure in MEASURES:
            estimate = mean_interval(list(_by_query(held_out, name, setting, measure).values()), seed=seed)
            key = {"set": name, "system": system, **asdict(setting), "measure": measure}
            yield {**key, "value": estimate.value, "low": estimate.low, "high": estimate.high}


def _differences(
    held_out: pl.DataFrame,
    name: str,
    compared: Mapping[str, Setting],
    pairs: Sequence[tuple[str, str]],
    seed: int,
) -> Iterable[dict[str, Any]]:
    for first, second in pairs:
        for measure in MEASURES:
            values = [_by_query(held_out, name, compared[system], measure) for system in (first, second)]
            result = compare_paired(values[0], values[1], (first, second), seed=seed)
            key = {"set": name, "first": first, "second": second, "measure": measure}
            interval = {"value": result.difference.value, "low": result.difference.low, "high": result.difference.high}
            yield {**key, **interval, "p_value": result.p_value, "test": result.test}
