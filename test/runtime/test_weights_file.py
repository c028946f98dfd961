import pytest

from deadline_perception.runtime.weights_file import load_weights

torch = pytest.importorskip('torch')


def test_the_file_says_which_kind_of_network_it_holds(tmp_path, repository):
    from deadline_perception.classifier.checkpoint import save_classifier
    from deadline_perception.classifier.network import ClassifierConfig, NestedClassifier, build_classifier
    from deadline_perception.detector.network import MultiPathDetector

    file = tmp_path / 'small.safetensors'
    save_classifier(build_classifier(ClassifierConfig(channels=(4, 4, 4, 4), ratios=(0.5, 1.0)), ('a', 'b')), file)
    assert type(load_weights(file)) is NestedClassifier
    assert type(load_weights(repository / 'models/compact.safetensors')) is MultiPathDetector


def test_a_file_that_is_none_is_refused(tmp_path):
    from deadline_perception.detector.checkpoint import CheckpointError

    (tmp_path / 'text.safetensors').write_text('no weights')
    with pytest.raises(CheckpointError, match='cannot be read as safetensors'):
        load_weights(tmp_path / 'text.safetensors')
