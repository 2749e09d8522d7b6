"""refaug beside the libraries of Hugging Face: datasets as items, and a metric for `evaluate`.

The main names:

- `dataset_items.items_from`: the rows of a dataset as items, by the names of its columns
- `refaug_evaluate.RefaugEvaluate`: scores of refaug as a metric of `evaluate`
- `EVALUATE_MODULE`: the path of that module, for `evaluate.load`.
"""

from pathlib import Path
from typing import Final

from refaug.library.hugging_face.dataset_items import items_from

EVALUATE_MODULE: Final = str(Path(__file__).with_name("refaug_evaluate.py"))

__all__ = ["EVALUATE_MODULE", "items_from"]
