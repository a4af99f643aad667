"""Stage `bank`: validate the skill bank and compile it to one file."""

from pathlib import Path

from talentrl import layout
from talentrl.bank.bank import SkillBank
from talentrl.config import Params
from talentrl.tracking import Run
from tasks.stage import run_stage


def run(params: Params, run: Run) -> None:
    """Compile the bank in `bank.path`; its digest goes into every later record."""
    bank = SkillBank.load(Path(params.bank.path))
    bank.write_json(layout.BANK)
    run.tag("skillbank.digest", bank.digest)


if __name__ == "__main__":
    run_stage("bank", run, {})
