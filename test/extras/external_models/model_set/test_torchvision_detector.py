import numpy as np
import pytest
import torch
from made_up_models import CLASSES, ssdlite_weights
from plain_images import noise
from torchvision.models import get_model

from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.model_set.torchvision_detector import (
    TorchvisionDetector,
    fits,
)

NAME = 'ssdlite320_mobilenet_v3_large'
FIRST = 'backbone.features.0.0.0.weight'
IMAGE = noise(60, 100)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp('torchvision')


@pytest.fixture(scope='module')
def weights(folder):
    torch.set_num_threads(1)
    return ssdlite_weights(folder)


def test_finds_what_torchvisions_model_finds(weights):
    detector = TorchvisionDetector(NAME, weights, CLASSES)
    found = detector.detect(IMAGE)
    model = get_model(NAME, weights=None, weights_backbone=None, num_classes=4).eval()
    model.load_state_dict(torch.load(weights, weights_only=True))
    pixels = torch.from_numpy(IMAGE[..., ::-1].copy()).permute(2, 0, 1).float() / 255.0
    with torch.no_grad():
        (expected,) = model([pixels])
    assert len(found) == len(expected['scores']) > 0 and detector.input_size == (320, 320)
    scores = expected['scores'].sort(descending=True).values
    assert found.scores == pytest.approx(scores.numpy(), abs=1e-5)
    # A background comes before the classes.
    wanted = np.bincount(expected['labels'], minlength=4)[1:].tolist()
    assert np.bincount(found.labels, minlength=3).tolist() == wanted


def test_a_checkpoint_of_a_training_script_and_names_with_the_background_are_taken(folder, weights):
    state = torch.load(weights, weights_only=True)
    model = {f'module.{name}': value for name, value in state.items()}
    torch.save({'model': model, 'epoch': torch.tensor(3)}, folder / 'checkpoint.pth')
    plain = TorchvisionDetector(NAME, weights, CLASSES)
    other = TorchvisionDetector(NAME, folder / 'checkpoint.pth', ('__background__', *CLASSES))
    assert other.class_names == plain.class_names == CLASSES
    assert other.network_hash == plain.network_hash
    assert fits(NAME, weights, 4)
    assert not fits(NAME, weights, 5) and not fits('no_such_model', weights, 4)


@pytest.mark.parametrize(
    'change, words',
    [
        ({'name': 'yolo'}, "no detection model 'yolo'"),
        ({'classes': 'abcde'}, 'number of classes: name the classes'),
        ({'name': 'ssd300_vgg16'}, 'do not fit ssd300_vgg16 .* They seem to be of another'),
        ({'file': 'none.pth'}, 'none.pth do not exist'),
        ({'input_size': (64, 64)}, 'which it is made for; leave it out'),
        ({'file': 'text.pth'}, 'text.pth cannot be read'),
        (
            {'file': 'diverged.pth'},
            f'diverged.pth hold NaN or infinity in {FIRST}, expected finite',
        ),
    ],
)
def test_weights_that_cannot_be_used_are_refused_with_the_reason(folder, weights, change, words):
    (folder / 'text.pth').write_text('no weights')
    state = torch.load(weights, weights_only=True)
    next(value for value in state.values() if value.is_floating_point()).view(-1)[0] = torch.nan
    torch.save(state, folder / 'diverged.pth')
    options = {'name': NAME, 'file': 'ssdlite.pth', 'classes': CLASSES, **change}
    name, file, classes = (options.pop(key) for key in ('name', 'file', 'classes'))
    with pytest.raises(ModelError, match=words):
        TorchvisionDetector(name, folder / file, classes, **options)
