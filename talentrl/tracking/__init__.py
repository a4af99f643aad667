"""What happened, recorded in MLflow: one parent run a pipeline, one nested run a stage.

Every stage is a process of its own, so nothing here rests on MLflow's active run: each call names its run.
Stages find their common parent by a tag that names the pipeline they belong to: the Prefect flow run, else
the `dvc` process above them, else the process itself. The parent's status, settings and figures follow from its stages.

Tracking never stops the work. What MLflow refuses is kept in a journal on disk, which `talentrl track replay` sends.
Only a store that can never work (a folder) is an `InputError`.
"""

from talentrl.tracking.run import Run, track
from talentrl.tracking.store import flatten, run_link, tracking_uri

__all__ = ["Run", "flatten", "run_link", "track", "tracking_uri"]
