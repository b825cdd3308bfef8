"""The engine `celery`: functions run on workers of any machine, each for the tools of its owners; extra `celery`."""

from praval_tools.errors import MissingExtraError

try:
    import celery  # noqa: F401  # said here, once for all modules
    import cryptography.fernet  # noqa: F401
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("celery", "cryptography"):
        raise
    raise MissingExtraError("Engine 'celery'", "celery") from error
