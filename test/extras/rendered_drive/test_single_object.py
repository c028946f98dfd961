from deadline_perception.extras.rendered_drive.drive import CLASS_NAMES as DETECTED
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.extras.rendered_drive.single_object import gather_views
from deadline_perception.extras.several_networks.classifier.classes import CLASS_NAMES


def test_what_is_gathered_has_annotated_objects_background_and_every_class_that_can_be_rendered():
    drive = render_drive(seconds=1.0, rate_hz=2.0, seed=3, width=320, height=190)
    annotated, rendered = gather_views(drive.frames, DETECTED, backgrounds=4, rendered=2, seed=5)
    assert {view.classes for view in rendered} == {(name,) for name in CLASS_NAMES[1:]}
    assert len(rendered) == 42
    assert ('background',) in {view.classes for view in annotated}
    assert gather_views(drive.frames, DETECTED, backgrounds=4, rendered=0, seed=5)[1] == []
