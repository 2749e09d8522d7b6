"""What a call on a cluster returned, or why it returned nothing: the one place that reads Ray's errors of calls."""

from __future__ import annotations

from typing import Any

from refaug.core.cluster.calls import Failure
from refaug.core.errors import RefaugError


class ProcessLost(Exception):
    """The process of a call, or its machine, has died: Ray's error says how."""

    def __init__(self, error: Exception) -> None:
        super().__init__(type(error).__name__)
        self.error = error


def answer_or_failure(ray: Any, reference: Any, what: str) -> Any:
    """Return what a call returned, an error of refaug's own as a Failure.

    An error that is not refaug's own is raised as RefaugError, which says that `what` failed; the death of its process
    as ProcessLost.
    """
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise RefaugError(
            f"{what} failed on the cluster: {error.cause!r}",
            remedy="the logs of Ray on that machine have more; please report it",
        ) from error
    except ray.exceptions.RayError as error:
        raise ProcessLost(error) from error


def result_of(ray: Any, reference: Any, what: str) -> Any:
    """Return what a call returned; an error of refaug's own is raised here as it was there."""
    answer = answer_or_failure(ray, reference, what)
    if isinstance(answer, Failure):
        answer.raise_again()
    return answer
