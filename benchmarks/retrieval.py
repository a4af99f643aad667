"""Hybrid search over short documents, ours beside its peers: `python -m benchmarks.retrieval 10000 100000`.

The collection is drawn anew from a fixed seed: words by Zipf's law, vectors of 384 dimensions in clusters. A query
takes four words of one document, two others, and that document's vector with noise. A system builds its index in one
process and searches in another; memory is what the process holds at its peak beyond the texts and vectors that it was
given (Linux only). Recall compares the ten nearest by vector alone with the exact ten. Prints one table a size, as
Markdown. The peers: `pip install -e ".[bench]"`.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.retrieval_systems import SYSTEMS, Vectors

DIMENSION, CENTRES, NOISE = 384, 2000, 0.8
WORDS, LENGTH = 50_000, 40
QUERIES, K = 256, 10


def make_collection(folder: Path, size: int) -> None:
    """Write the documents, the queries and the queries' exact neighbours."""
    random = np.random.default_rng(0)
    frequency = 1 / np.arange(1, WORDS + 1)
    words = random.choice(WORDS, size=(size, LENGTH), p=frequency / frequency.sum())
    (folder / "texts.txt").write_text("\n".join(" ".join(f"w{word}" for word in row) for row in words))
    centres = random.standard_normal((CENTRES, DIMENSION), dtype=np.float32)
    vectors = centres[random.integers(CENTRES, size=size)]
    vectors += NOISE * random.standard_normal(vectors.shape, dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    np.save(folder / "vectors.npy", vectors)
    wanted = random.integers(size, size=QUERIES)
    noise = random.standard_normal((QUERIES, DIMENSION), dtype=np.float32) / np.float32(2 * DIMENSION**0.5)
    queries = vectors[wanted] + noise
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    np.save(folder / "queries.npy", queries)
    cosines = queries @ vectors.T
    np.save(folder / "exact.npy", np.argsort(-cosines, axis=1)[:, :K])
    others = random.choice(WORDS, size=(QUERIES, 2), p=frequency / frequency.sum())
    chosen = [[*random.choice(words[row], 4), *other] for row, other in zip(wanted, others, strict=True)]
    (folder / "queries.txt").write_text("\n".join(" ".join(f"w{word}" for word in row) for row in chosen))


def build(name: str, collection: Path, index: Path) -> dict[str, float]:
    """Build in this process; seconds, disk and memory in MB."""
    texts = (collection / "texts.txt").read_text().splitlines()
    vectors: Vectors = np.load(collection / "vectors.npy")
    before, began = _start(), time.perf_counter()
    SYSTEMS[name].build(index, texts, vectors)
    seconds = time.perf_counter() - began
    disk = sum(file.stat().st_size for file in index.rglob("*") if file.is_file()) / 1e6
    return {"build s": seconds, "disk MB": disk, "build memory MB": _peak() - before}


def search(name: str, collection: Path, index: Path) -> dict[str, float]:
    """Search in this process: milliseconds a query, memory in MB, recall."""
    queries: Vectors = np.load(collection / "queries.npy")
    texts = (collection / "queries.txt").read_text().splitlines()
    rows = list(range(QUERIES))
    before = _start()
    system = SYSTEMS[name](index, queries)
    system.search(texts[:8], rows[:8], K)
    single = np.array([_milliseconds(lambda row=row: system.search([texts[row]], [row], K)) for row in rows])
    batch = min(_milliseconds(lambda: system.search(texts, rows, K)) for _ in range(3)) / QUERIES
    memory = _peak() - before
    exact = np.load(collection / "exact.npy")
    recall = np.mean([len({*system.near(row, K)} & {*exact[row].tolist()}) / K for row in rows])
    return {
        "p50 ms": float(np.median(single)),
        "p95 ms": float(np.quantile(single, 0.95)),
        "batch of 256, ms a query": batch,
        "batch gain": float(single.mean()) / batch,
        "search memory MB": memory,
        "recall@10": float(recall),
    }


def _milliseconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - began)


def _start() -> float:
    """Forget the process's peak so far; MB that it holds now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> float:
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1e3


def compare(size: int) -> None:
    """Run every system on a collection of `size` documents and print the table."""
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        collection = Path(temporary)
        make_collection(collection, size)
        for number, name in enumerate(SYSTEMS):
            index = collection / f"index{number}"
            index.mkdir()
            results[name] = {}
            for part in ("build", "search"):
                command = [sys.executable, "-m", "benchmarks.retrieval", part, name, str(collection), str(index)]
                output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                results[name] |= json.loads(output.splitlines()[-1])
    columns = list(results["ours, embedded"])
    print(f"\n{size:,} documents\n\n| | {' | '.join(columns)} | p50 / ours |")
    print("| --- " * (len(columns) + 2) + "|")
    ours = results["ours, embedded"]["p50 ms"]
    for name, row in results.items():
        cells = [f"{row[column]:.3g}" if row[column] < 100 else f"{row[column]:,.0f}" for column in columns]
        print(f"| {name} | {' | '.join(cells)} | {row['p50 ms'] / ours:.2f} |", flush=True)


def main() -> None:
    """The sizes of the command line; or, called by itself, one part of one system."""
    part, *rest = sys.argv[1:] or ["10000", "100000"]
    if part in ("build", "search"):
        name, collection, index = rest
        print(json.dumps({"build": build, "search": search}[part](name, Path(collection), Path(index))))
    else:
        for size in (part, *rest):
            compare(int(size))


if __name__ == "__main__":
    main()
