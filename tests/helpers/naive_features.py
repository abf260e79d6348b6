"""The candidates and features of a report, computed by loops over words, pairs and groups."""

import math

import numpy as np
import pandas as pd

from gedbd.retrieval.inverted_index import words
from gedbd.retrieval.report_ranking.feature_store import FIELDS
from gedbd.retrieval.scorers.simple_scorers import field_values
from gedbd.text.words import find_error_lines, find_identifiers

NAN = float("nan")


class NaiveTracker:
    """Reports as lists of words; every method looks at the first n reports alone."""

    def __init__(self, reports: pd.DataFrame, vectors: np.ndarray, mean_step: int) -> None:
        both = [f"{title}\n{body}" for title, body in zip(reports["title"], reports["description"], strict=True)]
        self.terms = {
            "text": words(both),
            "title": words(list(reports["title"])),
            "identifiers": [find_identifiers(text) for text in both],
            "errors": [find_error_lines(text) for text in both],
        }
        self.fields = {name: [value.strip().lower() for value in field_values(reports, name)] for name in FIELDS}
        self.moments = list(reports["created_at"])
        self.resolved = list(reports["resolved_at"])
        self.vectors = vectors.astype(float)
        self.mean_step = mean_step

    def idf(self, kind: str, term: str, n: int) -> float:
        frequency = sum(term in terms for terms in self.terms[kind][:n])
        return math.log(1 + (n - frequency + 0.5) / (frequency + 0.5))

    def norm(self, kind: str, length: int, n: int) -> float:
        mean = sum(len(terms) for terms in self.terms[kind][:n]) / n
        return 1.5 * (0.25 + 0.75 * length / max(mean, 1e-9))

    def bm25(self, kind: str, query: int, row: int, n: int) -> float:
        stored, total = self.terms[kind][row], 0.0
        for term in self.terms[kind][query]:
            count = stored.count(term)
            if count:
                total += self.idf(kind, term, n) * count / (count + self.norm(kind, len(stored), n))
        return total

    def of_copy(self, kind: str, query: int, n: int) -> float:
        own = self.terms[kind][query]
        norm = self.norm(kind, len(own), n)
        return sum(self.idf(kind, one, n) * own.count(one) ** 2 / (own.count(one) + norm) for one in set(own))

    def days(self, query: int, row: int) -> float:
        return abs((self.moments[query] - self.moments[row]) / pd.Timedelta(days=1))

    def equal(self, name: str, query: int, row: int) -> bool:
        return self.fields[name][query] == self.fields[name][row] != ""

    def is_open(self, query: int, row: int, n: int) -> float:
        if pd.isna(self.moments[query]) or all(pd.isna(moment) for moment in self.resolved[:n]):
            return NAN
        return float(pd.isna(self.resolved[row]) or self.resolved[row] >= self.moments[query])

    def quick_sum(self, query: int, row: int, n: int) -> float:
        days = self.days(query, row)
        total = 10 * float(self.vectors[query] @ self.vectors[row])
        total += 4 * self.bm25("text", query, row, n) / max(self.of_copy("text", query, n), 1e-6)
        total += 3 * self.bm25("title", query, row, n) / max(self.of_copy("title", query, n), 1e-6)
        total += 0.7 * self.equal("component", query, row) + 0.3 * self.equal("product", query, row)
        return total - 0.35 * math.log1p(n - row if math.isnan(days) else days)

    def candidates(self, query: int, group: np.ndarray) -> list[tuple[int, list[int], float]]:
        """Best row, members and sum of each group, the highest sum first."""
        n = len(group)
        sums = [self.quick_sum(query, row, n) for row in range(n)]
        found = []
        for number in sorted(set(group.tolist())):
            members = [row for row in range(n) if group[row] == number]
            best = max(members, key=lambda row: sums[row])
            found.append((best, members, sums[best]))
        return sorted(found, key=lambda one: -one[2])

    def features(self, query: int, found: list[tuple[int, list[int], float]], n: int) -> list[dict[str, float]]:
        rows = [self._alone(query, best, members, n) | {"sum": total} for best, members, total in found]
        for name in ("dense", "text", "title", "identifiers", "sum"):
            values = [row[name] for row in rows]
            mean = sum(values) / len(values)
            deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
            for place, row in enumerate(rows):
                row[f"{name} z"] = (values[place] - mean) / deviation if deviation > 1e-9 else 0.0
                higher = [one for one in range(len(rows)) if (-values[one], one) < (-values[place], place)]
                row[f"{name} rank"] = math.log(1 + len(higher))
                row[f"{name} behind"] = max(values) - values[place]
        return rows

    def _alone(self, query: int, best: int, members: list[int], n: int) -> dict[str, float]:
        """The features that depend on one candidate only."""
        step = n // self.mean_step * self.mean_step
        mean = sum(self.vectors[:step]) / step if step else 0 * self.vectors[0]
        scores = {kind: math.sqrt(self.bm25(kind, query, best, n)) for kind in ("text", "title", "identifiers")}
        cosines = [float(self.vectors[query] @ self.vectors[row]) for row in members]
        of_members = [math.sqrt(self.bm25("text", query, row, n)) for row in members]
        row = scores | {
            "dense": float(self.vectors[query] @ self.vectors[best]),
            "dense group mean": sum(cosines) / len(members),
            "text group best": max(of_members),
            "text group mean": sum(of_members) / len(members),
            "dense hub": float(self.vectors[best] @ mean),
            "dense query hub": float(self.vectors[query] @ mean),
            "group size": math.log(len(members)),
        }
        for kind in self.terms:
            row |= self._shared(kind, query, best, n)
        row["open"] = self.is_open(query, best, n)
        return row | self._texts(query, best, n) | self._times(query, best, members, n)

    def _shared(self, kind: str, query: int, best: int, n: int) -> dict[str, float]:
        own, other = set(self.terms[kind][query]), set(self.terms[kind][best])
        weights = [self.idf(kind, term, n) for term in own & other]
        whole = sum(self.idf(kind, term, n) for term in own)
        return {
            f"{kind} shared": sum(weights),
            f"{kind} rarest shared": max(weights, default=0.0),
            f"{kind} share of query": sum(weights) / whole if own else NAN,
            f"{kind} share of report": len(weights) / len(other) if other else NAN,
        }

    def _texts(self, query: int, best: int, n: int) -> dict[str, float]:
        own, other = (set(self.terms["title"][row]) for row in (query, best))
        row = {"same title": float(bool(own) and own == other)}
        row["query identifiers"] = math.log1p(len(self.terms["identifiers"][query]))
        for kind in ("text", "title"):
            copy = self.of_copy(kind, query, n)
            row[f"{kind} of copy"] = math.log1p(copy)
            row[f"{kind} share of copy"] = self.bm25(kind, query, best, n) / max(copy, 1e-6)
            row[f"{kind} length"] = math.log1p(len(set(self.terms[kind][query])))
            row[f"report {kind} length"] = math.log1p(len(set(self.terms[kind][best])))
        return row

    def _times(self, query: int, best: int, members: list[int], n: int) -> dict[str, float]:
        row = {}
        for name in FIELDS:
            is_missing = "" in (self.fields[name][query], self.fields[name][best])
            row[f"same {name}"] = NAN if is_missing else float(self.equal(name, query, best))
        last = members[-1]
        row["days"] = math.log1p(self.days(query, best))
        row["days since first"] = math.log1p(self.days(query, members[0]))
        row["days since last"] = math.log1p(self.days(query, last))
        row["reports since"] = math.log1p(n - last)
        since = [other for other in range(last, n) if self.equal("component", query, other)]
        row["reports of component since"] = math.log1p(len(since)) if self.equal("component", query, last) else NAN
        return row
