"""Options of older run folders in the form of this version."""

from typing import Any

# Runs once named their protocols in a list: ranking.protocols=[earlier, test_pool].
NAMED_PROTOCOLS = {
    "earlier": "gedbd.retrieval.ranking_tasks.EarlierReports.find",
    "test_pool": "gedbd.retrieval.ranking_tasks.ReportPool.find",
}


def with_finders(options: dict[str, Any], source: str) -> dict[str, Any]:
    """Options whose protocols are a mapping from names to finders, as ``conf/protocol`` declares them.

    Args:
        options: The options of a run folder.
        source: The file, for messages.

    Raises:
        ValueError: If a list of protocols names an unknown one.
    """
    ranking = options.get("ranking")
    if not isinstance(ranking, dict) or not isinstance(ranking.get("protocols"), list):
        return options
    unknown = [name for name in ranking["protocols"] if name not in NAMED_PROTOCOLS]
    if unknown:
        raise ValueError(f"{source} is damaged: it names an unknown protocol of ranking, {unknown[0]}")
    finders: dict[str, dict[str, Any]] = {}
    for name in ranking["protocols"]:
        finders[name] = {"_target_": NAMED_PROTOCOLS[name], "_partial_": True}
    if "earlier" in finders:
        finders["earlier"]["window_days"] = ranking.get("window_days")
    return options | {"ranking": ranking | {"protocols": finders}}
