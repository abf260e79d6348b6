import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.relevance import Groups, Links


def links_of(pairs: list[tuple[int, int]], num_queries: int, num_documents: int) -> Links:
    table = pd.DataFrame(pairs, columns=["query", "document"], dtype=np.int64).assign(source="link", made_at=pd.NaT)
    return Links(table, num_queries, num_documents)


def test_the_other_members_of_a_group_are_relevant():
    groups = Groups(np.array([0, 1, 0, 3, 1, 0]))
    assert [groups.relevant(row).tolist() for row in range(6)] == [[2, 5], [4], [0, 5], [], [1], [0, 2]]
    assert groups.sizes.tolist() == [3, 2, 3, 1, 2, 3]
    assert groups.in_group.tolist() == [True, True, True, False, True, True]


def test_documents_that_are_linked_to_a_query_are_relevant():
    links = links_of([(1, 4), (1, 0), (0, 2), (1, 4)], num_queries=3, num_documents=5)
    assert [links.relevant(row).tolist() for row in range(3)] == [[2], [0, 4], []]
    with pytest.raises(IndexError):
        links.relevant(3)


def test_groups_are_the_components_of_links():
    groups = Groups.from_links(links_of([(3, 1), (4, 3), (5, 0)], 6, 6))
    assert groups.group.tolist() == [0, 1, 2, 1, 1, 0]


def test_links_since_a_row_are_numbered_from_it():
    links = links_of([(3, 1), (4, 3), (5, 0)], 6, 6).since(2)
    assert links.pairs.tolist() == [[2], [1]]
    assert (links.num_queries, links.num_documents) == (4, 4)
