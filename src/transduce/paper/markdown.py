"""Markdown for the reports of the paper's tables and figures."""

from collections.abc import Collection, Iterable, Sequence


def markdown_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[int] = ()
) -> str:
    """Format a table.

    Args:
        head: column titles.
        rows: cells as Markdown, one per column.
        numbers: indices of the columns to align right.

    >>> print(markdown_table(("model", "BLEU"), [("base", "27.3")], numbers=(1,)))
    | model | BLEU |
    | --- | --: |
    | base | 27.3 |
    """
    rule = ["--:" if column in numbers else "---" for column in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))
