"""What past tasks said: their features, arms and mean returns, and what the nearest of them say about a new task."""

import numpy as np

NEIGHBOURS = 16


class Memory:
    """The last `size` tasks of each world; axes as in `world`, P past tasks."""

    def __init__(self, worlds: int, features: int, arms: int, talents: int, size: int = 240) -> None:
        self.features_WPF = np.zeros((worlds, size, features))
        self.arms_WPA = np.zeros((worlds, size, arms), dtype=int)
        self.means_WPA = np.zeros((worlds, size, arms))
        self.talents, self.added = talents, 0

    @property
    def filled(self) -> int:
        """Number of tasks held."""
        return min(self.added, self.features_WPF.shape[1])

    def add(self, features_WTF: np.ndarray, arms_WTA: np.ndarray, means_WTA: np.ndarray) -> None:
        """Remember the tasks of a step; the oldest are forgotten."""
        places = (self.added + np.arange(features_WTF.shape[1])) % self.features_WPF.shape[1]
        self.features_WPF[:, places], self.arms_WPA[:, places] = features_WTF, arms_WTA
        self.means_WPA[:, places] = means_WTA
        self.added += len(places)

    def sample(self, tasks: int, draw: np.random.Generator) -> tuple[np.ndarray, ...]:
        """Features, arms and means of `tasks` past tasks of each world, drawn at random."""
        worlds = len(self.features_WPF)
        rows, places = np.arange(worlds)[:, None], draw.integers(0, self.filled, (worlds, tasks))
        return self.features_WPF[rows, places], self.arms_WPA[rows, places], self.means_WPA[rows, places]

    def nearest(self, features_WTF: np.ndarray, contrast: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Sum over the arms of the nearest past tasks of the mean return, and the number of arms, by talent (W, T, K).

        With `contrast`, of the mean return less that of its task.
        """
        past = self.features_WPF[:, : self.filled]
        distance = (past**2).sum(-1)[:, None] - 2 * np.einsum("wtf,wpf->wtp", features_WTF, past)
        count = min(NEIGHBOURS, self.filled)
        near_WTn = np.argpartition(distance, count - 1, -1)[..., :count]
        rows = np.arange(len(past))[:, None, None]
        arms, means = self.arms_WPA[rows, near_WTn], self.means_WPA[rows, near_WTn]
        if contrast:
            means = means - means.mean(-1, keepdims=True)
        hot = np.eye(self.talents)[arms]
        return np.einsum("wtnak,wtna->wtk", hot, means), hot.sum((2, 3))

    def mean_return(self, features_WTF: np.ndarray) -> np.ndarray:
        """Mean return of the nearest past tasks (W, T): a regression of the return on the features."""
        sums, counts = self.nearest(features_WTF)
        return sums.sum(-1) / np.maximum(counts.sum(-1), 1)
