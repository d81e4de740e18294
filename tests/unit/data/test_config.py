"""Settings out of range are refused by name."""

import pytest

from transduce.data.config import BatchConfig


@pytest.mark.parametrize("field", ["tokens", "micro_tokens"])
def test_batch_setting_out_of_range_is_named(field: str):
    with pytest.raises(ValueError, match=rf"^batch\.{field} must be 1 or more, not 0"):
        BatchConfig(**{field: 0})
