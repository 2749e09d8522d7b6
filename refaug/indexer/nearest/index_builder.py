"""Building an index of unit vectors: training on a sample, adding, writing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, Self

import faiss
import numpy as np

from refaug.core.errors import Usage
from refaug.core.files import write_aside
from refaug.core.progress import Progress, Silent
from refaug.indexer.nearest.faiss_calls import Vectors, one_path, openmp_threads, padded, padded_rows, untyped_faiss
from refaug.indexer.nearest.faiss_index import AnnIndex
from refaug.indexer.nearest.index_files import read_index, with_projection
from refaug.indexer.nearest.index_kinds import components_of, lists_of, make_index
from refaug.indexer.nearest.projection import Projection

# Points per centroid, 100,000 utterances, 1,024 lists, 16 of them searched: recall@15 is .866 with 39, .867 with 64 and
# .864 with 97, while training takes 1.8, 3.2 and 5.3 s; more were not tried. FAISS warns below 39; 64 leaves room for a
# sample that falls short because some utterances have no vector.
POINTS_A_LIST: Final = 64
LEAST_POINTS_A_LIST: Final = 39
ITERATIONS: Final = 10  # of k-means
_CODE_SAMPLE: Final = 65_536  # vectors from which codes learn their range; other numbers were not tried


class AnnBuilder:
    """Builds an index: trained on a sample, then filled with all vectors in blocks; ids are 0, 1, … in that order."""

    def __init__(self, index: Any, projection: Projection | None, threads: int) -> None:
        self._index, self.projection, self.search_threads = index, projection, threads

    @staticmethod
    def training_rows(factory: str, rows: int) -> int:
        """Return how many of so many vectors the training sample should have."""
        if re.fullmatch(r"Flat|SQ(fp|bf)16|HNSW\d*(,Flat)?", factory):
            return 0
        lists = re.match(r"(?:PCAR\d+,)?IVF(\d+)", factory)
        return min(rows, max(_CODE_SAMPLE, POINTS_A_LIST * int(lists[1]) if lists else 0))

    @classmethod
    def train(
        cls,
        factory: str,
        dimensions: int,
        sample: Vectors,
        *,
        seed: int = 0,
        threads: int = 1,
        progress: Progress | None = None,
    ) -> Self:
        """Learn lists and codes from a random sample; the result does not depend on the number of threads."""
        index, progress, components = make_index(factory, dimensions), progress or Silent(), components_of(factory)
        sample, lists = padded_rows(sample, padded(dimensions)), lists_of(index)
        if len(sample) < LEAST_POINTS_A_LIST * lists:
            raise Usage(
                f"{factory!r} has {lists:,} lists, which take {LEAST_POINTS_A_LIST * lists:,} vectors to be found; "
                f"there are {len(sample):,}",
                remedy="use fewer lists, or Flat",
            )
        if not lists and not index.is_trained and not len(sample):
            raise Usage(f"{factory!r} learns from vectors, and there is none", remedy="use Flat")
        projection = Projection.learn(sample, components, seed) if components else None
        builder = cls(index, projection, threads)
        if projection is not None:
            sample = projection.project_stored(sample)
        with openmp_threads(threads):
            if lists:
                progress.stage("finding lists", ITERATIONS, "rounds")
                centroids = _k_means(sample, lists, seed, progress, spherical=projection is None)
                builder._add_centroids(centroids)
            if not index.is_trained:
                index.train(sample[:_CODE_SAMPLE])
        return builder

    def _add_centroids(self, centroids: Vectors) -> None:
        """Give an IVF index its centroids, so that FAISS does not compute them itself."""
        quantizer = faiss.downcast_index(self._index.quantizer)
        with openmp_threads(_threads_to_add(quantizer, self.search_threads)):
            quantizer.add(centroids)

    def write_trained(self, path: Path) -> None:
        """Save the trained state, so that an interrupted build need not train again."""
        assert not self._index.ntotal, "vectors were added already"
        self.write(path)

    @classmethod
    def open_trained(cls, path: Path, *, threads: int = 1) -> Self:
        """Return a builder that continues after training."""
        return cls(*read_index(path, 0), threads)

    @classmethod
    def open_emptied(cls, path: Path, *, threads: int = 1) -> Self:
        """Return a builder with the training of a finished index, and none of its vectors."""
        index, projection = read_index(path, 0)
        index.reset()
        return cls(index, projection, threads)

    def project(self, block: Vectors) -> Vectors:
        """Return these vectors as they are stored: padded, and projected if there is a projection."""
        stored = self._index.d if self.projection is None else len(self.projection.matrix)
        rows = padded_rows(block, stored)
        return rows if self.projection is None else self.projection.project_stored(rows)

    def add(self, block: Vectors) -> Vectors:
        """Project and add further vectors, which get the next ids; return what `project` makes of them.

        A graph depends on how the vectors are cut into blocks, lists and codes do not.
        """
        stored = self.project(block)
        if len(block):
            with openmp_threads(_threads_to_add(self._index, self.search_threads)), one_path():
                self._index.add(stored)
        return stored

    def write(self, path: Path) -> None:
        """Write the index, whole or not at all."""
        whole = self._index if self.projection is None else with_projection(self.projection, self._index)
        with write_aside(path) as file:
            faiss.write_index(whole, untyped_faiss.PyCallbackIOWriter(file.write))

    def index(self) -> AnnIndex:
        """Return the vectors added so far as an index that can be searched without writing it."""
        return AnnIndex(self._index, self.projection)


def _threads_to_add(index: Any, threads: int) -> int:
    """Return how many threads add vectors: one for graphs.

    FAISS does not promise the same graph from several threads, though two made the same one of 30,000 vectors.
    """
    return 1 if isinstance(index, faiss.IndexHNSW) else threads


def _k_means(sample: Vectors, lists: int, seed: int, progress: Progress, *, spherical: bool) -> Vectors:
    """Compute centroids, of unit length if spherical, one round per call, so that progress shows and Ctrl-C works."""
    most_points = POINTS_A_LIST * lists
    if len(sample) > most_points:
        sample = sample[np.sort(np.random.default_rng(seed).permutation(len(sample))[:most_points])]
    settings = faiss.ClusteringParameters()
    settings.niter, settings.seed, settings.spherical = 1, seed, spherical
    settings.min_points_per_centroid, settings.max_points_per_centroid = 1, POINTS_A_LIST
    centroids = np.empty(0, np.float32)
    for _ in range(ITERATIONS):
        clustering = faiss.Clustering(sample.shape[1], lists, settings)
        faiss.copy_array_to_vector(centroids, clustering.centroids)  # empty in the first round: FAISS draws points
        clustering.train(sample, (faiss.IndexFlatIP if spherical else faiss.IndexFlatL2)(sample.shape[1]))
        centroids = faiss.vector_to_array(clustering.centroids)
        progress.advance(1)
    return centroids.reshape(lists, -1)
