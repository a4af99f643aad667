"""Putting a project's parts together: from params and files on disk to a RolloutRunner."""

import hashlib
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from talentrl import layout
from talentrl.bank.bank import SkillBank
from talentrl.benchmarks.taskset import PASSAGE_SCHEMA, Task, read_parquet
from talentrl.benchmarks.webshop_products import PRODUCT_SCHEMA
from talentrl.config import Params, RetrievalSection
from talentrl.environments.alfworld.environment import AlfworldEnvironment
from talentrl.environments.environment import Environment
from talentrl.environments.qa import PassageSearch, QAEnvironment
from talentrl.environments.webshop.environment import WebShopEnvironment
from talentrl.environments.webshop.shop import Shop
from talentrl.errors import InputError
from talentrl.files import sha256
from talentrl.policy.engine import GenerationEngine
from talentrl.policy.prompts import EnvironmentKind
from talentrl.retrieval.backends import build_index, open_encoder, open_index
from talentrl.retrieval.encoder import Encoder
from talentrl.retrieval.index import Document
from talentrl.retrieval.skills import SkillRetriever, skill_documents
from talentrl.rollouts.runner import Limits, RolloutRunner

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ROOT = Path()
"""The project in the current folder."""


def build_indices(
    bank: SkillBank, kind: EnvironmentKind, encoder: Encoder, settings: RetrievalSection, root: Path = ROOT
) -> None:
    """Index the bank's skills and what the task set's searches look in, in the project at `root`."""
    if kind == "webshop":
        Shop.build(read_parquet(root / layout.TASKS / "products.parquet", PRODUCT_SCHEMA)).write(root / layout.SHOP)
    if kind == "qa":
        file = root / layout.TASKS / "passages.parquet"
        passages = read_parquet(file, PASSAGE_SCHEMA)
        if passages.is_empty():
            raise InputError(f"{file}: the passage set is empty, expected at least one passage")
        build_index(root / layout.PASSAGE_INDEX, passage_documents(passages), encoder, settings)
    build_index(root / layout.SKILL_INDEX, skill_documents(bank), encoder, settings)


def passage_documents(passages: pl.DataFrame) -> list[Document]:
    """What an index of passages (`PASSAGE_SCHEMA`) holds: each is found by its title and text."""
    return [
        Document(id, text if title in text else f"{title}\n{text}", {"title": title, "text": text})
        for id, title, text in passages.iter_rows()
    ]


def open_retriever(bank: SkillBank, encoder: Encoder, settings: RetrievalSection, root: Path = ROOT) -> SkillRetriever:
    """The skill retriever of the project at `root`."""
    return SkillRetriever(open_index(root / layout.SKILL_INDEX, encoder, settings), bank, settings.prior_weight)


def environment_kind(benchmark: str) -> EnvironmentKind:
    """The kind of environment that a benchmark's tasks are worked on in."""
    kinds: dict[str, EnvironmentKind] = {"alfworld": "alfworld", "webshop": "webshop"}
    return kinds.get(benchmark, "qa")


def open_environment(params: Params, encoder: Encoder, root: Path = ROOT) -> Callable[[Task], Environment]:
    """What makes the environment of a task of the project at `root`.

    Raises:
        InputError: what the environment reads is missing or broken.
    """
    kind = environment_kind(params.tasks.benchmark)
    if kind == "alfworld":
        return partial(AlfworldEnvironment, engine=params.tasks.alfworld.engine)
    if kind == "webshop":
        return partial(WebShopEnvironment, shop=Shop.open(root / layout.SHOP))
    search = _open_search((root / layout.PASSAGE_INDEX).resolve(), params.retrieval, encoder)
    passages = root / layout.TASKS / "passages.parquet"
    if not passages.is_file():
        raise InputError(f"{passages}: no such file; run `dvc repro tasks`")
    with passages.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:12]
    return partial(QAEnvironment, search=search, data=digest)


def _open_search(folder: Path, settings: RetrievalSection, encoder: Encoder) -> PassageSearch:
    reopen = partial(_reopen_search, folder, settings)
    return PassageSearch(open_index(folder, encoder, settings), settings.passages, reopen)


@lru_cache(4)
def _reopen_search(folder: Path, settings: RetrievalSection) -> PassageSearch:
    """A search for environments that were pickled: opened once in a process, with an encoder of its own."""
    return _open_search(folder, settings, open_encoder(settings))


def open_runner(params: Params, checkpoint: Path, root: Path = ROOT) -> RolloutRunner:
    """A runner over the model in `checkpoint`, and bank, indices and environments of the project at `root`.

    Raises:
        InputError: a part is missing or broken; the message says which stage makes it.
    """
    # Imported here, since torch takes seconds and the command line shows help without it.
    import torch

    from talentrl.policy.chat import ChatFormat
    from talentrl.policy.model import load_tokenizer

    torch.set_float32_matmul_precision(params.model.matmul_precision)
    bank = SkillBank.read_json(root / layout.BANK)
    tokenizer = load_tokenizer(checkpoint)
    engine = open_engine(params, checkpoint, tokenizer)
    encoder = open_encoder(params.retrieval)
    return RolloutRunner(
        engine,
        ChatFormat(tokenizer, params.model.thinking),
        bank,
        open_retriever(bank, encoder, params.retrieval, root),
        open_environment(params, encoder, root),
        Limits(
            turns=params.rollout.turns,
            routing_tokens=params.rollout.routing_tokens,
            turn_tokens=params.rollout.turn_tokens,
            max_tokens=params.model.max_tokens,
            skills=params.retrieval.skills,
            batch=params.rollout.batch,
        ),
        checkpoint=fingerprint(checkpoint),
        encoder=encoder.fingerprint,
        kind=environment_kind(params.tasks.benchmark),
        show_admissible=params.rollout.show_admissible,
        show_strategy=params.rollout.show_strategy,
    )


def open_engine(params: Params, checkpoint: Path, tokenizer: "PreTrainedTokenizerBase") -> GenerationEngine:
    """The engine that `rollout.engine` names, for the model in `checkpoint`.

    Raises:
        InputError: the checkpoint is broken or has fewer positions than `model.max_tokens`, or the vLLM server is
            missing or does not fit it.
    """
    if params.rollout.engine == "vllm":
        from talentrl.policy.vllm_engine import VllmEngine
        from talentrl.policy.vllm_server import VllmServer

        server = VllmServer.open(params.vllm.url, params.vllm.timeout, checkpoint, params.model.max_tokens)
        return VllmEngine(
            server, checkpoint, tokenizer, params.rollout.batch, params.model.precision, layout.SCRATCH / "vllm"
        )
    from talentrl.policy.model import check_positions, load_model
    from talentrl.policy.transformers_engine import TransformersEngine

    model = load_model(checkpoint, params.model.precision)
    check_positions(model, params.model.max_tokens)
    return TransformersEngine(model, tokenizer, params.rollout.batch)


def fingerprint(checkpoint: Path) -> str:
    """A checkpoint's path and the first 12 hex digits of the SHA-256 of its weights."""
    files = sorted(checkpoint.glob("*.safetensors"))
    return f"{checkpoint}@{sha256(b''.join(file.read_bytes() for file in files))[:12]}"
