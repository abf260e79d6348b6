"""Options and choices that were renamed: a command that is given an old name ends with the new one."""

# Old name to new name, for all commands. The entry of a section or group covers its options too. The table is read when
# Hydra refuses a name, so that a command may still have an option of an old name.
RENAMED_OPTIONS = {
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


def new_name(option: str) -> str | None:
    """The new name of a renamed option, or of one in a renamed section; None if it was not renamed."""
    section, last = option, ""
    while section:
        if section in RENAMED_OPTIONS:
            return RENAMED_OPTIONS[section] + last
        section, _, name = section.rpartition(".")
        last = f".{name}{last}"  # a.b.c: section a.b, last .c; then section a, last .b.c
    return None
