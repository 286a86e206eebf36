"""The slow tests of the model are played again if the model has changed."""

from __future__ import annotations

from tests.model.played import RECORD, digest, is_played


def test_any_change_of_the_model_counts(tmp_path):
    """A change of a test as well as one of the model."""
    (tmp_path / "model.py").write_text("x = 1\n", encoding="utf-8")
    assert not is_played(tmp_path)
    (tmp_path / RECORD).write_text(f"{digest(tmp_path)}\n", encoding="utf-8")
    assert is_played(tmp_path)
    for name, text in [("model.py", "x = 2\n"), ("test_new.py", "")]:
        before = (tmp_path / name).read_text(encoding="utf-8") if (tmp_path / name).exists() else None
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert not is_played(tmp_path)
        if before is None:
            (tmp_path / name).unlink()
        else:
            (tmp_path / name).write_text(before, encoding="utf-8")
        assert is_played(tmp_path)
