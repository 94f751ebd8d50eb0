"""What a world cannot do."""

from apps.base.errors import BadInputError


class UnknownEnvironmentError(BadInputError):
    """No environment has that name; the message lists those there are."""

    code = "unknown_environment"
