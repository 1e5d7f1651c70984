from pllab.simulate.judge import Row, judge


def test_theory_and_print_agree_with_the_simulator() -> None:
    rows = judge()
    assert [row for row in rows if not row.holds] == []
    assert len({row.name for row in rows}) == len(rows) >= 14


def test_a_row_holds_when_equal_or_where_a_bound_is_kept() -> None:
    assert Row("n", "s", 1 / 3, 0.3333333333333333).holds and not Row("n", "s", 0.5, 0.5 + 1e-9).holds
    assert Row("n", "s", 0.5, 0.4, at_most=True).holds and not Row("n", "s", 0.5, 0.6, at_most=True).holds
