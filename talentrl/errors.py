"""The errors that are meant for people: each is said in one line, without a traceback."""


class InputError(ValueError):
    """Input that a user can fix: the message names the file, field or key, what was found and what is expected.

    Exit code 2 from the command line.
    """


class TrainingStopped(RuntimeError):
    """A training run that went wrong and stopped itself: the message says what was seen, and which checkpoint is good.

    Exit code 1 from the command line.
    """
