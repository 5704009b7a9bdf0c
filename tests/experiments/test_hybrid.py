"""BM25, fusions and judgements against what was worked out by hand, and the queries taken out."""

from __future__ import annotations

import weakref
from dataclasses import replace
from inspect import signature
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from experiment_worlds import dataset, index_of, run, target, world
from numpy.typing import NDArray

from vectrial.experiments.common import hybrid_truth
from vectrial.experiments.hybrid.experiment import HybridSearch
from vectrial.experiments.registry import all_metrics
from vectrial.model.capabilities import Hybrid, Index, NoParams, Params
from vectrial.model.context import Data
from vectrial.model.dataset import Dataset
from vectrial.model.errors import StoreError, Unsupported
from vectrial.model.fusion import Blend, Bm25, Fusion, RankedRows, fuse, similarity, top_rows, words
from vectrial.model.lane import Lane
from vectrial.model.metric import Metric, distances
from vectrial.model.phase import Phase, State, Turn
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.model.store import Hits, HybridSearcher, Store
from vectrial.stores.memory import MemoryStore
from vectrial.workload.ndcg import NdcgScorer, RelevanceJudgments, ndcg
from vectrial.workload.python.closed_loop import closed_loop


def test_words_are_runs_of_letters_and_digits() -> None:
    assert words("Über-cool: C3PO's foo_bar, 3.0") == [
        "über", "cool", "c3po", "s", "foo", "bar", "3", "0",
    ]  # fmt: skip


def test_bm25_is_the_formula() -> None:
    index = Bm25(["red fish", "red red fish", "blue", None])
    mean, length = (2 + 3 + 1) / 4, 3
    idf = np.log(1 + (4 - 2 + 0.5) / (2 + 0.5))
    wanted = idf * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * length / mean))
    found = index.scores("RED")
    assert found[1] == pytest.approx(wanted)
    assert found.tolist()[2:] == [0, 0]
    assert index.scores("red red")[1] == pytest.approx(2 * wanted)
    assert not index.scores("nothing of it").any()


def ranking(rows: list[int], scores: list[float]) -> RankedRows:
    return RankedRows(np.array(rows), np.array(scores))


DENSE, TEXT = ranking([4, 7, 1], [0.9, 0.5, 0.1]), ranking([7, 2], [8.0, 2.0])


@pytest.mark.parametrize(
    ("fusion", "scores"),
    [
        (Fusion.RELATIVE_SCORE, {4: 0.25, 7: 0.25 * 0.5 + 0.75, 1: 0.0, 2: 0.0}),
        (
            Fusion.RECIPROCAL_RANK,
            {4: 0.25 / 61, 7: 0.25 / 62 + 0.75 / 61, 1: 0.25 / 63, 2: 0.75 / 62},
        ),
        (Fusion.WEIGHTED_SUM, {4: 0.225, 7: 0.125 + 6.0, 1: 0.025, 2: 1.5}),
    ],
)  # fmt: skip
def test_a_fusion_is_its_formula(fusion: Fusion, scores: dict[int, float]) -> None:
    found = fuse(DENSE, TEXT, 0.25, fusion)
    assert dict(zip(found.rows.tolist(), found.scores, strict=True)) == pytest.approx(scores)
    assert (np.diff(found.scores) <= 0).all()
    assert found.rows[0] == 7
    assert fuse(DENSE, TEXT, 1.0, fusion).rows.tolist() == [4, 7, 1]
    assert fuse(DENSE, TEXT, 0.0, fusion).rows.tolist() == [7, 2]


def test_the_best_are_above_the_bound_and_ties_go_by_row() -> None:
    assert top_rows(np.array([0.0, 2.0, 5.0, 2.0]), 2).rows.tolist() == [2, 1]
    assert top_rows(np.array([-1.0, -3.0, -2.0]), 2, -np.inf).rows.tolist() == [0, 2]


def test_ndcg_is_the_formula_and_a_row_gains_once() -> None:
    two, one = frozenset({5, 6}), frozenset({9})
    most = 1 + 1 / np.log2(3)
    assert ndcg(np.array([5, 6, 1]), two, 3) == 1
    assert ndcg(np.array([1, 5, 5]), two, 3) == pytest.approx((1 / np.log2(3)) / most)
    assert ndcg(np.array([1, 2, 3, 9]), one, 3) == 0
    scorer = NdcgScorer.for_clients(RelevanceJudgments(3, (two, one), (1.0, 1.0)), 2)
    scorer.add_answer(0, 1, np.array([9]))
    scorer.add_answer(1, 1, np.array([], np.int64))
    assert scorer.total().metrics() == {"ndcg": 0.5, "ndcg_exact": 1.0}


def test_the_exact_fusion_is_worth_what_it_is_for_the_requests_that_were_answered() -> None:
    """One that failed, or was not sent for want of time, is in neither mean; one that was asked
    more often than another is in both as often."""

    def fails(vector: object, /) -> Hits:
        raise RuntimeError("too slow")

    def finds(vector: object, /) -> Hits:
        return np.array([9]), np.array([1.0], np.float32)

    judgments = RelevanceJudgments(
        1, [frozenset({5}), frozenset({9}), frozenset({9})], (1.0, 0.25, 0.75)
    )
    queries = np.zeros((3, 2), np.float32)
    phase = closed_loop(
        [fails, finds, finds], queries, None, warmup_count=0, count=6, judgments=judgments
    )
    assert (phase.metrics["count"], phase.metrics["errors"]) == (4, 2)
    assert (phase.metrics["ndcg"], phase.metrics["ndcg_exact"]) == (1.0, 0.5)


def told(rows: int = 60) -> Dataset:
    metadata = pa.table(
        {
            "package": [f"p{row}" for row in range(rows)],
            "source": [None if row < 5 else f"s{row // 3}" for row in range(rows)],
            "about": [f"text of row {row} about {row % 7}" for row in range(rows)],
        }
    )
    return replace(dataset(rows), metadata=metadata)


def test_queries_are_taken_out_and_what_is_relevant_stays() -> None:
    whole = told()
    task = hybrid_truth.make_task(whole, None, "source", 10, seed=1)
    assert task.field == "about"
    assert len(task.texts) == len(task.dataset.queries) == 10
    assert task.dataset.rows == 50
    taken = set(whole.ids.tolist()) - set(task.dataset.ids.tolist())
    assert task.relevant is not None
    assert whole.metadata is not None
    source = dict(zip(whole.ids.tolist(), whole.metadata["source"].to_pylist(), strict=True))
    for text, relevant in zip(task.texts, task.relevant, strict=True):
        of = source[int(whole.ids[int(text.split()[3])])]
        assert of is not None
        assert relevant == {id_ for id_ in source if source[id_] == of} - taken
        assert relevant
    with pytest.raises(StoreError, match="no two rows"):
        hybrid_truth.make_task(whole, "about", "package", 10, seed=1)
    assert hybrid_truth.make_task(whole, "about", None, 10, seed=1).relevant is None


def ends() -> tuple[hybrid_truth.HybridTruthTask, list[Blend]]:
    task = hybrid_truth.make_task(told(), "about", "source", 10, seed=1)
    return task, [Blend("about", alpha, Fusion.RELATIVE_SCORE, 20) for alpha in (1.0, 0.0)]


def test_at_the_ends_the_exact_fusion_is_one_side() -> None:
    task, blends = ends()
    vector, text = hybrid_truth.exact_fusions(task, 4, blends, whole_text=False)
    ids, dataset = task.dataset.ids, task.dataset
    assert dataset.metadata is not None
    assert vector.judgments is not None
    for at, (found, query) in enumerate(zip(vector.truth.ids, dataset.queries, strict=True)):
        near = np.argsort(distances(query, dataset.vectors, dataset.metric))[:4]
        assert found.tolist() == ids[near].tolist()
        assert vector.judgments.exact[at] == ndcg(found, vector.judgments.relevant[at], 4)
    index = Bm25(dataset.metadata["about"].to_pylist())
    truth = text.truth
    for at, asked in enumerate(task.texts):
        scores = index.scores(asked)
        accepted = truth.accept_ids[truth.accept_offsets[at] : truth.accept_offsets[at + 1]]
        least = np.sort(scores)[-4]
        assert set(accepted.tolist()) >= set(ids[scores > least].tolist())


def test_scores_of_all_rows_are_held_for_one_query_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[weakref.ref[NDArray[np.float64]]] = []
    scores = Bm25.scores

    def watched(self: Bm25, text: str) -> NDArray[np.float64]:
        assert not any(one() is not None for one in made)
        found = scores(self, text)
        made.append(weakref.ref(found))
        return found

    monkeypatch.setattr(Bm25, "scores", watched)
    task, blends = ends()
    hybrid_truth.exact_fusions(task, 4, blends, whole_text=True)
    assert len(made) == len(task.texts), "once for all weights"


def test_what_cannot_be_asked_is_refused_with_the_reason() -> None:
    flat = Index("flat", NoParams())
    with pytest.raises(Unsupported, match="memory has no search by the words"):
        HybridSearch().points(target(MemoryStore, flat, 100))

    class Told(MemoryStore):
        capabilities = replace(
            MemoryStore.capabilities, hybrid=Hybrid({Fusion.WEIGHTED_SUM: "made up"}, "words")
        )

    with pytest.raises(Unsupported, match="does not fuse by 'relative_score'"):
        HybridSearch(fusion=Fusion.RELATIVE_SCORE).points(target(Told, flat, 100))
    data = Data(Schema(4, Metric.L2, (Field("n", FieldType.INT),)), 100)
    (point,) = HybridSearch().points(target(Told, flat, 100))
    with pytest.raises(Unsupported, match="no column of texts"):
        HybridSearch().check_point(target(Told, flat, data), point)


class Told(MemoryStore):
    """Ranks the texts of its rows exactly, and joins both rankings by the formula."""

    capabilities = replace(
        MemoryStore.capabilities, hybrid=Hybrid({Fusion.RELATIVE_SCORE: "made up"}, "BM25")
    )

    def indexed(self, texts: list[str | None]) -> list[str | None]:
        """What of each row's text is in the index."""
        return texts

    def hybrid_searcher(self, k: int, params: Params, blend: Blend) -> HybridSearcher:
        rows = pa.Table.from_batches(list(self.scan()))
        ids, vectors = rows["id"].to_numpy(), np.array(rows["vector"].to_pylist(), np.float32)
        index = Bm25(self.indexed(rows[self._open.schema.columns[blend.field]].to_pylist()))

        def search(vector: NDArray[np.float32], text: str, /) -> Hits:
            near = similarity(distances(vector, vectors, Metric.L2), Metric.L2, blend.fusion)
            sides = (
                top_rows(near, blend.candidates, -np.inf),
                top_rows(index.scores(text), blend.candidates),
            )
            found = fuse(*self.joined(*sides), blend.alpha, blend.fusion)
            return ids[found.rows[:k]], found.scores[:k].astype(np.float32)

        return search

    def joined(self, near: RankedRows, text: RankedRows) -> tuple[RankedRows, RankedRows]:
        return near, text


class NoTextIndex(Told):
    def indexed(self, texts: list[str | None]) -> list[str | None]:
        return [None] * len(texts)


class HalfATextIndex(Told):
    def indexed(self, texts: list[str | None]) -> list[str | None]:
        return [*texts[: len(texts) // 2], *[None] * (len(texts) - len(texts) // 2)]


class VectorForText(NoTextIndex):
    """Without a text index it answers by the vector, whatever the weight."""

    def joined(self, near: RankedRows, text: RankedRows) -> tuple[RankedRows, RankedRows]:
        return near, near


class AlphaInverted(Told):
    """Takes the weight of the vector for that of the text."""

    def joined(self, near: RankedRows, text: RankedRows) -> tuple[RankedRows, RankedRows]:
        return text, near


def worded(rows: int = 100) -> Dataset:
    """Each row has two words of its own, and none that all have."""
    texts = [f"only{row} also{row} some{row // 10}" for row in range(rows)]
    return replace(dataset(rows), metadata=pa.table({"about": texts}))


SHORT = HybridSearch(
    text="about", alphas=(0.0, 0.5, 1.0), queries=8, min_s=0, warmup_queries=0, candidates=20
)


def test_a_store_with_a_text_index_agrees_with_the_exact_fusion(tmp_path: Path) -> None:
    phases = run(SHORT, Told, tmp_path, given=worded())
    assert [phase.metrics["fusion_agreement"] for phase in phases] == [1, 1, 1]


class OneWeight(Told):
    capabilities = replace(
        Told.capabilities,
        hybrid=Hybrid({Fusion.RELATIVE_SCORE: "made up"}, "BM25", equal_weights=True),
    )


def test_a_weight_that_the_store_has_not_is_there_without_a_figure(tmp_path: Path) -> None:
    asked = SHORT.model_copy(update={"alphas": (0.0, 0.25, 0.5, 1.0)})
    phases = {one.params["alpha"]: one for one in run(asked, OneWeight, tmp_path, given=worded())}
    assert {alpha for alpha, one in phases.items() if one.metrics["qps"]} == {0.0, 0.5, 1.0}
    assert phases[0.25].metrics["qps"] is None
    assert "alike" in phases[0.25].missing["qps"]


def test_in_turns_every_weight_has_the_figures_that_it_has_alone(tmp_path: Path) -> None:
    """Of a store that answers exactly: agreement and nDCG do not depend on the load."""
    asked = SHORT.resolve(target(OneWeight, index_of(OneWeight, "flat")).data)
    (point,) = asked.points(target(OneWeight, index_of(OneWeight, "flat")))
    assert asked.takes_turns(point, Lane.EMBEDDED)
    phases = []
    with world(OneWeight, "flat", tmp_path / "turns", State.LOADED, worded()) as context:
        for load in asked.loads(context, point):
            if isinstance(load, Phase):
                phases.append(load)
                continue
            load.open()
            slices = [load.take(Turn(at, 0, 30_000_000), lambda: None) for at in range(3)]
            phases.append(load.close())
            assert phases[-1].metrics["count"] == sum(one.count for one in slices) > 0
    alone = run(SHORT, OneWeight, tmp_path / "alone", given=worded())
    names = ("fusion_agreement", "ndcg", "ndcg_exact")
    told = [{name: phase.metrics.get(name) for name in names} for phase in phases]
    wanted = [{name: phase.metrics.get(name) for name in names} for phase in alone]
    weights = [[phase.params["alpha"] for phase in some] for some in (phases, alone)]
    assert weights[0] == weights[1]
    for one, other in zip(told, wanted, strict=True):
        assert one == pytest.approx(other, abs=0.02), "each query is asked about as often"
    assert "recall_mean" not in phases[0].metrics


@pytest.mark.parametrize(
    ("kind", "found"), [(NoTextIndex, " 0"), (HalfATextIndex, " 14"), (VectorForText, " 2")]
)
def test_without_a_whole_text_index_nothing_is_timed(
    kind: type[Told], found: str, tmp_path: Path
) -> None:
    """Trap 002-5: the column of texts was not the one that was indexed, and hybrid searches were
    answered by their vectors."""
    with pytest.raises(StoreError, match=f"text index is empty.*{found} of 20 texts"):
        run(SHORT, kind, tmp_path, given=worded())


def test_an_inverted_weight_does_not_pass(tmp_path: Path) -> None:
    """Trap 002-5: what was called a search by text alone was one by the vector alone."""
    with pytest.raises(StoreError, match="or not asked"):
        run(SHORT, AlphaInverted, tmp_path, given=worded())


def test_a_filter_beside_a_text_is_not_offered() -> None:
    """Trap 002-5: a filter was ignored where text was asked for as well."""
    assert list(signature(Store.hybrid_searcher).parameters) == ["self", "k", "params", "blend"]
    for name in ("filter", "predicates", "selectivities", "own"):
        with pytest.raises(ValueError, match="Extra inputs"):
            HybridSearch.model_validate({name: True})


@pytest.mark.slow
def test_every_weight_is_a_phase_whose_figures_are_of_the_same_requests(tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    from vectrial.stores.lancedb.store import LanceDB

    asked = HybridSearch(
        text="about", related="source", alphas=(0.0, 0.5, 1.0), queries=8, min_s=0, warmup_queries=0
    )
    phases = run(asked, LanceDB, tmp_path, given=told(600))
    assert [phase.params["alpha"] for phase in phases] == [0.0, 0.5, 1.0]
    for phase in phases:
        assert phase.valid, phase.reason
        assert phase.metrics["count"] == 8
        assert {*phase.metrics, *phase.missing} <= all_metrics().keys()
        assert phase.metrics["fusion_agreement"] > 0.8
        assert phase.metrics["ndcg"] == pytest.approx(phase.metrics["ndcg_exact"], abs=0.2)
    (bare,) = run(
        asked.model_copy(update={"related": None, "alphas": (0.5,)}),
        LanceDB, tmp_path / "bare", given=told(600),
    )  # fmt: skip
    assert bare.metrics["ndcg"] is bare.metrics["ndcg_exact"] is None
    assert "related" in bare.missing["ndcg"]
