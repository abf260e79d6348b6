"""Search an index for duplicates of a report."""

from functools import partial

from omegaconf import DictConfig, OmegaConf

from gedbd.configuration.command import USAGE_STATUS, command, gc_paused, mistakes_in_one_line
from gedbd.configuration.command_words import literal_text
from gedbd.configuration.help import option_words
from gedbd.io.command_output import write_json_line
from gedbd.io.console import open_console, print_line


@command("search", partial(literal_text, option="query", names=option_words("search")))
def main(cfg: DictConfig) -> None:
    """Prints the best groups for each report, their probabilities, and the reasons."""
    if cfg.store and not OmegaConf.is_missing(cfg, "index"):
        raise ValueError("index=, store=: an index is in a folder or on a server; leave one of the two out")
    if cfg.id is not None and (cfg.query, cfg.file) != (None, None):
        raise ValueError("id= searches for a stored report: leave the text and file= out")
    with gc_paused():
        from gedbd.corpora.bug_report import MAX_TOP_K, Filters
        from gedbd.triage.answer import MAX_COMPONENTS, as_json, print_matches, read_queries, unknown_component
        from gedbd.triage.stored_index import open_index, stored_report

        queries = read_queries(cfg.query, cfg.file) if cfg.id is None else iter(())
        filters = Filters.of_texts(cfg.created_from, cfg.created_before, cfg.component)
        folder = "." if cfg.store else cfg.index
        index = open_index(folder, cfg.cache_dir, cfg.get("backend"), url=cfg.store)
    console = open_console()
    if cfg.id is not None:
        queries = iter([stored_report(index, str(cfg.id))])
    elif cfg.query is not None and index.get(str(cfg.query).strip()) is not None:
        with mistakes_in_one_line(cfg, USAGE_STATUS):
            raise ValueError(
                f"{cfg.query} is the id of a stored report, and a text is compared by its words: write id={cfg.query}"
            )
    for report in queries:
        target, lists = index.matching.target, index.matching.list_target
        if cfg.json:
            write_json_line(as_json(report, index.search(report, cfg.top_k, filters), target, lists))
        else:
            group = index.groups([report.issue_id])[report.issue_id]
            marked = [member for member in group if member != report.issue_id]
            best = index.search(report, min(cfg.top_k + bool(marked), MAX_TOP_K), filters)
            matches = [match for match in best if not set(marked) & set(match.members)][: cfg.top_k]
            print_matches(console, report, matches, target, lists, ", ".join(marked))
            if filters.component is not None and not matches:
                known = index.components_like(filters.component, MAX_COMPONENTS)
                problem = unknown_component(filters.component, known)
                if problem:
                    print_line(console, problem)
    index.close()
