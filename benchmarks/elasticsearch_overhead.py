"""What our hybrid search costs beyond the client's own requests: `python -m benchmarks.elasticsearch_overhead 3000`.

Needs a server that ELASTICSEARCH_URL (and its companions) name; makes one index there and removes it. Two peers use
the official client without fusing: one sends the same two searches as we do, in one `_msearch`; the other sends the
plainest, a `match` and a `knn` of 50 hits, one after the other. Queries alternate between the three, so that all see
the same server. Prints medians and ratios.
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.retrieval import DIMENSION, NOISE
from benchmarks.retrieval_systems import FIRST_CUT, _GivenVectors
from talentrl.retrieval.connection import connect
from talentrl.retrieval.elasticsearch import ElasticsearchIndex, _searches
from talentrl.retrieval.index import Document

ALIAS, QUERIES = "talentrl-benchmark", 64


def main(size: int) -> None:
    """Index `size` short documents and time `QUERIES` queries both ways."""
    random = np.random.default_rng(0)
    words = random.zipf(1.3, size=(size, 40)) % 50_000
    vectors = random.standard_normal((size, DIMENSION), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    texts = [" ".join(f"w{word}" for word in row) for row in words]
    wanted = random.integers(size, size=QUERIES)
    noise = NOISE * random.standard_normal((QUERIES, DIMENSION), dtype=np.float32) / np.float32(DIMENSION**0.5)
    queries = vectors[wanted] + noise
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    encoder = _GivenVectors(vectors, queries)
    client = connect()
    documents = [Document(str(number), f"{text} {number}") for number, text in enumerate(texts)]
    index = ElasticsearchIndex.build(client, ALIAS, documents, encoder)
    try:
        seconds = []
        for row, place in enumerate(wanted):
            text = f"{' '.join(texts[place].split()[:6])} {row}"
            calls = (
                partial(index.search, text, 10),
                partial(_same_searches, client, text, queries[row]),
                partial(_plain_searches, client, text, queries[row].tolist()),
            )
            seconds.append([_timed(call) for call in calls])
    finally:
        for name in client.indices.get_alias(name=ALIAS):
            client.indices.delete(index=name)
    ours, same, plain = 1e3 * np.median(seconds, axis=0)
    print(
        f"{size:,} documents, ms a query: ours {ours:.1f}; the same two searches {same:.1f}, ratio {ours / same:.2f}; "
    )
    print(f"the two plainest searches {plain:.1f}, ratio {ours / plain:.2f}")


def _same_searches(client: Any, text: str, vector: Any) -> None:
    bodies = _searches(text, vector, {}, FIRST_CUT, None)
    client.msearch(searches=[part for body in bodies for part in ({"index": ALIAS}, body)])


def _plain_searches(client: Any, text: str, vector: list[float]) -> None:
    client.search(index=ALIAS, query={"match": {"text": text}}, size=FIRST_CUT, source=False)
    knn = {"field": "vector", "query_vector": vector, "k": FIRST_CUT, "num_candidates": FIRST_CUT}
    client.search(index=ALIAS, knn=knn, size=FIRST_CUT, source=False)


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3000)
