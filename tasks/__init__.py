"""One module a stage: `python -m tasks.NAME` reads params and inputs, calls the library, writes the outputs.

Importing this package sets, where the user has not, the environment that keeps a stage offline and quiet. It
stands here and not in `tasks.stage` since Hugging Face's libraries read it when they are first imported.
"""

from talentrl.offline import set_environment

set_environment()
