"""What can go wrong on this machine. Each message is one line: the thing, what was wanted, what was found."""


class PlatformError(Exception):
    """Root of the local stack's errors; the command line prints the message and exits 1."""


class HomeError(PlatformError):
    """TENTALIS_HOME or a file in it cannot be used."""


class PortTakenError(PlatformError):
    """A port somebody asked for is in use."""


class BinaryMissingError(PlatformError):
    """No Postgres or Redis server program fits this machine."""


class DataVersionError(PlatformError):
    """The data on disk was made by another major version of Postgres."""


class AlreadyRunningError(PlatformError):
    """Another supervisor holds this home."""


class NotRunningError(PlatformError):
    """Nothing runs on this home."""


class UnknownServiceError(PlatformError):
    """A name that is no service of this stack."""


class StartError(PlatformError):
    """A service did not become ready."""


class StopError(PlatformError):
    """A process did not leave in time."""


class BackupError(PlatformError):
    """A backup could not be taken, or is not what it must be."""


class BackupUnderWayError(BackupError):
    """Another process writes to the place where backups lie."""


class RestoreError(PlatformError):
    """A backup could not be brought back."""
