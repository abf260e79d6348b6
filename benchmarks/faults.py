"""Counts how many of 60 hand-made faults in 60 modules the quick tests catch.

python benchmarks/faults.py                                    # the last commit, the tests that concern each module
python benchmarks/faults.py --commit 0d459e75 --out before.json
python benchmarks/faults.py --whole                            # then all quick tests for what these did not catch
python benchmarks/faults.py --list                             # where the faults are in the working tree

Each fault replaces one snippet, which must occur exactly once in the package, in a copy of the commit. A test that also
fails without the fault does not count. The result is written after each fault; a second call goes on from there.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
QUICK = "not slow and not browser and not integration"
FAILURE = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)
MAX_BROKEN = 20  # tests that fail without the fault, per fault


class Fault(NamedTuple):
    """A fault.

    Args:
        name: A short name.
        what: What is wrong.
        right: The snippet of the package.
        wrong: What takes its place.
        others: The same in versions of the package that word it otherwise: pairs of right and wrong.
    """

    name: str
    what: str
    right: str
    wrong: str
    others: tuple[tuple[str, str], ...] = ()


FAULTS = [
    Fault(
        "compared parts",
        "rankings of different parts are compared",
        "if first.protocol != second.protocol or first.part != second.part:",
        "if first.protocol != second.protocol:",
    ),
    Fault(
        "last definition",
        "an edge of data flow leads backwards",
        "edges.add((events[place - 1], event, EdgeKind.DATA))",
        "edges.add((event, events[place - 1], EdgeKind.DATA))",
        (
            (
                "edges.add((events[position - 1], event, EdgeKind.DATA))",
                "edges.add((event, events[position - 1], EdgeKind.DATA))",
            ),
            (
                "last.add((events[position - 1], event, EdgeKind.DATA))",
                "last.add((event, events[position - 1], EdgeKind.DATA))",
            ),
        ),
    ),
    Fault(
        "last line of a method",
        "a method does not hold its last line",
        "method.line <= line <= _last_line(method)",
        "method.line <= line < _last_line(method)",
    ),
    Fault(
        "order of nodes",
        "the nodes of a graph are in the order of evaluation instead of that of the text",
        "order.sort(key=events.starts.__getitem__)",
        "order.sort()",
    ),
    Fault("unknown part", "evaluate accepts any part", "if cfg.part not in PARTS:", "if not cfg.part:"),
    Fault("newer schema", "an older run is called newer", "schema > SCHEMA", "schema < SCHEMA"),
    Fault(
        "lowest value",
        "the lowest value of an option is refused",
        'if value < lowest:\n            raise ValueError(f"{key}=',
        'if value <= lowest:\n            raise ValueError(f"{key}=',
        (("too_low = value < self.low or", "too_low = value <= self.low or"),),
    ),
    Fault(
        "first test row",
        "the first report of the test part is in the validation part",
        "(rows >= val).astype(np.int8) + (rows >= test)",
        "(rows >= val).astype(np.int8) + (rows > test)",
        (
            (
                "np.digitize(np.arange(len(documents)), [val, test])",
                "np.digitize(np.arange(len(documents)), [val, test + 1])",
            ),
        ),
    ),
    Fault(
        "links until a row",
        "links to the first row left out are kept",
        "((rows >= first) & (rows < stop)).all(axis=1)",
        "((rows >= first) & (rows <= stop)).all(axis=1)",
        (('self.table[["query", "document"]] < count', 'self.table[["query", "document"]] <= count'),),
    ),
    Fault(
        "latest year",
        "the latest year is out of range",
        "if not MIN_YEAR <= year <= MAX_YEAR:",
        "if not MIN_YEAR <= year < MAX_YEAR:",
    ),
    Fault(
        "status 500",
        "a server error of status 500 is not tried again",
        "if response.status_code >= 500:",
        "if response.status_code > 500:",
        (
            (
                "        if status >= 500:\n            return Wait(backoff_s",
                "        if status > 500:\n            return Wait(backoff_s",
            ),
        ),
    ),
    Fault(
        "last page of Jira",
        "the issue list of Jira ends one page early",
        '{"start": end, "total": total} if end < total else None',
        '{"start": end, "total": total} if end + 1 < total else None',
    ),
    Fault(
        "change at creation",
        "changes in the first moments of an issue are undone",
        "change.when - issue.created_at <= CREATION",
        "change.when - issue.created_at < CREATION * 0",
        (("pair[0] - issue.created_at <= CREATION", "pair[0] - issue.created_at < CREATION * 0"),),
    ),
    Fault(
        "issue on two pages",
        "of equally recent records the first is kept",
        "(issue.updated_at or NEVER) >= (before.updated_at or NEVER)",
        "(issue.updated_at or NEVER) > (before.updated_at or NEVER)",
    ),
    Fault(
        "commit before its report",
        "a fix must be made a day after its report",
        "made_at < created_at - MAX_EARLY",
        "made_at < created_at + MAX_EARLY",
        (("self._created_at.iloc[row] - MAX_EARLY", "self._created_at.iloc[row] + MAX_EARLY"),),
    ),
    Fault(
        "size of a patch",
        "the last line that fits is cut off",
        "if self.num_chars + len(line) > self._max_chars:",
        "if self.num_chars + len(line) >= self._max_chars:",
    ),
    Fault(
        "order of packed texts",
        "means come in the order of lengths",
        "return (total / packed.lengths[:, None].clamp(min=1))[packed.order.argsort()]",
        "return (total / packed.lengths[:, None].clamp(min=1))[packed.order]",
    ),
    Fault(
        "first token of a node",
        "a node has the token that ends where it begins",
        'first = np.searchsorted(offsets[:, 1], spans[:, 0], side="right")',
        'first = np.searchsorted(offsets[:, 1], spans[:, 0], side="left")',
    ),
    Fault(
        "least overlap of tags",
        "edges at the least Jaccard index are kept",
        "(jaccard > min_jaccard) & (first",
        "(jaccard >= min_jaccard) & (first",
    ),
    Fault(
        "busy endpoint",
        "an endpoint that limits requests is not asked again",
        "status == 429 or status >= 500",
        "status >= 500",
    ),
    Fault(
        "score at the threshold",
        "a score that equals the threshold is no duplicate",
        "predicted = torch.from_numpy((scores >= np.asarray(threshold",
        "predicted = torch.from_numpy((scores > np.asarray(threshold",
    ),
    Fault(
        "conclusion",
        "a difference counts if only its upper end is above 0",
        '"better" if comparison.low > 0 else',
        '"better" if comparison.high > 0 else',
        (("if compared.low > 0:", "if compared.high > 0:"),),
    ),
    Fault("score in a run file", "the best document has the lowest score", "{1 / rank:.9g}", "{rank:.9g}"),
    Fault(
        "two values of an option",
        "an option with two values has no section",
        "        if len(by_value) > 1:",
        "        if len(by_value) > 2:",
    ),
    Fault(
        "warm-up",
        "the first step has a learning rate of 0",
        "(step + 1) / (warmup_steps + 1)",
        "step / (warmup_steps + 1)",
    ),
    Fault(
        "interval over seeds",
        "the deviation is that of a population",
        "values.to_numpy().std(ddof=1) / np.sqrt(len(values))",
        "values.to_numpy().std(ddof=0) / np.sqrt(len(values))",
        (("values.std(ddof=1) / np.sqrt(len(values))", "values.std(ddof=0) / np.sqrt(len(values))"),),
    ),
    Fault(
        "best epoch",
        "the best epoch is the worst one",
        'best = values.argmin() if direction(monitor) == "min" else values.argmax()',
        'best = values.argmax() if direction(monitor) == "min" else values.argmin()',
    ),
    Fault(
        "fence",
        "a fence of backticks is as long as one in the text",
        "max(3, 1 + max(map(len, BACKTICKS",
        "max(3, max(map(len, BACKTICKS",
    ),
    Fault("cosine loss", "duplicates are pushed apart", "2 * step.edge_label - 1", "1 - 2 * step.edge_label"),
    Fault(
        "rank k",
        "a duplicate at rank k is not among the first k",
        "(position <= k).astype(float)",
        "(position < k).astype(float)",
    ),
    Fault(
        "earlier reports",
        "later duplicates count as relevant",
        "np.asarray(rows[rows < query])",
        "np.asarray(rows)",
    ),
    Fault(
        "rarity of a word",
        "the rarity of words is that of one more text",
        "np.log(1 + (count - frequency + 0.5) / (frequency + 0.5))",
        "np.log(1 + (count - frequency + 0.5) / (frequency + 1.5))",
    ),
    Fault(
        "group of a new report",
        "a new report joins the group of the last one",
        "np.arange(first, first + number)",
        "np.arange(first - 1, first + number - 1)",
    ),
    Fault(
        "resolved the day before",
        "a report resolved the day before the query counts as open",
        'np.where(store["resolved"][rows] < day, 0.0, 1.0)',
        'np.where(store["resolved"][rows] < day - 1, 0.0, 1.0)',
    ),
    Fault(
        "later inducing commits",
        "commits after the query are not left out",
        "is_commit = inducing < num_commits\n",
        "is_commit = inducing >= 0\n        num_commits = max(num_commits, inducing.max(initial=-1) + 1)\n",
        (("earlier = commits[commits < features.num_commits]", "earlier = commits"),),
    ),
    Fault(
        "rarity of a file name",
        "a file name counts too little",
        "(before + 1) / (len(rows) + 0.5)",
        "(before + 1) / (len(rows) + 1.5)",
    ),
    Fault(
        "value at a bound",
        "a value that equals the bound of a split goes right",
        'bounds.searchsorted(columns[feature], side="left")',
        'bounds.searchsorted(columns[feature], side="right")',
    ),
    Fault(
        "queries to learn from",
        "masters count as duplicates",
        "return np.flatnonzero(self.group < np.arange(len(self)))",
        "return np.flatnonzero(self.group <= np.arange(len(self)))",
    ),
    Fault(
        "pairs of two",
        "groups of two give no batches",
        "paired = rows[sizes[inputs.observed_group[rows]] > 1]",
        "paired = rows[sizes[inputs.observed_group[rows]] > 2]",
    ),
    Fault(
        "state of an issue",
        "a deletion at the time of the last change is accepted",
        "moment <= known if gone else moment < known",
        "moment < known",
    ),
    Fault(
        "full queue",
        "one request more waits than allowed",
        "if len(self.unfinished) >= self.capacity:",
        "if len(self.unfinished) > self.capacity:",
    ),
    Fault(
        "largest body",
        "a body without a stated length is read to its end before it is refused",
        "if len(body) > max_bytes:\n",
        "if len(body) > max_bytes and not more:\n",
        (("if len(body) > self.max_body_bytes:\n", "if len(body) > self.max_body_bytes and not more:\n"),),
    ),
    Fault(
        "resolved before",
        "neighbours resolved at the moment of the query count as done",
        "is_resolved = self.resolved_at[rows] < moment",
        "is_resolved = self.resolved_at[rows] <= moment",
        (("done = self.resolved_at[rows] < moment", "done = self.resolved_at[rows] <= moment"),),
    ),
    Fault(
        "weighted error",
        "the error is not divided by the weights",
        "(weight * (predicted - true) ** 2).sum(axis=1) / weight.sum(axis=1)",
        "(weight * (predicted - true) ** 2).sum(axis=1) / weight.shape[1]",
    ),
    Fault(
        "links before a report",
        "links to later changes are learned from",
        'known = known[known["document"] < earlier[known["query"]]].assign(label=1)',
        "known = known.assign(label=1)",
        (
            (
                'train = train[train["document"] < earlier[train["query"]]].assign(label=1)',
                "train = train.assign(label=1)",
            ),
        ),
    ),
    Fault(
        "links known later",
        "links that became known after the report count",
        "(self.made_at < self.created_at[row]) & (self.queries != row)",
        "self.queries != row",
    ),
    Fault(
        "negative commit",
        "commits after the report are negatives",
        "commit < self.before[report] and len(self.rows_of[commit]) > 0",
        "len(self.rows_of[commit]) > 0",
    ),
    Fault(
        "direction of a negative edge",
        "a drawn edge leads the wrong way",
        "np.where(outgoing[:, None], drawn, -drawn)",
        "np.where(outgoing[:, None], -drawn, drawn)",
    ),
    Fault(
        "base rate",
        "the base rate predicts the rarer label",
        '["truth"].mean()).gt(0.5)',
        '["truth"].mean()).lt(0.5)',
        (
            ("counts is not None and counts[1] > counts[0]", "counts is not None and counts[1] < counts[0]"),
            ("edges > non_edges for non_edges, edges in counts", "edges < non_edges for non_edges, edges in counts"),
        ),
    ),
    Fault(
        "bucket of the anchor",
        "a duplicate of the anchor is its negative",
        "allowed = (similarity > alpha) & (group[block][:, None] != group[candidates])",
        "allowed = similarity > alpha",
    ),
    Fault(
        "written rows",
        "learnable rows are overwritten by text vectors",
        'if self.features != "learnable":\n',
        'if self.features != "text":\n',
    ),
    Fault("open passages", "budgets may take up all tokens", "if taken + needed > available:", "if taken > available:"),
    Fault(
        "changed rows",
        "the first change since the last look is missed",
        "SELECT DISTINCT row FROM changes WHERE number > ? AND row IS NOT NULL",
        "SELECT DISTINCT row FROM changes WHERE number > ? + 1 AND row IS NOT NULL",
    ),
    Fault(
        "latest verdict",
        "the first verdict on a pair counts",
        "candidate = ? ORDER BY number DESC LIMIT 1",
        "candidate = ? ORDER BY number LIMIT 1",
    ),
    Fault(
        "common words",
        "words in most reports count as rare",
        "is_rare = (frequency > 0) & (frequency <= max(MAX_COMMON_SHARE * count, MIN_COMMON_REPORTS))",
        "is_rare = frequency > 0",
    ),
    Fault(
        "bound of precision",
        "a threshold that misses the target is skipped instead of ending the search",
        "if lower_bound(share, size, confidence) < target_precision:\n            break",
        "if lower_bound(share, size, confidence) < target_precision:\n            continue",
    ),
    Fault(
        "overlapping spans",
        "of two overlapping spans the second sets the end",
        "(joined[-1][0], max(joined[-1][1], end))",
        "(joined[-1][0], end)",
    ),
    Fault(
        "not ranked",
        "duplicates that are not ranked count as found",
        "hits = (rank > 0) & (rank <= np.array(RANKS))",
        "hits = rank <= np.array(RANKS)",
    ),
    Fault(
        "checksum of arrays",
        "a damaged file of arrays is read",
        'if check and _checksum(columns) != header["checksum"]:',
        'if check and not header["checksum"]:',
    ),
    Fault(
        "newest of equals",
        "of equal scores the older commit comes first",
        'order = len(scores) - 1 - np.argsort(-scores[::-1], kind="stable")',
        'order = np.argsort(-scores, kind="stable")',
        (
            (
                "np.lexsort((-documents if newest_first else documents, -scores))",
                "np.lexsort((documents if newest_first else documents, -scores))",
            ),
        ),
    ),
]


def place(folder: Path, fault: Fault) -> tuple[Path, str, str]:
    """The file of a fault in a copy, the text of this file, and the text with the fault."""
    for right, wrong in ((fault.right, fault.wrong), *fault.others):
        files = [(file, file.read_text(encoding="utf-8")) for file in sorted((folder / "gedbd").rglob("*.py"))]
        files = [(file, text) for file, text in files if right in text]
        if len(files) == 1 and files[0][1].count(right) == 1:
            file, text = files[0]
            return file, text, text.replace(right, wrong)
    raise LookupError(f"{fault.name}: no spelling occurs exactly once in gedbd: {fault.right}")


@contextmanager
def copy_of(commit: str) -> Iterator[Path]:
    """A copy of a commit in a temporary folder."""
    name = subprocess.check_output(["git", "rev-parse", commit], cwd=ROOT, text=True).strip()
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        copy = Path(folder) / "gedbd"
        subprocess.run(["git", "clone", "-q", "--shared", "--no-checkout", ROOT, copy], check=True)
        subprocess.run(["git", "checkout", "-q", "--detach", name], cwd=copy, check=True)
        yield copy


def imported(text: str) -> set[str]:
    """The modules and names of the package that a file imports, with their parents."""
    names = set(re.findall(r"\bgedbd(?:\.\w+)*", text))
    for module, block in re.findall(r"from (gedbd[\w.]*) import (\([^)]*\)|[^\n]*)", text):
        names |= {f"{module}.{name}" for name in re.findall(r"\w+", block)}
    return names


def concerned(folder: Path, module: Path) -> list[str]:
    """The test files that concern a module: those that name it, that name a module that imports it, its folder's."""
    parts = module.relative_to(folder).with_suffix("").parts
    name = ".".join(parts)
    uses = {
        ".".join(file.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
        for file in (folder / "gedbd").rglob("*.py")
        if file != module and name in imported(file.read_text(encoding="utf-8"))
    }
    scores = {}
    for file in sorted((folder / "tests").rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        names = imported(text)
        inside = file.relative_to(folder).parts[1:-1]
        shared = inside == parts[1 : len(inside) + 1] and bool(inside)
        score = 8 * (name in names) + 4 * (shared and module.stem in file.stem) + 2 * (shared and inside == parts[1:-1])
        score += 2 * len(uses & names - {"gedbd"})
        score += "gedbd" in uses and re.search("^import gedbd$", text, re.MULTILINE) is not None
        score += parts[1] == "commands" and f'"{module.stem}"' in text
        if score or shared:
            scores[str(file.relative_to(folder))] = -score
    return sorted(scores, key=lambda file: scores[file])


def run_tests(folder: Path, names: list[str], broken: list[str], limit_s: float) -> str | None:
    """Runs tests up to the first that fails; returns its name, "" if all pass.

    Raises:
        TimeoutError: If they take longer than the limit.
    """
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--no-header", "-p", "no:cacheprovider", "-m", QUICK]
    words += [*(f"--deselect={name}" for name in broken), *names]
    settings = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        words,
        cwd=folder,
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise TimeoutError(f"not done within {limit_s:g} s") from error
    if process.returncode in (0, 5):  # 5: no test was left
        return ""
    failures = FAILURE.findall(output)
    if not failures:
        raise RuntimeError(f"pytest ended with status {process.returncode}: {output[-2000:]}")
    return str(failures[0])


def measure(folder: Path, fault: Fault, names: list[str] | None, whole: bool, limit_s: float) -> dict[str, object]:
    """Whether the tests catch a fault: the module, the test that fails, the seconds it took."""
    file, text, wrong = place(folder, fault)
    chosen = (["tests"] if whole else concerned(folder, file)) if names is None else names
    result: dict[str, object] = {"module": str(file.relative_to(folder)), "what": fault.what, "whole": whole}
    broken: list[str] = []
    begin = time.monotonic()
    while len(broken) <= MAX_BROKEN:
        try:
            file.write_text(wrong, encoding="utf-8")
            test = run_tests(folder, chosen, broken, limit_s)
        except TimeoutError as error:
            result["error"] = str(error)
            test = ""
        finally:
            file.write_text(text, encoding="utf-8")
        if not test or not run_tests(folder, [test], [], limit_s):
            break
        broken.append(test)
        test = ""
    return result | {"caught": bool(test), "test": test, "broken": broken, "seconds": round(time.monotonic() - begin)}


def show(results: dict[str, dict[str, object]]) -> None:
    caught = sum(bool(result["caught"]) for result in results.values())
    print(f"caught: {caught} of {len(results)}")
    for name, result in results.items():
        if not result["caught"]:
            print(f"  not caught: {name} ({result['module']}: {result['what']}) {result.get('error', '')}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", default="HEAD", help="the version to test")
    parser.add_argument("--out", type=Path, default=Path("faults.json"), help="file of the result")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these faults, also if they are in the result")
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="tests to run in place of those of the module")
    parser.add_argument("--whole", action="store_true", help="all quick tests for the faults that were not caught")
    parser.add_argument("--limit", type=float, default=300, metavar="SECONDS", help="of the tests of one fault")
    parser.add_argument("--list", action="store_true", help="show where the faults are, and run nothing")
    given = parser.parse_args()
    if given.list:
        for fault in FAULTS:
            try:
                print(f"{fault.name}: {place(ROOT, fault)[0].relative_to(ROOT)}: {fault.what}")
            except LookupError as error:
                print(error)
        return
    results = json.loads(given.out.read_text(encoding="utf-8")) if given.out.is_file() else {}
    with copy_of(given.commit) as folder:
        for fault in FAULTS:
            known = results.get(fault.name)
            done = known is not None and (known["caught"] or known["whole"] or not given.whole)
            if fault.name not in given.only if given.only else done:
                continue
            results[fault.name] = measure(folder, fault, given.tests, given.whole, given.limit)
            given.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
            print(f"{fault.name}: {results[fault.name]['test'] or 'not caught'}", flush=True)
    show(results)


if __name__ == "__main__":
    main()
