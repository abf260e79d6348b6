"""Draw the semantic flow graph of a Java method."""

from functools import partial
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console

from gedbd.configuration.command import command
from gedbd.configuration.positional import path_and_flags


@command("flow_graph", partial(path_and_flags, option="path", flags=("method", "line", "out")))
def main(cfg: DictConfig) -> None:
    """Finds the method, writes its figure as SVG and PNG, and prints its nodes and edges."""
    from gedbd.code.method_choice import choose_method, read_source
    from gedbd.code.parse import method_graph
    from gedbd.evaluation.flow_graph_files import check_size, edge_table, node_table, write_figures

    console = Console(highlight=False, markup=False)
    say = partial(console.print, soft_wrap=True)
    source, source_warnings = read_source(Path(cfg.path), cfg.max_megabytes)
    method, is_overloaded = choose_method(source, str(cfg.path), cfg.method, cfg.line)
    graph = method_graph(method.code)
    check_size(graph, cfg.max_nodes)
    stem = Path(cfg.out) / (f"{method.name}-{method.line}" if is_overloaded else method.name)
    title = f"{method.name}, {Path(cfg.path).name}:{method.line}"
    files, figure_warnings = write_figures(graph, method.code, title, stem, method.line)
    console.print(node_table(graph, method.code, method.line))
    console.print(edge_table(graph))
    for warning in (*source_warnings, *figure_warnings):
        say(warning)
    if graph.is_approximate:
        say("the method is so large that edges are left out")
    for file in files:
        say(f"written: {file}")


if __name__ == "__main__":
    main()
