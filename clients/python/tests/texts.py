"""Any text that Python can hold, for properties."""

from __future__ import annotations

from hypothesis import strategies as st

from botwired._values import joined


def texts(min_size: int = 0, max_size: int | None = None) -> st.SearchStrategy[str]:
    """Return the strategy. Characters that databases and parsers stumble over are frequent."""
    odd = st.sampled_from('\0\ud800\ud83d\udbff\udc00\udc97\udfff\ufeff\uffff\u2028"\\')
    return st.text(st.characters() | odd, min_size=min_size, max_size=max_size).map(joined)
