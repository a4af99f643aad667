"""Stage `index`: index skills and passages."""

from talentrl import layout
from talentrl.bank.bank import SkillBank
from talentrl.config import Params
from talentrl.retrieval.backends import open_encoder
from talentrl.retrieval.cache import CachedEncoder
from talentrl.rollouts.assembly import build_indices, environment_kind
from talentrl.tracking import Run
from tasks.stage import run_stage


def run(params: Params, run: Run) -> None:
    """Encode and index the compiled bank and the task set's passages."""
    bank = SkillBank.read_json(layout.BANK)
    encoder = CachedEncoder(open_encoder(params.retrieval), layout.EMBEDDINGS)
    build_indices(bank, environment_kind(params.tasks.benchmark), encoder, params.retrieval)
    run.tag("skillbank.digest", bank.digest)
    run.tag("encoder.fingerprint", encoder.fingerprint)


if __name__ == "__main__":
    run_stage("index", run, {"bank": layout.BANK, "tasks": layout.TASKS})
