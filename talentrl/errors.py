"""The one error that is meant for people: bad input, said in one line, exit code 2 from the command line."""


class InputError(ValueError):
    """Input that a user can fix: the message names the file, field or key, what was found and what is expected."""
