"""Options and choices that were renamed: a command that is given an old name ends with the new one."""

from collections.abc import Container

# Old name to new name, for all commands. The entry of a section or group covers its options too. The table is read when
# Hydra refuses a name, so that a command may still have an option of an old name.
RENAMED_OPTIONS = {
    "baselines.frozen.max_tokens": "encoder.max_tokens",
    "dataset.as_filed": "dataset.as_created",
    "dataset.columns.issue_id": "dataset.columns.id",
    "dataset.newest": "dataset.last_n",
    "engine": "backend",
    "filed_before": "created_before",
    "filed_from": "created_from",
    "most": "max_replayed",
    "optimizer.schedule": "scheduler",
    "optimizer.warmup_steps": "scheduler.warmup_steps",
    "precision": "target_precision",
    "webhook.precision": "webhook.target_precision",
}
RENAMED_CHOICES = {"pairs=clusters": "pairs=pk"}


def new_name(option: str, sections: Container[str]) -> str | None:
    """The new name of a renamed option, or of one in a renamed section.

    Args:
        option: The old name.
        sections: The first parts of the names of the command's options: commands have different ones.

    Returns:
        The name, or None if the option was not renamed or the command has no such option.
    """
    section, last = option, ""
    while section:
        if section in RENAMED_OPTIONS:
            renamed = RENAMED_OPTIONS[section] + last
            return renamed if renamed.partition(".")[0] in sections else None
        section, _, name = section.rpartition(".")
        last = f".{name}{last}"  # a.b.c: section a.b, last .c; then section a, last .b.c
    return None
