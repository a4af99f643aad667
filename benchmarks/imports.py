"""Import time of the library beside the bare interpreter: `python -m benchmarks.imports`."""

import statistics
import subprocess
import sys
import time

RUNS = 10


def seconds(code: str) -> float:
    """Median wall time of a fresh interpreter that runs `code`."""
    times = []
    for _ in range(RUNS):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main() -> None:
    """Print the medians and their difference."""
    bare = seconds("pass")
    for module in ("talentrl", "talentrl.cli"):
        loaded = seconds(f"import {module}")
        print(f"import {module}: {loaded - bare:.3f} s above a bare interpreter ({loaded / bare:.1f}x of {bare:.3f} s)")


if __name__ == "__main__":
    main()
