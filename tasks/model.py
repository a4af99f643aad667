"""Stage `model`: bring the pretrained language model to a folder."""

from talentrl import layout
from talentrl.config import Params
from talentrl.policy.model import fetch_model
from talentrl.tracking import Run
from tasks.stage import run_stage, tag_model


def run(params: Params, run: Run) -> None:
    """Write the model named by `model.source` in safetensors."""
    fetch_model(params.model.source, layout.MODEL)
    tag_model(run, layout.MODEL)


if __name__ == "__main__":
    run_stage("model", run, {})
