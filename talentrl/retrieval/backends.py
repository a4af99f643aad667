"""The one place that knows which back end `retrieval.backend` names."""

import json
from collections.abc import Iterable
from dataclasses import astuple
from pathlib import Path

from talentrl.config import RetrievalSection
from talentrl.errors import InputError
from talentrl.files import sha256, write_text
from talentrl.retrieval.encoder import Encoder, load_encoder
from talentrl.retrieval.index import Document, HybridIndex
from talentrl.retrieval.scoring import Scoring

_REMOTE = "elasticsearch.json"


def open_encoder(settings: RetrievalSection) -> Encoder:
    """The encoder of the project's settings. Raises InputError as `load_encoder` does."""
    return load_encoder(settings.encoder, settings.query_prefix, settings.passage_prefix)


def build_index(folder: Path, documents: Iterable[Document], encoder: Encoder, settings: RetrievalSection) -> None:
    """Index `documents` in `folder`, or on the Elasticsearch server, with a note in `folder` of what was built there.

    Raises:
        InputError: a document cannot be indexed, or the server fails.
    """
    documents = list(documents)
    if settings.backend == "embedded":
        from talentrl.retrieval.embedded import EmbeddedIndex

        EmbeddedIndex.build(folder, documents, encoder).close()
        return
    from talentrl.retrieval.connection import connect
    from talentrl.retrieval.elasticsearch import ElasticsearchIndex

    digest = sha256(json.dumps([astuple(document) for document in documents]).encode())
    ElasticsearchIndex.build(
        connect(), _alias(folder, settings), documents, encoder, digest=digest, analyzer=settings.analyzer
    )
    write_text(folder / _REMOTE, json.dumps({"alias": _alias(folder, settings), "digest": digest}) + "\n")


def open_index(folder: Path, encoder: Encoder, settings: RetrievalSection) -> HybridIndex:
    """Open what `build_index` made for `folder`, with the project's retrieval settings.

    Raises:
        InputError: it is missing, or made from other documents or by another encoder; or the server fails.
    """
    scoring = Scoring(settings.alpha, settings.fusion, settings.candidates)
    if settings.backend == "embedded":
        from talentrl.retrieval.embedded import EmbeddedIndex

        return EmbeddedIndex(folder, encoder, scoring)
    from talentrl.retrieval.connection import connect
    from talentrl.retrieval.elasticsearch import ElasticsearchIndex

    note = folder / _REMOTE
    if not note.is_file():
        raise InputError(f"{note}: no such file, so nothing was indexed with this back end; run `dvc repro index`")
    digest = json.loads(note.read_text(encoding="utf-8"))["digest"]
    return ElasticsearchIndex(connect(), _alias(folder, settings), encoder, scoring, digest)


def _alias(folder: Path, settings: RetrievalSection) -> str:
    return f"{settings.index_prefix}-{folder.name}"
