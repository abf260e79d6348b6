"""A language model's opinion on the first candidates of a query, by an OpenAI-compatible endpoint.

It is off unless the configuration names an endpoint: the texts of reports are sent there.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from gedbd.encoders.chat_endpoint import ChatEndpoint, Failure, open_endpoint, optional_fields
from gedbd.retrieval.reports.llm_answers import ANSWERS, ASKED, TASK, answer_fields, messages, read_score
from gedbd.retrieval.reports.llm_cache import AnswerCache, content_hash
from gedbd.retrieval.reports.pair_scorer import ReportText

NAME = "llm"
UNREADABLE = "the answer cannot be read"
CAP = "llm.max_calls is reached"


class LlmQuestion(NamedTuple):
    """Everything but the reports that a score depends on.

    Attributes:
        base_url: Address of the endpoint.
        model: Name of the model at the endpoint.
        answer: ``number`` or ``yes_no``, see ``read_score``.
        max_characters: Length that each description is cut to.
        fields: Further fields of each request.
    """

    base_url: str
    model: str
    answer: str
    max_characters: int
    fields: Mapping[str, Any]

    @property
    def key(self) -> str:
        """A hash; answers are stored under it."""
        return content_hash([self._asdict(), TASK, ASKED[self.answer]])


class LlmCheck:
    """Asks about each pair of reports in a request of its own; see ``load_llm_check`` and ``PairScorer``.

    Args:
        endpoint: Where the questions go.
        question: What is asked.
        cache_dir: Folder of the answers, made if absent.
        depth: Number of candidates to ask about.
        concurrency: Number of requests at a time.
        max_calls: Number of requests in the life of this object; None for no limit.
    """

    name = NAME

    def __init__(
        self,
        endpoint: ChatEndpoint,
        question: LlmQuestion,
        cache_dir: str | Path,
        depth: int,
        concurrency: int,
        max_calls: int | None,
    ) -> None:
        self.endpoint = endpoint
        self.question = question
        self.depth = depth
        self.concurrency = concurrency
        self.max_calls = max_calls
        self.cache = AnswerCache(cache_dir, question.key)
        self.calls = 0
        self.missing: Counter[str] = Counter()
        self._lock = Lock()

    def announce(self, num_queries: int) -> str:
        """A notice for the user before the candidates of some queries are scored."""
        count = num_queries * self.depth
        return (
            f"up to {count:,} pairs of reports will be sent to {self.endpoint.address}, model {self.question.model};"
            " their texts leave this machine unless that address is local"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """How many answers are missing so far, with the reasons; empty if none is."""
        with self._lock:
            reasons = ", ".join(f"{problem}: {count:,}" for problem, count in self.missing.most_common())
            total = self.missing.total()
        return (f"{NAME}: {total:,} scores are missing ({reasons})",) if total else ()

    def score(self, query: ReportText, candidates: Sequence[ReportText]) -> np.ndarray:
        """Scores of C candidates from 0 to 1, ``(C,)`` float32; NaN beyond ``depth``, and for an unreadable answer.

        Raises:
            ValueError: If an answer is missing, which would falsify what is measured. The answers so far are stored:
                the same command goes on from there.
        """
        scores = np.full(len(candidates), np.nan, dtype=np.float32)
        asked = [self._messages(query, candidate) for candidate in candidates[: self.depth]]
        pairs = [content_hash(conversation) for conversation in asked]
        stored = self.cache.read(pairs)
        missing = {pair: conversation for pair, conversation in zip(pairs, asked, strict=True) if pair not in stored}
        answers = stored | self._ask(missing)
        for place, pair in enumerate(pairs):
            answer = answers[pair]
            if isinstance(answer, Failure):
                raise ValueError(self._advice(answer))
            if answer is None:
                self._count(UNREADABLE)
            else:
                scores[place] = answer
        return scores

    def _messages(self, query: ReportText, candidate: ReportText) -> list[dict[str, Any]]:
        return messages(query, candidate, self.question.answer, self.question.max_characters)

    def _ask(self, missing: Mapping[str, list[dict[str, Any]]]) -> dict[str, float | Failure | None]:
        """The scores of pairs by their hash; None where an answer cannot be read."""
        if not missing:
            return {}
        with ThreadPoolExecutor(min(self.concurrency, len(missing))) as pool:
            return dict(zip(missing, pool.map(self._ask_one, missing.keys(), missing.values()), strict=True))

    def _ask_one(self, pair: str, conversation: list[dict[str, Any]]) -> float | Failure | None:
        refusal = self._take_call()
        if refusal:
            return refusal
        answer = self.endpoint.complete(self.question.model, conversation, self.question.fields)
        if isinstance(answer, Failure):
            return answer
        score = read_score(answer, self.question.answer)
        self.cache.write({pair: score})  # at once: an error of the next request costs no answer
        return score

    def _take_call(self) -> Failure | None:
        """Counts a request; a failure if none may be sent."""
        with self._lock:
            if self.max_calls is not None and self.calls >= self.max_calls:
                return Failure(CAP)
            self.calls += 1
            return None

    def _advice(self, failure: Failure) -> str:
        """What to do about a missing answer."""
        advice = "raise it" if failure.problem == CAP else "check the endpoint"
        return (
            f"{self.endpoint.base_url}: {failure.problem} ({self.calls:,} requests so far): {advice}, then run the same"
            " command again, which goes on from here; or leave llm out"
        )

    def _count(self, problem: str) -> None:
        with self._lock:
            self.missing[problem] += 1
        self.endpoint.failed(problem)  # logged once


def load_llm_check(
    name: str,
    base_url: str | None,
    model: str,
    answer: str,
    depth: int,
    max_characters: int,
    max_tokens: int | None,
    temperature: float | None,
    seed: int | None,
    extra_body: Mapping[str, Any],
    concurrency: int,
    timeout: float,
    max_retries: int,
    max_calls: int | None,
    cache_dir: str | Path,
) -> LlmCheck:
    """Prepares the check, without sending anything; for key, redirects and retries see ``open_endpoint``.

    Args:
        name: Short name, for messages.
        base_url: Address of the endpoint; None takes ``OPENAI_BASE_URL``.
        model: Name of the model there.
        answer: See ``read_score``.
        depth: Number of candidates to ask about.
        max_characters: Length that each description is cut to.
        max_tokens: Length of an answer; None takes the endpoint's default, as for the next two.
        temperature: 0 for the most likely answer.
        seed: Seed of endpoints that sample even so.
        extra_body: Further fields of each request.
        concurrency: Number of requests at a time.
        timeout: Seconds to wait for data from the endpoint.
        max_retries: Further attempts after a temporary refusal, a failure or a time-out.
        max_calls: See ``LlmCheck``.
        cache_dir: See ``LlmCheck``.

    Raises:
        ValueError: If the key, the address or the package ``openai`` is missing, or a setting is out of range.
    """
    if answer not in ANSWERS:
        raise ValueError(f"llm.answer={answer} is unknown: choose {' or '.join(ANSWERS)}")
    limits = {"depth": depth, "max_characters": max_characters, "concurrency": concurrency, "max_calls": max_calls}
    for option, value in limits.items():
        if value is not None and value < 1:
            raise ValueError(f"llm.{option}={value} must be 1 or more")
    endpoint = open_endpoint("llm", name, base_url, timeout, max_retries)
    fields = optional_fields(max_tokens, temperature, seed, answer_fields(answer) | dict(extra_body))
    question = LlmQuestion(endpoint.base_url, model, answer, max_characters, fields)
    return LlmCheck(endpoint, question, cache_dir, depth, concurrency, max_calls)
