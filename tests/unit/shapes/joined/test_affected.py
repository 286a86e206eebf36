"""By which hops the affected leads of a window are found."""

from __future__ import annotations

from airflow_backfill_provider.shapes.joined.affected import AffectedStep, Hop
from airflow_backfill_provider.shapes.joined.tree import Pair
from tests.unit.shapes.joined.shop import resolved

CHAIN = (
    "SELECT o.id, k.name FROM orders o LEFT JOIN customers c ON c.id = o.customer_id LEFT JOIN countries k ON "
    "k.code = "
    "c.country LEFT JOIN orders p ON p.id = o.parent_id"
)


def plan(text):
    return resolved(text).affected[0]


def test_a_chain_is_followed_from_its_end_up_to_the_lead():
    """A changed country finds customers as of the window's end, and these find orders."""
    assert plan(CHAIN).steps == (
        AffectedStep("p", "orders", ("id",), ()),
        AffectedStep("k", "countries", ("code",), ()),
        AffectedStep("c", "customers", ("id",), (Hop("k", (Pair("country", "code"),)),)),
        AffectedStep(
            "o", "orders", ("id",), (Hop("c", (Pair("customer_id", "id"),)), Hop("p", (Pair("parent_id", "id"),)))
        ),
    )


def test_both_images_of_a_join_column_are_needed_of_each_upstream():
    """A table that is joined by another column than its key moves between the values of that column."""
    text = "SELECT o.id FROM orders o LEFT JOIN customers c ON c.code = o.day LEFT JOIN orders p ON p.day = c.id"
    assert plan(text).image_columns == {"orders": ("day", "id"), "customers": ("code",)}


def test_rows_are_looked_up_only_where_something_may_lead_further():
    """A dimension without dimensions of its own is read by its changes alone."""
    columns = {step.role: step.columns for step in plan(CHAIN).steps}
    assert columns == {"k": (), "p": (), "c": ("id", "country"), "o": ("id", "customer_id", "parent_id")}


def test_a_window_in_which_one_upstream_changed_follows_its_own_chain():
    """Nothing is looked up for dimensions that rest."""
    found = {
        changed: [
            (step.role, [hop.child for hop in step.hops]) for step in plan(CHAIN).after(frozenset([changed])).steps
        ]
        for changed in ("countries", "customers", "orders")
    }
    assert found == {
        "countries": [("k", []), ("c", ["k"]), ("o", ["c"])],
        "customers": [("c", []), ("o", ["c"])],
        "orders": [("p", []), ("o", ["p"])],
    }


def test_each_branch_of_a_union_has_a_plan():
    """The same table may lead one branch and be a dimension of another one."""
    plans = resolved(
        "SELECT id, day FROM orders UNION ALL SELECT r.id, o.day FROM returns r JOIN orders o ON o.id = r.order_id"
    ).affected
    assert [[(step.role, step.gives) for step in plan.steps] for plan in plans] == [
        [("orders", ("id",))],
        [("o", ("id",)), ("r", ("id",))],
    ]
