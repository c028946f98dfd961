from __future__ import annotations

import math
from dataclasses import replace

import pytest
from made_up_network import CLASSES, made_up_profile

from deadline_perception.core.detections import Classification
from deadline_perception.engines.eager import Eager
from deadline_perception.networks.multi_path.checkpoint import build_detector, save_detector
from deadline_perception.networks.multi_path.configuration import COMPACT
from deadline_perception.runtime.loading import NetworkOptions, load_task
from deadline_perception.runtime.replacement import ReplacementError, check_replacement

torch = pytest.importorskip('torch')
SMALL = replace(COMPACT, name='small', input_size=(64, 96), scales=(1.0,), widths=(1.0, 0.5))


def test_weights_of_the_same_shape_fit_and_all_others_are_refused_with_the_difference():
    running = build_detector(SMALL, CLASSES)
    check_replacement(build_detector(SMALL, CLASSES, seed=1), running)
    for config, names, said in (
        (SMALL, CLASSES[:-1], 'its classes: vehicle, bike, motorbike, traffic_light; expected'),
        (
            replace(SMALL, widths=(1.0, 0.75, 0.5)),
            CLASSES,
            'its operators: .*width of 0.5, 0.75, 1.0.*; expected',
        ),
        (
            replace(SMALL, pyramid_channels=32),
            CLASSES,
            'its shape: small [0-9a-f]+ on 64 x 96 px; expected',
        ),
    ):
        with pytest.raises(ReplacementError, match=said):
            check_replacement(build_detector(config, names), running)
    other = build_detector(SMALL, CLASSES)
    other.result_type = Classification
    with pytest.raises(
        ReplacementError, match='its results: Classification; expected .*: Detections'
    ):
        check_replacement(other, running)
    other = build_detector(SMALL, CLASSES)
    running.engine = Eager()
    running.engine.identity = 'openvino 2025'
    other.engine = Eager('all segments run eagerly. Prepare them: deadline-perception profile')
    with pytest.raises(
        ReplacementError, match='on eager and not, .* on openvino 2025.*Prepare them: deadline-perc'
    ):
        check_replacement(other, running)


def test_the_calibration_goes_on_while_the_times_that_it_holds_for_are_the_same(tmp_path):
    detector = build_detector(SMALL, CLASSES)
    for seed in range(2):
        save_detector(build_detector(SMALL, CLASSES, seed=seed), tmp_path / f'{seed}.safetensors')
    made_up_profile(detector).save(tmp_path / 'profile.json')
    options = NetworkOptions(
        str(tmp_path / '0.safetensors'),
        profile=str(tmp_path / 'profile.json'),
        engine='eager',
        policy='one_path_policies:largest',
    )
    running = load_task(options, tmp_path)
    running.task.times.calibrator.observe(10.0, None)
    other = replace(options, model=str(tmp_path / '1.safetensors'))
    loaded = load_task(other, tmp_path, running)
    assert loaded.task.times.calibrator is running.task.times.calibrator
    assert loaded.task.network.weights_hash != running.task.network.weights_hash
    made_up_profile(detector, date='2025-02-02T00:00:00+00:00').save(tmp_path / 'profile.json')
    begun_anew = load_task(other, tmp_path, running).task.times.calibrator
    assert (begun_anew.frames, running.task.times.calibrator.frames) == (0, 1)
    assert math.isfinite(begun_anew.factor)
