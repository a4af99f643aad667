"""WebShop's speed: `python -m benchmarks.environments_webshop FOLDER`, FOLDER with its published files.

Commands are recorded first, from all scripted talents on train goals: searches, products, options, sub-pages, going
back, buying. Then they are replayed in fresh sessions, with every outcome judged, in one thread.
"""

import pickle
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.webshop_talents import commands, read_train, sample
from talentrl.benchmarks.webshop_teacher import TALENTS
from talentrl.environments.webshop import Shop, WebShopEnvironment

GOALS = 40


def measure(folder: Path) -> dict[str, float]:
    """Steps a second (wall and processor), bytes of a session in mid-task, and times in milliseconds."""
    started = time.perf_counter()
    tasks, built = read_train(folder)
    load = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as temporary:
        built.write(Path(temporary) / "shop")
        started = time.perf_counter()
        shop = Shop.open(Path(temporary) / "shop")
        opening = time.perf_counter() - started
        goals = [task for kind in sample(tasks).values() for task in kind[:GOALS]]
        recorded = [(task, commands(task, shop, talent)[1]) for task in goals for talent in TALENTS]
        steps = sum(len(actions) for _, actions in recorded)
        started, processor = time.perf_counter(), time.process_time()
        for task, actions in recorded:
            environment = WebShopEnvironment(task, shop)
            environment.reset()
            for action in actions:
                environment.step(action)
            environment.outcome()
        wall, processor = time.perf_counter() - started, time.process_time() - processor
        sizes = []
        for task, actions in recorded:
            environment = WebShopEnvironment(task, shop)
            for action in actions[:-1]:
                environment.step(action)
            sizes.append(len(pickle.dumps(environment)))
    verbs = Counter(action.argument.partition("[")[0] for _, actions in recorded for action in actions)
    return {
        "steps": steps,
        "share of searches": verbs["search"] / steps,
        "share of purchases": len(recorded) / steps,
        "steps/s": steps / wall,
        "steps/s of processor time": steps / processor,
        "session bytes (mean)": sum(sizes) / len(sizes),
        "load and index ms": 1000 * load,
        "open shop folder ms": 1000 * opening,
    }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m benchmarks.environments_webshop FOLDER")
    for name, value in measure(Path(sys.argv[1])).items():
        print(f"{name:28} {value:,.2f}" if value < 1 else f"{name:28} {value:,.0f}")
