"""What is planned, skipped and refused, and in which order arms run."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.machine import Gpu
from harness.plan import Plan, baseline_count, block_order, make_plan
from harness.spec import Experiment, Measure, Requires, UsageError
from tests.helpers import TOYS, machine, registry, treatment, workload


def plan(**given: object) -> Plan:
    asked = {"workloads": ("toy",), "arms": ("alpha", "beta"), "preset": "tiny"} | given
    return make_plan(Experiment(**asked), TOYS, machine())  # type: ignore[arg-type]


def test_arms_are_normalised_and_the_baseline_comes_first():
    made = plan(arms=("beta(n=3)+alpha", "alpha + beta(n=3)", "beta(n=2)"))
    (place,) = made.places
    assert made.runs[place] == ("", "alpha+beta(n=3)", "beta")


def test_machine_dependent_parameters_are_written_out():
    assert plan(arms=("cores",)).runs[plan().places[0]] == ("", "cores(n=3)")


def test_what_does_not_apply_is_a_skip_with_a_sentence():
    made = plan(arms=("alpha", "gpu_only", "conv_only"))
    reasons = {skip.arm: skip.reason for skip in made.skips}
    assert reasons == {
        "gpu_only": "gpu_only needs a CUDA device; this run is on cpu",
        "conv_only": "conv_only acts on conv, which toy does not have",
    }
    assert made.runs[made.places[0]] == ("", "alpha")


def test_whole_passes_need_a_loader():
    made = plan(measure=Measure(protocol="epochs"))
    assert made.runs[made.places[0]] == ("", "alpha", "beta")
    resident = plan(measure=Measure(protocol="epochs"), input="resident")
    assert resident.runs[resident.places[0]] == ()
    assert {skip.reason for skip in resident.skips} == {
        "protocol 'epochs' times whole passes over a loader; toy has resident input here"
    }


def test_requests_are_of_inference_and_enough_for_their_percentiles():
    made = plan(measure=Measure(protocol="requests"), mode="infer")
    assert (made.experiment.measure.windows, made.experiment.measure.timed_seconds) == (300, 60.0)
    assert plan(measure=Measure(protocol="requests", windows=120), mode="infer").experiment.measure.windows == 120
    with pytest.raises(UsageError, match="mode 'train' answers none, use mode 'infer'"):
        plan(measure=Measure(protocol="requests"))


def test_of_alternative_packages_any_one_will_do():
    either = treatment("either", requires=Requires(packages=(("first", "second"), "third")))
    toys = registry([either], [workload("toy")])
    asked = Experiment(workloads=("toy",), arms=("either",), preset="tiny")

    def skipped(**packages: str) -> list[str]:
        return [skip.reason for skip in make_plan(asked, toys, machine(packages=packages)).skips]

    assert skipped(third="1") == ["either needs the package first or second, which is not installed"]
    assert skipped(second="1") == ["either needs the package third, which is not installed"]
    assert skipped(second="1", third="1") == []


def test_nothing_runs_where_only_the_baseline_is_left():
    made = plan(arms=("gpu_only",))
    assert made.runs[made.places[0]] == ()


@pytest.mark.parametrize(
    ("arm", "reason"),
    [
        ("compiler+exporter", "compiler and exporter both fill the stage 'compile', which takes one"),
        ("half+third", "half and third both set the precision"),
    ],
)
def test_conflicts_are_derived_and_refused_with_the_reason(arm: str, reason: str):
    with pytest.raises(UsageError, match=reason):
        plan(arms=("alpha", arm))


def test_a_conflict_in_a_treatments_own_words():
    shy = treatment("shy", conflicts=lambda own, others: "shy wants to be alone" if others else None)
    toys = registry([shy, treatment("alpha")], [workload("toy")])
    with pytest.raises(UsageError, match="shy wants to be alone"):
        make_plan(Experiment(workloads=("toy",), arms=("alpha+shy",), preset="tiny"), toys, machine())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"workloads": ("toi",)}, "no workload named 'toi'; did you mean 'toy'"),
        ({"arms": ("alpa",)}, "no treatment named 'alpa'; did you mean 'alpha'"),
        ({"arms": ("beta(m=1)",)}, "no parameter 'm'"),
        ({"arms": ("beta(n=0)",)}, "at least 1"),
        ({"arms": ("beta(n=soon)",)}, "no number"),
        ({"arms": ()}, "no arm besides its baseline"),
        ({"preset": "big"}, "preset 'big' is unknown"),
        ({"preset": "full"}, "has no preset 'full'"),
        ({"mode": "trian"}, "mode 'trian' is unknown; did you mean 'train'"),
        ({"input": "disk"}, "input 'disk'"),
        ({"device": "tpu"}, "device 'tpu'"),
        ({"device": "cuda"}, "no CUDA device"),
        ({"axes": {"bach": (1, 2)}}, "axis 'bach'.*did you mean 'batch'"),
        ({"axes": {"batch": ("four",)}}, "parameter 'batch' is 'four'; it takes a int"),
    ],
)
def test_mistakes_are_named_with_the_right_thing(given: dict[str, object], message: str):
    with pytest.raises(UsageError, match=message):
        plan(**given)


def test_axes_make_a_place_for_every_point():
    made = plan(axes={"batch": (4, 8)})
    assert [dict(place.axes) for place in made.places] == [{"batch": 4}, {"batch": 8}]
    assert [place.params["batch"] for place in made.places] == [4, 8]


def test_auto_takes_the_gpu_and_its_preset():
    gpus = (Gpu(index=0, name="H", uuid="GPU-1", memory_bytes=1),)
    toys = registry([treatment("alpha")], [workload("toy", presets={"full": {"batch": 1}})])
    made = make_plan(Experiment(workloads=("toy",), arms=("alpha",)), toys, machine(gpus=gpus))
    assert (made.device, made.experiment.preset, made.experiment.measure.windows) == ("cuda", "full", 30)


@pytest.mark.parametrize(("treated", "baselines"), [(1, 1), (2, 2), (4, 2), (5, 3), (9, 3), (10, 4)])
def test_the_baseline_runs_ceil_sqrt_k_times(treated: int, baselines: int):
    assert baseline_count(treated) == baselines


def test_a_block_holds_every_arm_once_and_the_baseline_as_often_as_needed():
    made = plan(arms=("alpha", "beta", "compiler", "half"))
    order = block_order(made, made.places[0], 0, made.treated(made.places[0]))
    assert Counter(order) == {"": 2, "alpha": 1, "beta": 1, "compiler": 1, "half": 1}


def test_orders_come_in_mirrored_pairs_and_depend_on_the_seed_alone():
    made = plan(arms=("alpha", "beta", "compiler", "half"))
    place = made.places[0]
    orders = [block_order(made, place, block, made.treated(place)) for block in range(12)]
    assert all(first == second[::-1] for first, second in zip(orders[::2], orders[1::2], strict=True))
    assert orders == [block_order(made, place, block, made.treated(place)) for block in range(12)]
    assert len(set(orders)) > 6
    other = plan(arms=("alpha", "beta", "compiler", "half"), seed=1)
    assert orders != [block_order(other, place, block, other.treated(place)) for block in range(12)]


def test_decided_arms_leave_and_the_others_keep_their_order():
    made = plan(arms=("alpha", "beta", "compiler", "half"))
    place = made.places[0]
    for block in range(8):
        full = block_order(made, place, block, made.treated(place))
        left = block_order(made, place, block, ("beta",))
        assert Counter(left) == {"": 1, "beta": 1}
        assert [arm for arm in full if arm in ("alpha", "half")] == [
            arm for arm in block_order(made, place, block, ("alpha", "half")) if arm
        ]
