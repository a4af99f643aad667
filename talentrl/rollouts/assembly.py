"""Putting a project's parts together: from params and files on disk to a RolloutRunner."""

from pathlib import Path

import polars as pl

from talentrl import layout
from talentrl.bank.bank import SkillBank
from talentrl.benchmarks.taskset import PASSAGE_SCHEMA, read_parquet
from talentrl.config import Params, RetrievalSection
from talentrl.environments.qa import PassageSearch, QAEnvironment
from talentrl.errors import InputError
from talentrl.files import sha256
from talentrl.retrieval.backends import build_index, open_encoder, open_index
from talentrl.retrieval.encoder import Encoder
from talentrl.retrieval.index import Document
from talentrl.retrieval.skills import SkillRetriever, skill_documents
from talentrl.rollouts.runner import Limits, RolloutRunner


def build_indices(bank: SkillBank, tasks: Path, encoder: Encoder, settings: RetrievalSection) -> None:
    """Index the bank's skills and the passages of the task set in folder `tasks`, at their places in the layout."""
    passages = read_parquet(tasks / "passages.parquet", PASSAGE_SCHEMA)
    if passages.is_empty():
        raise InputError(f"{tasks / 'passages.parquet'}: the passage set is empty, expected at least one passage")
    build_index(layout.SKILL_INDEX, skill_documents(bank), encoder, settings)
    build_index(layout.PASSAGE_INDEX, passage_documents(passages), encoder, settings)


def passage_documents(passages: pl.DataFrame) -> list[Document]:
    """What an index of passages (`PASSAGE_SCHEMA`) holds: each is found by its title and text."""
    return [
        Document(id, text if title in text else f"{title}\n{text}", {"title": title, "text": text})
        for id, title, text in passages.iter_rows()
    ]


def open_retriever(bank: SkillBank, encoder: Encoder, settings: RetrievalSection) -> SkillRetriever:
    """The project's skill retriever."""
    return SkillRetriever(open_index(layout.SKILL_INDEX, encoder, settings), bank, settings.prior_weight)


def open_runner(params: Params, checkpoint: Path) -> RolloutRunner:
    """A runner over the model in `checkpoint`, the project's bank, indices and question-answering environment.

    Raises:
        InputError: a part is missing or broken; the message says which stage makes it.
    """
    # Imported here, since torch takes seconds and the command line shows help without it.
    import torch

    from talentrl.policy.chat import ChatFormat
    from talentrl.policy.model import load_model, load_tokenizer
    from talentrl.policy.transformers_engine import TransformersEngine

    torch.set_float32_matmul_precision(params.model.matmul_precision)
    bank = SkillBank.read_json(layout.BANK)
    tokenizer = load_tokenizer(checkpoint)
    engine = TransformersEngine(load_model(checkpoint), tokenizer, params.rollout.batch)
    encoder = open_encoder(params.retrieval)
    search = PassageSearch(open_index(layout.PASSAGE_INDEX, encoder, params.retrieval), params.retrieval.passages)
    return RolloutRunner(
        engine,
        ChatFormat(tokenizer),
        bank,
        open_retriever(bank, encoder, params.retrieval),
        lambda task: QAEnvironment(task, search),
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
    )


def fingerprint(checkpoint: Path) -> str:
    """A checkpoint's path and the first 12 hex digits of the SHA-256 of its weights."""
    files = sorted(checkpoint.glob("*.safetensors"))
    return f"{checkpoint}@{sha256(b''.join(file.read_bytes() for file in files))[:12]}"
