"""Rollouts of many arms at once, turn by turn in lockstep.

Token layout of an episode (DESIGN §6):

    system, menu, question   prompt
    <talent>ID</talent>      ROUTING     sampled, or set by the intervention (then masked)
    strategy, skills         context     masked; then the environment's first observation, if it has one
    <search>…</search>       EXECUTION   sampled
    <information>…           context     masked
    <answer>…</answer>       EXECUTION   sampled

Conversations grow by appending ids; what was sampled is what is trained on. An exception in an environment, or a turn
that the engine lost, ends that rollout as a recorded failure, not the run.
"""

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace

from tqdm import tqdm

from talentrl.bank.bank import SkillBank
from talentrl.benchmarks.taskset import Task
from talentrl.environments.environment import Environment
from talentrl.errors import InputError
from talentrl.policy.chat import ChatFormat
from talentrl.policy.engine import Generation, GenerationEngine, Sampling
from talentrl.policy.parser import ACTION_STOP, ROUTING_STOP, parse_action, parse_talent
from talentrl.policy.prompts import EnvironmentKind, observation, routing_turn, system_prompt
from talentrl.retrieval.skills import SkillRetriever
from talentrl.rollouts.episode import Episode, SkillScore, StopReason, Turn
from talentrl.rollouts.interventions import Arm
from talentrl.timing import Stopwatch


@dataclass(frozen=True)
class Limits:
    """Budgets that every arm shares."""

    turns: int
    routing_tokens: int
    turn_tokens: int
    max_tokens: int
    skills: int
    batch: int


@dataclass(frozen=True)
class Routing:
    """A routing turn as it stands in the conversation."""

    talent: str | None
    """None when the turn named no talent of the bank, or the intervention is `null`."""
    token_ids: list[int]
    logprobs: list[float]
    sampled: bool
    """Whether the policy chose it; if not, its tokens are masked."""
    valid: bool = True

    @property
    def probability(self) -> float | None:
        """Probability of the turn under the policy, if it was scored."""
        return math.exp(sum(self.logprobs)) if self.logprobs else None


@dataclass(frozen=True)
class RolloutRequest:
    """One rollout to make: an arm, its routing turn, the rollout's number in the arm, and its sampling seed."""

    arm: Arm
    routing: Routing
    rollout: int
    seed: int
    menu: tuple[str, ...] = ()
    """Order of the talents in the menu; the bank's order when empty."""


class RolloutRunner:
    """Makes episodes with one policy, bank and kind of environment."""

    def __init__(
        self,
        engine: GenerationEngine,
        chat: ChatFormat,
        bank: SkillBank,
        retriever: SkillRetriever,
        environment: Callable[[Task], Environment],
        limits: Limits,
        checkpoint: str,
        encoder: str,
        kind: EnvironmentKind = "qa",
        show_admissible: bool = False,
        show_strategy: bool = True,
    ) -> None:
        """Hold what all rollouts share; `checkpoint` and `encoder` are fingerprints for the records.

        `kind` is that of the environments, which the system prompt explains; with `show_admissible`, observations
        end with the commands that are valid, where the environment knows them; without `show_strategy`, no talent
        context holds a strategy.

        Raises:
            InputError: the talent menu leaves no room for a question and a turn.
        """
        self.engine = engine
        self.chat = chat
        self.bank = bank
        self.retriever = retriever
        self.environment = environment
        self.limits = limits
        self._checkpoint = checkpoint
        self.encoder = encoder
        self._kind = kind
        self.show_admissible = show_admissible
        self.show_strategy = show_strategy
        self.stopwatch = Stopwatch()
        """Seconds of generation, retrieval of skills, and the environment with its searches."""
        self._system = system_prompt(list(bank.talents.values()), kind)
        menu, room = len(chat.prompt(self._system, "")), limits.routing_tokens + limits.turn_tokens
        if menu + room > limits.max_tokens:
            raise InputError(
                f"model.max_tokens: the talent menu of {len(bank.talents)} talents takes {menu} tokens and a "
                f"conversation needs {room} more, found a limit of {limits.max_tokens}"
            )

    def prompt(self, task: Task, menu: Sequence[str] = ()) -> list[int]:
        """Ids of the conversation up to the routing turn, with the talents in the order `menu` (or the bank's)."""
        chosen = [self.bank.talents[talent] for talent in menu]
        system = system_prompt(chosen, self._kind) if menu else self._system
        return self.chat.prompt(system, task.instruction)

    def route(self, tasks: Sequence[Task], seeds: Sequence[int], temperature: float = 0.0) -> list[Routing]:
        """Let the policy write its routing turn for each task.

        A task whose prompt leaves no room for it gets the null talent, not sampled; its rollout ends with
        `token_limit` before the first turn.
        """
        sampling = Sampling(self.limits.routing_tokens, ROUTING_STOP, temperature)
        prompts = [self.prompt(task) for task in tasks]
        room = self.limits.max_tokens - self.limits.routing_tokens
        fitting = [(prompt, seed) for prompt, seed in zip(prompts, seeds, strict=True) if len(prompt) <= room]
        turns = iter(
            self.engine.generate([prompt for prompt, _ in fitting], sampling, [seed for _, seed in fitting])
            if fitting
            else []
        )
        overflown = replace(self.set_routing(None), valid=False)
        return [self._read_routing(next(turns)) if len(prompt) <= room else overflown for prompt in prompts]

    def score_talents(self, tasks: Sequence[Task]) -> list[dict[str, Routing]]:
        """For each task the routing turn of every talent, with its log-probabilities under the policy."""
        tags = {talent: self.chat.encode(routing_turn(talent)) for talent in self.bank.talents}
        prompts = [self.prompt(task) for task in tasks for _ in tags]
        with self.stopwatch.timed("generation"):
            scores = iter(self.engine.score(prompts, list(tags.values()) * len(tasks)))
        return [
            {talent: Routing(talent, ids, next(scores), sampled=True) for talent, ids in tags.items()} for _ in tasks
        ]

    def set_routing(self, talent: str | None) -> Routing:
        """The routing turn of an intervention that sets the talent itself."""
        return Routing(talent, self.chat.encode(routing_turn(talent)), [], sampled=False)

    def run(
        self,
        requests: Sequence[RolloutRequest],
        temperature: float,
        progress: str = "",
        on_turn: Callable[[Turn], None] | None = None,
    ) -> list[Episode]:
        """Make one episode a request, in the order of `requests`.

        Args:
            requests: rollouts to make; siblings next to each other share the most work.
            temperature: 0 is greedy.
            progress: label of a progress bar; none when empty.
            on_turn: called with each turn as it ends.
        """
        episodes: list[Episode] = []
        with tqdm(total=len(requests), desc=progress, unit="rollout", disable=not progress) as bar:
            for start in range(0, len(requests), self.limits.batch):
                batch = requests[start : start + self.limits.batch]
                episodes += self._run_batch(batch, temperature, on_turn)
                bar.update(len(batch))
        return episodes

    def play(self, request: RolloutRequest, script: Callable[[str], Generator[str, str, None]]) -> Episode:
        """Make one episode whose execution turns come from `script` instead of the policy.

        `script` is given the first observation; what it returns yields the text of a turn and is sent the
        observation. Token layout, records and the number of
        turns are those of a sampled rollout.
        """
        began = time.perf_counter()
        rollout = _Rollout(request, self)
        turns = script(rollout.opening)
        with suppress(StopIteration):  # a script may end without an answer
            for turn in range(self.limits.turns):
                if not rollout.begin_turn():
                    break
                text = turns.send(rollout.observed) if turn else next(turns)
                ids = self.chat.encode(text)
                rollout.act(Generation(ids, [0.0] * len(ids), stopped=True))
        rollout.finish(time.perf_counter() - began)
        return rollout.episode

    def _run_batch(
        self, requests: Sequence[RolloutRequest], temperature: float, on_turn: Callable[[Turn], None] | None
    ) -> list[Episode]:
        began = time.perf_counter()
        rollouts = [_Rollout(request, self, on_turn) for request in requests]
        sampling = Sampling(self.limits.turn_tokens, ACTION_STOP, temperature)
        for turn in range(self.limits.turns):
            running = [rollout for rollout in rollouts if rollout.begin_turn()]
            if not running:
                break
            with self.stopwatch.timed("generation"):
                generations = self.engine.generate(
                    [rollout.episode.token_ids for rollout in running],
                    sampling,
                    [rollout.turn_seed(turn) for rollout in running],
                )
            for rollout, generation in zip(running, generations, strict=True):
                rollout.act(generation)
        for rollout in rollouts:
            rollout.finish((time.perf_counter() - began) / len(rollouts))
        return [rollout.episode for rollout in rollouts]

    def _read_routing(self, turn: Generation) -> Routing:
        if turn.failure:
            raise InputError(f"rollout.engine: a routing turn failed: {turn.failure}")
        talent = parse_talent(self.chat.decode(turn.token_ids))
        valid = talent in self.bank.talents
        return Routing(talent if valid else None, turn.token_ids, turn.logprobs, sampled=True, valid=valid)

    def new_episode(self, request: RolloutRequest) -> Episode:
        """An episode that has only its ids and provenance."""
        arm, task = request.arm, request.arm.task
        return Episode(
            episode_id=f"{task.task_id}/{arm.arm_id}/{request.rollout}",
            task_id=task.task_id,
            benchmark=task.benchmark,
            split=task.split,
            instruction=task.instruction,
            answers=list(task.answers),
            arm_id=arm.arm_id,
            intervention=arm.intervention,
            talent=arm.talent,
            rollout=request.rollout,
            seed=request.seed,
            routing_valid=request.routing.valid,
            routing_probability=request.routing.probability,
            checkpoint=self._checkpoint,
            bank_digest=self.bank.digest,
            encoder=self.encoder,
            task_type=task.task_type,
        )


class _Rollout:
    """One rollout under way."""

    def __init__(
        self, request: RolloutRequest, runner: RolloutRunner, on_turn: Callable[[Turn], None] | None = None
    ) -> None:
        self._runner = runner
        self._on_turn = on_turn
        self.episode = runner.new_episode(request)
        self._running = True
        self.opening = self.observed = ""
        with self._recorded():
            self._open(request)

    def begin_turn(self) -> bool:
        """Whether the rollout takes another turn; ends it when the turn would not fit."""
        limits = self._runner.limits
        if self._running and len(self.episode.token_ids) + limits.turn_tokens > limits.max_tokens:
            self._end(StopReason.TOKEN_LIMIT)
        return self._running

    def turn_seed(self, turn: int) -> int:
        """Seed of a turn: the same for rollout m of every arm, so that arms are sampled with paired seeds."""
        return self.episode.seed * 1009 + turn

    def act(self, generation: Generation) -> None:
        """Append a sampled turn, take its action, append the observation."""
        if generation.failure:
            self._fail(generation.failure)
            return
        chat, episode = self._runner.chat, self.episode
        text = chat.decode(generation.token_ids)
        self._append(generation.token_ids, generation.logprobs, "action")
        self._say("assistant", text)
        action = parse_action(text)
        with self._recorded():
            with self._runner.stopwatch.timed("environment"):
                step = self._environment.step(action)
            episode.invalid_actions += not step.valid
            episode.searches += action is not None and action.kind == "search"
            if step.done:
                self._end(StopReason.ANSWERED)
            else:
                self.observed = step.observation
                shown = self._shown(step.observation)
                self._say("user", shown)
                self._append(chat.turn(shown, generation.token_ids))

    def finish(self, seconds: float) -> None:
        """Judge the episode."""
        self.episode.seconds = seconds
        if self.episode.stop_reason != StopReason.ERROR:
            with self._recorded():
                outcome = self._environment.outcome()
                self.episode.value = outcome.value
                self.episode.exact_match = outcome.metrics.get("exact_match")
                self.episode.f1 = outcome.metrics.get("f1")
                self.episode.success = outcome.metrics.get("success")

    def _open(self, request: RolloutRequest) -> None:
        runner, episode = self._runner, self.episode
        routing, arm = request.routing, request.arm
        prompt = runner.prompt(arm.task, request.menu)
        episode.prompt_tokens = len(prompt)
        self._say("user", arm.task.instruction)
        self._append(prompt)
        self._say("assistant", runner.chat.decode(routing.token_ids))
        self._append(routing.token_ids, routing.logprobs, "routing" if routing.sampled else None)
        # What can fail comes after the routing turn, so that a failed episode still holds what was sampled.
        with runner.stopwatch.timed("retrieval"):
            context, hits = arm.context(runner.bank, runner.retriever, runner.limits.skills, runner.show_strategy)
        episode.skills = [SkillScore(**asdict(hit)) for hit in hits]
        with runner.stopwatch.timed("environment"):
            self._environment = runner.environment(arm.task)
            episode.environment = self._environment.version
            self.opening = self._environment.reset()
        if self.opening:
            context = f"{context}\n\n{self._shown(self.opening)}"
        self._say("user", context)
        self._append(runner.chat.turn(context, routing.token_ids))

    def _shown(self, text: str) -> str:
        return observation(text, self._environment.admissible() if self._runner.show_admissible else None)

    def _say(self, role: str, text: str) -> None:
        self.episode.turns.append(Turn(role, text))
        if self._on_turn:
            self._on_turn(self.episode.turns[-1])

    def _append(self, ids: list[int], logprobs: list[float] | None = None, sampled: str | None = None) -> None:
        """Append tokens; `sampled` says which mask they belong to, None for neither."""
        episode = self.episode
        episode.token_ids = episode.token_ids + ids
        episode.logprobs = episode.logprobs + (logprobs or [0.0] * len(ids))
        episode.routing_mask = episode.routing_mask + [sampled == "routing"] * len(ids)
        episode.action_mask = episode.action_mask + [sampled == "action"] * len(ids)
        episode.sampled_tokens += len(ids) if sampled else 0

    def _end(self, reason: StopReason) -> None:
        self.episode.stop_reason = reason
        self._running = False

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """Turn an exception of an environment into a failed episode; an InputError is the user's to fix."""
        try:
            yield
        except InputError:
            raise
        except Exception as error:
            self._fail(f"{type(error).__name__}: {error}")

    def _fail(self, error: str) -> None:
        self.episode.error = error
        self.episode.value = None
        self._end(StopReason.ERROR)
