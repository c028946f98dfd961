"""The time model alone: what paths are expected to take, and a bound that learns.

.venv/bin/python examples/time_model.py
"""

import sys
from pathlib import Path

from deadline_perception.core.images.image_file import load_image
from deadline_perception.networks.model_reference import load_network
from deadline_perception.runtime.loading import NetworkOptions, make_calibrator
from deadline_perception.timing.path_bound import PathForecast
from deadline_perception.timing.profile import measure_profile, time_frame
from deadline_perception.timing.time_model import TimeModel


def main(model: str = 'street', seconds: float = 10.0, frames: int = 30) -> None:
    network, _ = load_network(model, 'cpu')
    image_bgr = load_image(Path(__file__).with_name('street.jpg'))
    profile = measure_profile(
        network, [image_bgr], repeats=4, whole_paths=8, path_repeats=3, time_limit_s=seconds
    )
    forecast = PathForecast(profile, network.path_space)
    bound, _ = make_calibrator(NetworkOptions(model), forecast, None)
    times = TimeModel(network.path_space, forecast, bound)
    paths = list(network.path_space)
    for path in paths[:: max(1, len(paths) // 5)]:
        expected_ms = forecast.forecast_ms(path)
        for _ in range(frames):
            took_ms, _ = time_frame(network, image_bgr, path)
            bound.observe(expected_ms, took_ms)
        bound_ms = times.begin(slowdown=1.0).bound_ms(path)
        print(
            f'{path}: expected {expected_ms:.2f} ms, bound {bound_ms:.2f} ms, last {took_ms:.2f} ms'
        )
    certificate = bound.integral.certificate()
    print(f'{certificate.misses} of {certificate.frames} frames took longer than their bound')


if __name__ == '__main__':
    main(*sys.argv[1:])
