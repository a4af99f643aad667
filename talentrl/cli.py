"""The `talentrl` command, run in a project's root: look at its bank, its retrieval, its routing and its agent.

Results go to stdout; progress, warnings and errors go to stderr. Bad input ends a command with one line a problem
and exit code 2. What is slow to import is imported inside the command that needs it.
"""

import difflib
import json
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from talentrl import __version__, layout
from talentrl.errors import InputError
from talentrl.offline import set_environment

if TYPE_CHECKING:
    from talentrl.bank.bank import SkillBank
    from talentrl.config import Params
    from talentrl.rollouts.runner import RolloutRunner


class _Commands(TyperGroup):
    """Commands that report an InputError as a user's error."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            typer.echo(f"Error: {error}", err=True)
            raise typer.Exit(2) from None


app = typer.Typer(
    cls=_Commands,
    help="Choose a talent, retrieve the skills that fit it, act: inspect and run what `make repro` trained.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
bank_app = typer.Typer(help="Check and show a skill bank.", no_args_is_help=True)
app.add_typer(bank_app, name="bank")


retrieval_app = typer.Typer(help="Measure retrieval.", no_args_is_help=True)
app.add_typer(retrieval_app, name="retrieval")
track_app = typer.Typer(help="Look after the records of runs.", no_args_is_help=True)
app.add_typer(track_app, name="track")


def _checked_text(param: typer.CallbackParam, given: str) -> str:
    text = given.strip()
    # An argument that is not in the terminal's encoding reaches Python with surrogates in it.
    if not text or any("\ud800" <= character <= "\udfff" for character in text):
        raise InputError(f"{param.metavar}: found {given!r}, expected words in valid text")
    return text


def _checked_count(param: typer.CallbackParam, given: int | None) -> int | None:
    if given is not None and given < 1:
        raise InputError(f"{param.opts[0]}: found {given}, expected at least 1")
    return given


Question = Annotated[str, typer.Argument(metavar="QUESTION", help="The question, in quotes.", callback=_checked_text)]
TalentOption = Annotated[
    str | None, typer.Option("--talent", metavar="ID", help="Use this talent, whatever the policy chooses.")
]
CheckpointOption = Annotated[
    Path | None,
    typer.Option("--checkpoint", metavar="FOLDER", exists=True, file_okay=False, help="Model folder; else the newest."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def main() -> None:
    """Entry point of the `talentrl` command."""
    app(prog_name="talentrl")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"talentrl {__version__}")
        raise typer.Exit


@app.callback()
def _start(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    set_environment()


@bank_app.command("lint")
def bank_lint(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", help="Bank folder; else bank.path of params.yaml.")
    ] = None,
) -> None:
    """Check a skill bank as a whole: every problem with its file and line."""
    from talentrl.bank.bank import SkillBank
    from talentrl.bank.frontmatter import BankError

    folder = folder or _bank_folder()
    try:
        bank = SkillBank.load(folder)
    except BankError as error:
        typer.echo("\n".join(error.problems), err=True)
        raise typer.Exit(2) from None
    counts = f"{len(bank.talents)} talents, {len(bank.skills)} skills, {len(bank.warnings)} warnings"
    typer.echo(f"{folder}: {counts}, digest {bank.digest}")
    for warning in bank.warnings:
        typer.echo(f"warning: {warning}", err=True)


@bank_app.command("import")
def bank_import(
    file: Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="SkillRL's JSON.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write the bank; must not exist.")],
) -> None:
    """Write a bank from SkillRL's JSON: one talent a category, mistakes as skills; says what was read and left out."""
    from talentrl.bank.skillrl import import_skillrl

    imported = import_skillrl(file, folder)
    typer.echo(f"{folder}: {imported.summary()}")
    for note in imported.notes:
        typer.echo(f"note: {note}", err=True)


@bank_app.command("show")
def bank_show(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[FOLDER|TALENT|SKILL]", help="Bank folder, or an id of the project's bank."),
    ] = None,
) -> None:
    """Show a bank's talents with their associations and its skills, or one talent or skill in full."""
    from talentrl import display
    from talentrl.bank.bank import SkillBank

    console = _console()
    is_folder = name is not None and (Path(name).is_dir() or "/" in name)
    folder = Path(name) if name and is_folder else _bank_folder()
    bank = SkillBank.load(folder)
    if name is None or is_folder:
        display.show_bank(console, bank)
        return
    if name not in bank.talents and name not in bank.skills:
        raise _unknown("talent or skill", name, [*bank.talents, *bank.skills], folder)
    if name in bank.talents:
        display.show_talent(console, bank, name)
    if name in bank.skills:
        display.show_skill(console, bank, name)


@app.command()
def route(
    question: Question,
    talent: TalentOption = None,
    checkpoint: CheckpointOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show each talent's probability for a question, and the skills retrieved under the likeliest one."""
    console = _console(stderr=as_json)
    checkpoint = checkpoint or layout.newest_checkpoint()
    runner = _open_runner(checkpoint, talent, console)
    from talentrl import agent, display

    task = agent.question_task(question)
    with console.status("Scoring the talents"):
        scores = runner.score_talents([task])[0]
        probabilities = {id: routing.probability or 0.0 for id, routing in scores.items()}
        ranked = dict(sorted(probabilities.items(), key=lambda item: -item[1]))
        chosen = talent or next(iter(ranked))
        hits = runner.retriever.retrieve(task.instruction, chosen, runner.limits.skills)
    if as_json:
        talents = [{"id": id, "probability": probability} for id, probability in ranked.items()]
        record = {"question": task.instruction, "checkpoint": str(checkpoint), "talents": talents}
        _print_json({**record, "talent": chosen, "skills": [asdict(hit) for hit in hits]})
        return
    display.show_probabilities(console, runner.bank, ranked, str(checkpoint))
    texts = {hit.id: runner.bank.skills[hit.id].description for hit in hits}
    display.show_hits(console, f"Skills under {chosen}", hits, texts, runner.retriever.prior_weight)


@app.command()
def ask(
    question: Question,
    talent: TalentOption = None,
    checkpoint: CheckpointOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let the agent answer a question, and show its steps as they end."""
    console = _console(stderr=as_json)
    checkpoint = checkpoint or layout.newest_checkpoint()
    runner = _open_runner(checkpoint, talent, console)
    from talentrl import agent, display

    def tell(label: str, text: str) -> None:
        if not as_json:
            display.show_turn(console, label, text)

    task = agent.question_task(question)
    with console.status("Working"):
        episode = agent.ask_agent(runner, task, talent, lambda turn: tell(turn.role, turn.text))
    if as_json:
        _print_json(agent.episode_record(episode))
    else:
        if not episode.routing_valid:
            tell("", "(not a talent of the bank: no strategy, flat retrieval)")
        none = f"(none: {episode.error or episode.stop_reason})"
        tell("answer", agent.given_answer(episode) or none)
        tell("", f"{checkpoint}, {episode.seconds:.1f} s")
    if episode.error:
        raise typer.Exit(1)


@app.command()
def evaluate(
    benchmark: Annotated[str, typer.Option("--benchmark", metavar="NAME", help="One of tasks.benchmark.")],
    path: Annotated[Path | None, typer.Option("--path", metavar="PATH", help="Its file or folder: tasks.path.")] = None,
    corpus: Annotated[
        Path | None, typer.Option("--corpus", metavar="FILE", help="Passages to search, if not its own: tasks.corpus.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option("--split", metavar="NAME", help="Split to answer; else the one that the field reports on."),
    ] = None,
    tasks: Annotated[
        int | None,
        typer.Option("--tasks", metavar="N", help="Its first N tasks; else evaluate.tasks.", callback=_checked_count),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", help="Read only its first N items.", callback=_checked_count),
    ] = None,
    systems: Annotated[
        list[str] | None,
        typer.Option("--system", metavar="NAME", help="zero_shot, flat, random or oracle; repeat for more."),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any key of params.yaml; repeat for more.")
    ] = None,
    checkpoint: Annotated[
        Path, typer.Option("--checkpoint", metavar="FOLDER", file_okay=False, help="Model folder.")
    ] = layout.MODEL,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FOLDER", help="Where it writes; else benchmark_runs/NAME.", file_okay=False),
    ] = None,
) -> None:
    """Answer a benchmark with one model, apart from the pipeline: its figures with intervals, and all episodes.

    Settings are those of params.yaml with the values of profiles/BENCHMARK.yaml, if there is one, then of --set. All
    systems use the same model: `zero_shot` routes for itself, `flat` has no talent.
    """
    from talentrl import display
    from talentrl.benchmarks.qa_cards import CARDS

    if split is None and benchmark in CARDS:
        split = CARDS[benchmark].split
    options: dict[str, dict[str, Any]] = {
        "tasks": {"benchmark": benchmark, "path": path and str(path), "corpus": corpus and str(corpus), "limit": limit},
        "evaluate": {"split": split, "tasks": tasks, "systems": systems or ["zero_shot", "flat"]},
    }
    params = _benchmark_params(benchmark, settings or [], options)
    root = output or layout.BENCHMARKS / benchmark
    from talentrl.evaluation.benchmark import evaluate_benchmark
    from talentrl.evaluation.scores import score_table
    from talentrl.files import write_text

    run = evaluate_benchmark(params, checkpoint, params.evaluate.systems, root)
    scores = score_table(run.episodes)
    display.show_scores(_console(), f"{benchmark}, split {params.evaluate.split}, {checkpoint}", scores)
    from talentrl.provenance import provenance

    record: dict[str, Any] = {"params": params.model_dump(), "checkpoint": str(checkpoint), **provenance()}
    record["card"] = run.card
    if run.ceiling is not None:
        record["ceiling"] = run.ceiling.to_dicts()
        for split, questions, _, _, pooled in run.ceiling.iter_rows():
            typer.echo(f"Passages can answer {pooled} of the {questions} questions of split {split}.")
    write_text(root / "scores.json", json.dumps({**record, "scores": scores.to_dicts()}, indent=1) + "\n")
    typer.echo(f"Episodes and figures: {root}", err=True)


@app.command("averages")
def show_averages(
    metric: Annotated[str, typer.Option("--metric", metavar="NAME", help="exact_match or f1.")] = "exact_match",
) -> None:
    """Macro and micro averages of the question-answering sets that `talentrl evaluate` answered."""
    from talentrl import display
    from talentrl.evaluation.benchmark import averages

    display.show_averages(_console(), metric, averages(layout.BENCHMARKS, metric))


@app.command()
def search(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to look for, in quotes.", callback=_checked_text)],
    talent: Annotated[
        str | None, typer.Option("--talent", metavar="ID", help="Lift the skills associated with this talent.")
    ] = None,
    k: Annotated[int, typer.Option("--k", metavar="N", help="How many to show.", callback=_checked_count)] = 5,
    explain: Annotated[bool, typer.Option("--explain", help="Show the parts of every score.")] = False,
    passages: Annotated[bool, typer.Option("--passages", help="Search the passages, which know no talent.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the skills, or the passages, that retrieval finds for a text. Needs the indices, not a model."""
    from talentrl import display
    from talentrl.config import load_params

    if passages and talent is not None:
        raise InputError(f"--talent: found {talent!r} beside --passages, expected one of the two")
    settings = load_params().retrieval
    bank = None if passages else _checked_bank(talent)
    console = _console(stderr=as_json)
    with console.status("Searching"):
        from talentrl.retrieval.backends import open_encoder, open_index
        from talentrl.retrieval.skills import SkillRetriever

        folder = layout.SKILL_INDEX if bank else layout.PASSAGE_INDEX
        index = open_index(folder, open_encoder(settings), settings)
        if bank:
            hits = SkillRetriever(index, bank, settings.prior_weight).retrieve(text, talent, k)
            texts = {hit.id: bank.skills[hit.id].description for hit in hits}
        else:
            hits = index.search(text, k)
            texts = {document.id: document.text for document in index.documents([hit.id for hit in hits])}
    if as_json:
        _print_json({"text": text, "talent": talent, "hits": [asdict(hit) for hit in hits]})
        return
    title = "Passages" if passages else f"Skills under {talent}" if talent else "Skills"
    display.show_hits(console, title, hits, texts, settings.prior_weight if explain else None)


@retrieval_app.command("evaluate")
def retrieval_evaluate(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="Questions with marked paragraphs; else the project's skills."),
    ] = None,
    questions: Annotated[
        int | None,
        typer.Option("--questions", metavar="N", help="Only the first N of each set.", callback=_checked_count),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", dir_okay=False, help="Also write all figures as JSON.")
    ] = None,
) -> None:
    """Compare BM25, dense and hybrid retrieval on labelled questions, and choose α and fusion on half of them.

    FILE has the form of `tasks.path` (JSONL, plain, .gz or .xz); relevant are its supporting paragraphs. Without one,
    the queries are the project's dev tasks, and relevant are the skills of the talent that fits a task's family.
    """
    from talentrl import display
    from talentrl.benchmarks.taskset import TaskSet
    from talentrl.config import load_params
    from talentrl.evaluation.labels import passage_set, skill_set
    from talentrl.evaluation.retrieval import evaluate_retrieval
    from talentrl.files import write_text
    from talentrl.provenance import provenance

    params = load_params()
    if files:
        sets = [passage_set(file, questions) for file in files]
    else:
        sets = [skill_set(_checked_bank(None), TaskSet.read(layout.TASKS).split("dev", questions))]
    console = _console()
    with _console(stderr=True).status("Loading the encoder"):
        from talentrl.retrieval.backends import open_encoder
        from talentrl.retrieval.cache import CachedEncoder

        encoder = CachedEncoder(open_encoder(params.retrieval), layout.EMBEDDINGS)
    evaluation = evaluate_retrieval(sets, encoder, params.retrieval, params.seed)
    display.show_retrieval(console, evaluation)
    if output is not None:
        used = params.retrieval.model_dump(include={"backend", "fusion", "alpha", "candidates"})
        origin = {"encoder": encoder.fingerprint, "retrieval": used, "seed": params.seed, **provenance()}
        write_text(output, json.dumps({**origin, **evaluation.record()}, ensure_ascii=False, indent=1) + "\n")


@app.command()
def profile(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a file in profiles/, without .yaml.")],
) -> None:
    """Write the values of profiles/NAME.yaml into params.yaml, and list the keys that changed."""
    from talentrl.config import apply_profile

    folder = Path("profiles")
    known = sorted(file.stem for file in folder.glob("*.yaml"))
    if name not in known:
        raise _unknown("profile", name, known, folder)
    changed = apply_profile(folder / f"{name}.yaml")
    typer.echo("\n".join(changed) or f"params.yaml holds the values of {name} already")


@track_app.command("replay")
def track_replay() -> None:
    """Send what MLflow did not take when it happened, each record once."""
    from talentrl.tracking.replay import journals, replay

    waiting = journals()
    sent = 0
    try:
        for path, run, events in replay(waiting):
            typer.echo(f"{path}: {events} records sent to run {run}")
            sent += 1
    except InputError:
        raise
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        typer.echo(f"Error: MLflow does not take them ({type(error).__name__}: {reason}); they stay on disk", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"{sent} of {len(waiting)} journals sent")


@app.command()
def up(
    prefect_port: Annotated[int, typer.Option("--prefect-port", metavar="PORT", help="Of Prefect's UI.")] = 4200,
    mlflow_port: Annotated[int, typer.Option("--mlflow-port", metavar="PORT", help="Of MLflow's UI.")] = 5000,
) -> None:
    """Start Prefect, a worker and MLflow on this machine, for this project; Ctrl-C stops them."""
    from talentrl.servers import ServerFailed, serve

    try:
        serve(prefect_port, mlflow_port, typer.echo)
    except ServerFailed as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from None


def _benchmark_params(benchmark: str, settings: list[str], options: dict[str, dict[str, Any]]) -> "Params":
    """The project's params with a benchmark's profile, `settings`, then `options` (those that are not None)."""
    from talentrl.config import load_params, parse_params, with_profile, with_settings

    params = load_params()
    overlay = Path("profiles") / f"{benchmark}.yaml"
    if overlay.is_file():
        params = with_profile(params, overlay)
    values = with_settings(params, settings).model_dump()
    for section, given in options.items():
        values[section] |= {key: value for key, value in given.items() if value is not None}
    values["retrieval"]["index_prefix"] += f"-{benchmark}"
    return parse_params(values, "evaluate")


def _console(stderr: bool = False) -> Console:
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False)


def _print_json(values: dict[str, Any]) -> None:
    typer.echo(json.dumps(values, ensure_ascii=False, indent=1))


def _bank_folder() -> Path:
    from talentrl.config import load_params

    return Path(load_params().bank.path)


def _checked_bank(talent: str | None) -> "SkillBank":
    """The project's compiled bank, once it is known to have `talent` (if one is named)."""
    from talentrl.bank.bank import SkillBank

    bank = SkillBank.read_json(layout.BANK)
    if talent is not None and talent not in bank.talents:
        raise _unknown("talent", talent, bank.talents, layout.BANK)
    return bank


def _unknown(kind: str, name: str, known: Collection[str], origin: Path) -> InputError:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.0)
    return InputError(f"no {kind} {name!r} in {origin}; nearest: {', '.join(near) or 'there is none'}")


def _open_runner(checkpoint: Path, talent: str | None, console: Console) -> "RolloutRunner":
    """The project's runner over `checkpoint`, once it is known that the bank has `talent` (if one is named)."""
    from talentrl.config import load_params

    params = load_params()
    _checked_bank(talent)
    with console.status(f"Loading {checkpoint}"):
        from transformers.utils import logging

        from talentrl.rollouts.assembly import open_runner

        logging.disable_progress_bar()
        return open_runner(params, checkpoint)
