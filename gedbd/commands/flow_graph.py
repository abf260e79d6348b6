"""Write the semantic flow graph of a Java method as Mermaid and DOT, for GitHub, mkdocs and Graphviz."""

from functools import partial
from pathlib import Path

from omegaconf import DictConfig

from gedbd.configuration.command import command
from gedbd.configuration.command_words import positional_options
from gedbd.io.command_output import print_table, record
from gedbd.io.console import open_console, print_line, print_path

VALUE_FLAGS = ("method", "line", "out")


@command("flow_graph", partial(positional_options, options=("path",)), VALUE_FLAGS)
def main(cfg: DictConfig) -> None:
    """Finds the method, writes its graph as Mermaid and DOT, and prints its nodes and edges."""
    from gedbd.localization.flow_graph.java_source import AmbiguousMethodError, choose_method, read_source
    from gedbd.localization.flow_graph.node_types import edge_table, node_table, write_graph
    from gedbd.localization.flow_graph.parse import method_graph

    console = open_console()
    source, warnings = read_source(Path(cfg.path), cfg.max_megabytes)
    try:
        method, is_overloaded = choose_method(source, str(cfg.path), cfg.method, cfg.line)
    except AmbiguousMethodError as error:
        raise ValueError(f"{error} (--method NAME, --line NUMBER)") from error
    graph = method_graph(method.code)
    tables = {"nodes": node_table(graph, method.code, method.line), "edges": edge_table(graph)}
    stem = Path(cfg.out) / (f"{method.name}-{method.line}" if is_overloaded else method.name)
    title = f"{method.name}, {Path(cfg.path).name}:{method.line}"
    files, graph_warnings = write_graph(graph, tables["nodes"], title, stem)
    record(method=method.name, line=method.line, files=files, **tables)
    for name, table in tables.items():
        print_table(console, table, name.capitalize())
    for warning in (*warnings, *graph_warnings):
        print_line(console, warning)
    for file in files:
        print_path(console, "written:", file)
