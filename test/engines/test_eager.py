import random

import numpy as np

from deadline_perception.core.measurement_plan import covering_paths
from deadline_perception.engines.eager import Eager


class Watching(Eager):
    """Keeps what an engine that prepares segments ahead must rely on."""

    def __init__(self):
        self.seen, self.held, self.selections = {}, set(), set()

    def hold(self, name, values):
        self.held.add(name)
        return super().hold(name, values)

    def run(self, key, name, compute, inputs, *, is_selection=False, on_arrays=None):
        outputs = super().run(key, name, compute, inputs)
        if is_selection:
            self.selections.add(key.partition('@')[0])
        shapes = {kind: [value.shape for value in values] for kind, values in inputs.items()}
        if name:  # that of what nobody reads follows from the image
            shapes['gives'] = [value.shape for value in outputs]
        assert self.seen.setdefault(key, shapes) == shapes
        for kind, values in inputs.items():  # the same function again, of values that lie elsewhere
            assert all(value.is_inference() for value in values), kind
        again = compute(
            {kind: tuple(value.clone() for value in values) for kind, values in inputs.items()}
        )
        assert all(np.array_equal(one.numpy(), other.numpy()) for one, other in zip(outputs, again))
        return outputs


def test_a_key_decides_shapes_and_all_that_a_segment_reads_is_handed_to_it(tiny_network):
    tiny_network.engine = engine = Watching()
    space, rng = tiny_network.path_space, random.Random(0)
    image = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    for path in [*covering_paths(space, 1, rng), *(rng.choice(list(space)) for _ in range(20))]:
        tiny_network.detect(image, path)
    assert engine.held == {'pre'} and engine.selections == {'proposals'}
    assert set(engine.seen) == {
        key for key in space.carriers() if not key.startswith(('pre', 'post'))
    }
