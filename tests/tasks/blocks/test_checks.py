"""Numbers that do not fit each other."""

import pytest

from invariscope.errors import ConfigError
from invariscope.tasks.blocks import AssociativeRecall, KHop, Ngram


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (AssociativeRecall, {"num_blocks": 0}, "num_blocks = 0; expected 1 or more"),
        (AssociativeRecall, {"rare_share": 1.5}, "rare_share = 1.5; expected a share from 0 to 1"),
        (AssociativeRecall, {"contexts": "some"}, "contexts = 'some'; expected homogeneous or mixed"),
        (AssociativeRecall, {"rare_share": 0.5}, "rare_share = 0.5 without common units; expected num_common above 0"),
        (AssociativeRecall, {"zipf": -1.0}, "zipf = -1.0, symmetric = False"),
        (Ngram, {"symmetric": True}, "a symmetric relation of pairs only"),
        (AssociativeRecall, {"num_blocks": 5}, "recall with 5 blocks, which needs 10 of 8 units 'token'; .* raise num_rare"),
        (AssociativeRecall, {"burstiness": 4}, "num_blocks = 3 with 1 blocks a unit, 4 copies of relevant units; expected 4, or"),
        (KHop, {"num_blocks": 3}, "num_blocks = 3 with 2 blocks a unit"),
        (AssociativeRecall, {"num_blocks": 5, "burstiness": 2, "burst": "all"}, "2 copies of all units"),
    ],
)
def test_what_does_not_fit_is_refused(kind, fields, message):
    with pytest.raises(ConfigError, match=message):
        kind(**fields)
