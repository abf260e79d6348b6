"""Draw the semantic flow graph of a Java method."""

from functools import partial
from pathlib import Path

from omegaconf import DictConfig

from gedbd.configuration.command import command
from gedbd.configuration.command_words import positional_path
from gedbd.io.command_output import record
from gedbd.io.console import open_console, print_line, print_path

VALUE_FLAGS = ("method", "line", "out")


@command("flow_graph", partial(positional_path, value_flags=VALUE_FLAGS), VALUE_FLAGS)
def main(cfg: DictConfig) -> None:
    """Finds the method, writes its figure as SVG and PNG, and prints its nodes and edges."""
    from gedbd.localization.flow_graph.java_methods import AmbiguousMethodError, choose_method, read_source

    console = open_console()
    source, source_warnings = read_source(Path(cfg.path), cfg.max_megabytes)
    try:
        method, is_overloaded = choose_method(source, str(cfg.path), cfg.method, cfg.line)
    except AmbiguousMethodError as error:
        raise ValueError(f"{error} (--method NAME, --line NUMBER)") from error
    from gedbd.io.command_output import print_table
    from gedbd.localization.flow_graph.flow_graph_figure import (
        LEFT_OUT,
        check_size,
        edge_table,
        node_table,
        write_figures,
    )
    from gedbd.localization.flow_graph.parse import method_graph

    graph = method_graph(method.code)
    check_size(graph, cfg.max_nodes)
    stem = Path(cfg.out) / (f"{method.name}-{method.line}" if is_overloaded else method.name)
    title = f"{method.name}, {Path(cfg.path).name}:{method.line}"
    files, figure_warnings = write_figures(graph, method.code, title, stem, method.line)
    tables = {"nodes": node_table(graph, method.code, method.line), "edges": edge_table(graph)}
    record(method=method.name, line=method.line, files=files, **tables)
    for name, table in tables.items():
        print_table(console, table, name.capitalize())
    for warning in (*source_warnings, *figure_warnings, *([LEFT_OUT] if graph.is_approximate else [])):
        print_line(console, warning)
    for file in files:
        print_path(console, "written:", file)


if __name__ == "__main__":
    main()
