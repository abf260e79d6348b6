"""Log messages and warnings of libraries that a user of the commands need not see."""

import logging
import warnings

from gedbd.io.verbosity import is_verbose

UNIMPORTANT_WARNINGS = (
    ".*does not have many workers.*",
    ".*smaller than the logging interval.*",
    ".*is_leaf.*",
    ".*sync_dist=True.*",  # metrics already cover the rows of all processes
    ".*exists and is not empty.*",
    r".*module\(s\) in eval mode at the start of training.*",  # momentum twins stay in it
)


def silence_library_logs() -> None:
    """Hides progress bars of weights being loaded, lists of devices, and advice on worker processes.

    With ``-v`` they are shown.
    """
    if is_verbose():
        return
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    for message in UNIMPORTANT_WARNINGS:
        warnings.filterwarnings("ignore", message=message)
