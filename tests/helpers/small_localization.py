"""A small data set of localization: reports that mostly name the class whose last change induced their bug."""

import json

import numpy as np
import pandas as pd

CLASSES = ("Parser", "Index", "Printer", "Calendar", "Network", "Theme")
NUM_CHANGES, NUM_REPORTS = 48, 30
START = pd.Timestamp("2024-01-01", tz="UTC")


def line_of(change, name):
    return f"        int total{change} = compute{name}(value{change});"


def diff_of(path, section, lines):
    before, after = (sum(line[0] in signs for line in lines) for signs in (" -", " +"))
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
    return f"{head}@@ -10,{before} +10,{after} @@ {section}\n" + "\n".join(lines)


def changeset(id_, day, message, names, lines):
    """A commit that changes one hunk in the file of each class."""
    paths = {name: f"src/org/demo/{name}.java" for name in names}
    diff = "\n".join(diff_of(path, f"void run{name}()", lines[name]) for name, path in paths.items())
    made = {"commit": id_, "parents": [], "commit_date": str(START + pd.Timedelta(days=day)), "message": message}
    return made | {"files": sorted(paths.values()), "diff": diff, "truncated": False}


def write_localization(folder, place=-1):
    """Writes the data set and returns its folder; ``place`` says which earlier change of its class induced a bug."""
    rng = np.random.default_rng(0)
    changes, last = [], {}
    for number in range(NUM_CHANGES):
        names = rng.choice(CLASSES, rng.choice([1, 1, 2, 3]), replace=False)
        lines = {name: ["     {", f"+{line_of(number, name)}", "     }"] for name in names}
        id_ = f"{number:04x}aaaa0000"
        changes.append(changeset(id_, float(number), f"Work on {names[0]}", names, lines))
        for name in names:
            last.setdefault(name, []).append((number, id_))
    bugs, inducing = [], []
    for report in range(NUM_REPORTS):
        day = 10.5 + report
        name = str(rng.choice([name for name in CLASSES if last[name][0][0] < day]))
        number, id_ = [pair for pair in last[name] if pair[0] < day][place]
        fix = f"{report:04x}ffff0000"
        lines = {name: ["     {", f"-{line_of(number, name)}", f"+        long fixed{report} = 0;"]}
        changes.append(changeset(fix, day + 0.25, f"Fix bug {report}", [name], lines))
        named = name if rng.random() < 0.8 else "program"
        noise = " ".join(rng.choice(["crash", "slow", "wrong", "often"], 2))
        said = {"bug_id": report, "summary": f"{named} {noise}", "description": f"run{named} fails"}
        bugs.append(said | {"report_time": str(START + pd.Timedelta(days=day)), "fix_commit": fix})
        induced = {"bug_id": report, "fix_commit": fix, "inducing_commit": id_}
        inducing.append(induced | {"files": f"src/org/demo/{name}.java"})
    pd.DataFrame(bugs).to_csv(folder / "bugs.csv", index=False)
    pd.DataFrame(inducing).to_csv(folder / "inducing.csv", index=False)
    (folder / "changesets.jsonl").write_text("".join(f"{json.dumps(change)}\n" for change in changes))
    return folder
