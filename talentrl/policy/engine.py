"""The contract of generation engines: token ids in, token ids and log-probabilities out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True)
class Sampling:
    """How the next turn is decoded."""

    max_tokens: int
    stop: tuple[str, ...]
    """Closing tags; a turn ends with the token that completes one."""
    temperature: float = 0.0
    """0 is greedy."""


@dataclass(frozen=True)
class Generation:
    """One sampled turn."""

    token_ids: list[int]
    logprobs: list[float]
    """Log-probability of each token under the distribution that it was drawn from: the model's at the sampling
    temperature, or at temperature 1 when greedy. Aligned with `token_ids`."""
    stopped: bool
    """Whether a closing tag or the end token came before the token limit."""
    failure: str = ""
    """Why there is no turn: a server refused or lost it."""


class GenerationEngine(Protocol):
    """Samples turns for a batch of conversations.

    The result for one prompt depends on its ids, its seed and the model's weights; not on its batch, beyond
    rounding of the back end's arithmetic.
    """

    def generate(self, prompts: Sequence[list[int]], sampling: Sampling, seeds: Sequence[int]) -> list[Generation]:
        """One turn for each prompt; `seeds` are per prompt.

        An exception that is raised meanwhile, such as Ctrl-C, ends the call and leaves the engine usable.
        """
        ...

    def score(self, prompts: Sequence[list[int]], continuations: Sequence[list[int]]) -> list[list[float]]:
        """Log-probabilities of the tokens of `continuations[i]` after `prompts[i]`."""
        ...

    def reset(self) -> None:
        """Forget what was kept between calls; called whenever the model's weights have changed."""
        ...


class TrainableEngine(GenerationEngine, Protocol):
    """A `GenerationEngine` over a model that is trained in this process."""

    tokenizer: "PreTrainedTokenizerBase"
    model: "PreTrainedModel"
    """May be replaced by itself with adapters; after a change of its weights, `reset` is called."""
    sync_seconds: float
    """Spent so far on handing weights over to another process, inside other calls."""
