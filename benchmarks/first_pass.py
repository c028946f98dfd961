"""Two networks as two passes: YOLOX-Nano sees what is near and common, `street` after it what is far.

    python benchmarks/first_pass.py [--data ../shared/data] [--fit]

Nine kinds of images, some of which neither network was trained on. Each image is seen by YOLOX-Nano at three sizes and
by `street` at three, as segments that are prepared for one thread have them. Then each first look is merged with each
of `street`. The file says which form each segment that ran had: boxes of another run are never taken.

With `--fit` two things are found anew, on other images of the kinds that training may see: the calibration of
YOLOX-Nano's scores, a logistic curve per class that goes into its weights file, and the coefficients of `LookFusion`, by
which what both found is joined, which go into the passes file of `street`. They are fitted on all first looks before
`street` at three scales; images of each kind weigh as much as those of another, dashcams three times and images without
road users six times that: at the weight of one kind they had 1.6 to 2.6 times as many false boxes at the same recall.
Coefficients are drawn towards scores as they are, the more the fewer objects of a class the images show.
On the same images it says what both looks find beyond what `decision/pass_quality.py` says of the better of them.

Prints AP50 by kind, and boxes of score 0.3 and more on images without road users. Of the same answers: what share of the
persons higher than half of their image each finds at that score, and of the two longest looks the calibration error and
what a shorter answer finds beyond them. Near persons, whose images do not mark those behind them, have their AP50 among
boxes higher than 0.3 of the image, too. Writes results/first_pass.json.
"""

from __future__ import annotations

import itertools
import json
import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from parts.harness import Run, option, run_script, show
from parts.real_images import (
    CLASSES,
    KINDS,
    NAMES,
    NEGATIVES,
    PHANTOM_SCORE,
    Images,
    frame_size,
    of_classes,
)
from parts.replay_contenders import look_quality
from scipy.optimize import LinearConstraint, minimize

from deadline_perception.core.detections import Detections, pairwise_iou
from deadline_perception.core.device import use_threads
from deadline_perception.decision.pass_quality import PassQuality
from deadline_perception.engines.segment_run import Network
from deadline_perception.extras.data.records import GroundTruth
from deadline_perception.extras.evaluation.average_precision import average_precision
from deadline_perception.extras.evaluation.reliability import scored_detections
from deadline_perception.extras.evaluation.resampled_precision import bootstrap_draws, resampled_ap
from deadline_perception.extras.external_models.public_yolox import FACTS, save_yolox
from deadline_perception.extras.training.calibration_fit import fit_calibration
from deadline_perception.networks.look_fusion import (
    FEATURES,
    FusionRecord,
    LookFusion,
    box_features,
    overlaps_of_class,
)
from deadline_perception.networks.model_reference import find_weights, load_network
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.networks.multi_path.score_calibration import ScoreCalibration
from deadline_perception.networks.passes import NONE, SUFFIX, PassesFile, merged
from deadline_perception.networks.weights_file import read_metadata
from deadline_perception.runtime.look_twice import with_passes

FINE, FIRST = 'street', 'street-first'
FULL = 'street 1248x704'
LOOKS = {
    'street 544x320': (FINE, 'r0.44-s00000-w1.00-p100-h2'),
    'street 672x384': (FINE, 'r0.53-s00000-w1.00-p100-h2'),
    FULL: (FINE, 's00000-w1.00-p100-h2'),
    'street-first 320x192': (FIRST, 'r0.43'),
    'street-first 416x256': (FIRST, 'r0.58'),
    'street-first 736x416': (FIRST, 'r1.00'),
}
FIRST_LOOKS = ('street-first 320x192', 'street-first 416x256', 'street-first 736x416')
FINE_LOOKS = {'street 544x320': 1.0, 'street 672x384': 1.0, FULL: 2.0}  # weights in the fit
LONGEST = f'street-first 736x416, then {FULL}'
WEIGHTS_OF_KINDS = {'bdd100k': 3.0, NEGATIVES: 6.0}  # in the fit, 1 of the others
NEAR_HEIGHT = 0.5  # of the image; persons that are higher are near
LEAST_MARKED_HEIGHT = 0.3  # of nearly all persons of penn_fudan that are marked
EXTREME_SIZES = (-2.3, 2.3)  # logarithms of sizes over a tenth of the image's side: 1 to 100 %
LEAST_SLOPE = 0.1  # of the new score's logit over the own one's
DRAWS = 400  # of images, that tell a loss from chance
RIDGE = 2.0  # over the number of objects: on coefficients, towards those that keep every score

Found = Mapping[str, Sequence[Detections]]  # by look, of each image
PerClass = dict[str, dict[str, float]]  # by kind and class


def main(run: Run) -> None:
    use_threads(1)
    limit = 4 if run.quick else None
    networks = {name: load_network(name, 'cpu')[0] for name in (FINE, FIRST)}
    calibration = calibration_in_use(networks[FIRST])
    fusion = fusion_in_use()
    networks[FIRST].score_calibration = None
    fitted = [
        Images.open(run.args.data, kind, of.fitted, limit)
        for kind, of in KINDS.items()
        if of.fitted
    ]
    seen = [look_at(networks, images) for images in fitted]
    if run.args.fit:
        calibration = calibrated_on(fitted, seen)
        fusion = fit_fusion(fitted, [with_scores(found, calibration) for found in seen])
        if not run.quick:
            keep_calibration(calibration)
            keep_fusion(fusion)
    share = together(fitted, [with_scores(found, calibration) for found in seen], fusion)
    print(f'two networks find {share:.2f} of what chance would give beyond the better of them')
    scores = {}
    counts = {}
    errors = {}
    certain = {}
    near: dict[str, list[bool]] = {}
    near_ap50 = {}
    for kind, of in KINDS.items():
        images = Images.open(run.args.data, kind, of.measured, limit)
        seen = with_scores(look_at(networks, images), calibration)
        answers = with_pairs(images, seen, fusion)
        scores[kind] = scores_of(images, answers)
        counts[kind] = len(images.frames)
        if of.classes:
            errors[kind] = calibration_errors(images, answers[LONGEST])
            certain[kind] = certain_losses(images, answers)
        if 'person' in of.classes:
            for name, found in answers.items():
                near.setdefault(name, []).extend(near_persons_found(images, found))
        if kind == 'penn_fudan':
            near_ap50 = {name: ap50_of_high(images, found) for name, found in answers.items()}
        show(
            f'{kind}, {counts[kind]} images',
            ('looks', *next(iter(scores[kind].values()))),
            [(name, *row.values()) for name, row in scores[kind].items()],
        )
    near_shares = {name: round(statistics.mean(found), 3) for name, found in near.items()}
    show(
        f'{len(near[LONGEST])} persons higher than half of the image, found at {PHANTOM_SCORE:g}',
        ('looks', 'share', f'AP50 of those marked higher than {LEAST_MARKED_HEIGHT:g}'),
        [(name, share, near_ap50[name]) for name, share in near_shares.items()],
    )
    losses = losses_by_more_time({kind: scores[kind] for kind in errors})
    show(
        f'of {LONGEST}',
        'images | class | calibration error | AP50 lost to the best shorter answer | certainly',
        [
            (kind, name, error, losses[kind][name], certain[kind][name])
            for kind, of_class in errors.items()
            for name, error in of_class.items()
        ],
    )
    run.write(
        threads=1,
        engines={name: engine_of(name, network) for name, network in networks.items()},
        images=counts,
        together=round(share, 3),
        found=scores,
        near_persons={'number': len(near[LONGEST]), 'found': near_shares, 'ap50': near_ap50},
        calibration_error=errors,
        loss_by_more_time=losses,
        loss_beyond_chance=certain,
    )


def engine_of(name: str, network: Network) -> dict[str, str | int]:
    """What computed the looks of a network, and how many of their segments had which form."""
    space = network.path_space
    keys = {
        key
        for owner, path in LOOKS.values()
        if owner == name
        for key in space.keys(space.parse(path))
    }
    forms = Counter(network.engine.forms.get(key, 'eager') for key in keys)
    return {'name': network.engine.identity, **forms}


def look_at(networks: Mapping[str, Network], images: Images) -> Found:
    """What every look finds in every image, with labels that index `CLASSES`."""
    paths = {
        look: (networks[name], networks[name].path_space.parse(path))
        for look, (name, path) in LOOKS.items()
    }
    seen: dict[str, list[Detections]] = {look: [] for look in LOOKS}
    for frame in images.frames:
        pixels = frame.load_bgr()
        for look, (network, path) in paths.items():
            seen[look].append(of_classes(network.start(pixels, path).finish(), network.class_names))
    return seen


def with_scores(seen: Found, calibration: ScoreCalibration) -> Found:
    """With calibrated scores of the first look's network."""

    def calibrated(found: Detections) -> Detections:
        scores = calibration.apply(found.scores, found.labels)
        return Detections(found.boxes_xyxy_px, scores, found.labels)

    return {
        look: [calibrated(one) for one in found] if LOOKS[look][0] == FIRST else found
        for look, found in seen.items()
    }


def pair(
    images: Images, seen: Found, first: str, fine: str, fusion: LookFusion
) -> list[Detections]:
    """A first look, and a closer one after it."""
    return [
        merged(coarse, after, frame_size(frame), fusion)
        for frame, coarse, after in zip(images.frames, seen[first], seen[fine])
    ]


def with_pairs(images: Images, seen: Found, fusion: LookFusion) -> Found:
    """Every look alone, and each pair."""
    pairs = itertools.product(FIRST_LOOKS, FINE_LOOKS)
    return {
        **seen,
        **{f'{one}, then {fine}': pair(images, seen, one, fine, fusion) for one, fine in pairs},
    }


def scores_of(images: Images, answers: Found) -> dict[str, dict[str, float]]:
    """AP50 of each class in percent by answer; where nothing that is found is right, false boxes an image."""
    rows = {}
    for name, found in answers.items():
        if images.kind == NEGATIVES:
            false = [int((one.scores >= PHANTOM_SCORE).sum()) for one in found]
            rows[name] = {'false boxes an image': round(statistics.mean(false), 3)}
        else:
            of_class = average_precision(found, images.known, CLASSES).per_class
            rows[name] = {
                one: round(100 * (of_class[one].ap50 or 0.0), 1)
                for one in KINDS[images.kind].classes
            }
    return rows


def calibration_errors(images: Images, found: Sequence[Detections]) -> dict[str, float]:
    """See `ScoredDetections`, by class."""
    scored = scored_detections(found, images.known, CLASSES)
    return {name: round(scored[name].calibration_error, 3) for name in KINDS[images.kind].classes}


def near_persons_found(images: Images, found: Sequence[Detections]) -> list[bool]:
    """For each person higher than half of its image, whether a box of score 0.3 overlaps them by half."""
    person = CLASSES.index('person')
    are_found = []
    for frame, known, one in zip(images.frames, images.known, found):
        heights = known.boxes_xyxy_px[:, 3] - known.boxes_xyxy_px[:, 1]
        is_near = (known.labels == person) & ~known.crowd
        is_near &= heights > NEAR_HEIGHT * frame_size(frame)[0]
        boxes = one.boxes_xyxy_px[(one.labels == person) & (one.scores >= PHANTOM_SCORE)]
        overlap = pairwise_iou(known.boxes_xyxy_px[is_near], boxes)
        are_found += (overlap >= 0.5).any(axis=1).tolist()
    return are_found


def ap50_of_high(images: Images, found: Sequence[Detections]) -> float:
    """AP50 in percent of persons among boxes higher than `LEAST_MARKED_HEIGHT` of the image, marked ones and found ones."""
    marked, of_height = [], []
    for frame, known, one in zip(images.frames, images.known, found):
        least_px = LEAST_MARKED_HEIGHT * frame_size(frame)[0]
        boxes = known.boxes_xyxy_px
        kept = boxes[:, 3] - boxes[:, 1] > least_px
        marked.append(GroundTruth(boxes[kept], known.labels[kept], known.crowd[kept]))
        boxes = one.boxes_xyxy_px
        of_height.append(one.at(boxes[:, 3] - boxes[:, 1] > least_px))
    ap50 = average_precision(of_height, marked, CLASSES).per_class['person'].ap50
    return round(100 * (ap50 or 0.0), 1)


def losses_by_more_time(scores: Mapping[str, Mapping[str, Mapping[str, float]]]) -> PerClass:
    """Points of AP50 by which the best answer that takes less time is better than both longest looks, at least 0."""
    losses: PerClass = {}
    for kind, rows in scores.items():
        losses[kind] = {
            name: round(max(row[name] for row in rows.values()) - of_longest, 1)
            for name, of_longest in rows[LONGEST].items()
        }
    return losses


def certain_losses(images: Images, answers: Found) -> dict[str, float]:
    """Of `losses_by_more_time`, what is left with 97.5 % confidence had other images of the kind been drawn: the best of
    several answers is better by chance, too."""
    draws = bootstrap_draws(len(images.frames), DRAWS)
    losses = {}
    for name in KINDS[images.kind].classes:
        of_look = {
            look: resampled_ap(answers[look], images.known, CLASSES, draws, (name,), only_50=True)
            for look in answers
        }
        least = [np.nanquantile(drawn - of_look[LONGEST], 0.025) for drawn in of_look.values()]
        losses[name] = round(100 * float(max(least)), 1)
    return losses


def calibrated_on(fitted: Sequence[Images], seen: Sequence[Found]) -> ScoreCalibration:
    """One curve for each of `CLASSES`, of all sizes of the first look's input."""
    scores: dict[str, list[np.ndarray]] = {name: [] for name in CLASSES}
    hits: dict[str, list[np.ndarray]] = {name: [] for name in CLASSES}
    for images, found in zip(fitted, seen):
        for look, (name, _) in LOOKS.items():
            if name != FIRST:
                continue
            scored = scored_detections(found[look], images.known, CLASSES)
            for one in KINDS[images.kind].classes:
                scores[one].append(scored[one].scores)
                hits[one].append(scored[one].hits)
    return fit_calibration(
        [np.concatenate(scores[name]) for name in CLASSES],
        [np.concatenate(hits[name]) for name in CLASSES],
    )


def fit_fusion(fitted: Sequence[Images], seen: Sequence[Found]) -> LookFusion:
    """Coefficients for `CLASSES`, by logistic regression of which boxes are objects."""
    rows: dict[tuple[int, int], list[tuple[np.ndarray, ...]]] = {}
    for images, found in zip(fitted, seen):
        of_kind = WEIGHTS_OF_KINDS.get(images.kind, 1.0)
        marked = KINDS[images.kind].classes or CLASSES
        for first, (fine, weight) in itertools.product(FIRST_LOOKS, FINE_LOOKS.items()):
            for frame, known, *looks in zip(images.frames, images.known, found[first], found[fine]):
                features = box_features(*looks, frame_size(frame), overlaps_of_class(*looks))
                for at, (look, of_look) in enumerate(zip(looks, features)):
                    is_object, counts = objects_of(look, known)
                    for label in map(CLASSES.index, marked):
                        chosen = counts & (look.labels == label)
                        weights = np.full(chosen.sum(), weight * of_kind / len(images.frames))
                        row = (of_look[chosen], is_object[chosen], weights)
                        rows.setdefault((at, label), []).append(row)
    tables = [
        [
            regression(*(np.concatenate(part) for part in zip(*rows[at, label])))
            for label in range(len(CLASSES))
        ]
        for at in range(2)
    ]
    return LookFusion(*map(np.array, tables))


def together(fitted: Sequence[Images], seen: Sequence[Found], fusion: LookFusion) -> float:
    """Share of what both being chance would give that both looks find beyond the better of them, in the mean of kinds."""
    passes = with_passes(
        load_network(FINE, 'cpu')[0],
        find_weights(FINE),
        lambda name: (load_network(name, 'cpu')[0], find_weights(name)),
    )[0]
    quality = PassQuality(passes, look_quality(passes.fine), look_quality(passes.coarse))
    labels = {str(path): label for label, path in passes.coarse_paths.items()}
    beyond, by_chance = [], []
    for first, fine in itertools.product(FIRST_LOOKS, FINE_LOOKS):
        single = passes.single(passes.fine.path_space.parse(LOOKS[fine][1]))
        both = single.replace(coarse=labels[LOOKS[first][1]])
        alone, coarse = quality.by_size([single, both.replace(fine=NONE)])
        better, worse = np.maximum(alone, coarse), np.minimum(alone, coarse)
        weights = quality.scene.weights
        added = [
            mean_ap(images, pair(images, found, first, fine, fusion)) - mean_ap(images, found[fine])
            for images, found in zip(fitted, seen)
            if KINDS[images.kind].classes
        ]
        beyond.append(statistics.mean(added) - (better - alone) @ weights)
        by_chance.append(worse * (1.0 - better) @ weights)
    return float(np.dot(beyond, by_chance) / np.dot(by_chance, by_chance))


def mean_ap(images: Images, found: Sequence[Detections]) -> float:
    """Average precision in the mean of the classes that the kind marks."""
    of_class = average_precision(found, images.known, CLASSES).per_class
    return statistics.mean(of_class[one].ap or 0.0 for one in KINDS[images.kind].classes)


def objects_of(found: Detections, known: GroundTruth) -> tuple[np.ndarray, np.ndarray]:
    """Which boxes are the most certain one of an object, and which are not those of a crowd: bool `[N]` each."""
    is_object = np.zeros(len(found), bool)
    overlap = pairwise_iou(found.boxes_xyxy_px, known.boxes_xyxy_px)
    overlap = overlap * (found.labels[:, None] == known.labels[None])
    in_crowd = (overlap[:, known.crowd] >= 0.5).any(axis=1)
    overlap[:, known.crowd] = 0.0
    taken: set[int] = set()
    for box in np.argsort(-found.scores, kind='stable') if overlap.size else ():
        best = int(overlap[box].argmax())
        if overlap[box, best] >= 0.5 and best not in taken:
            taken.add(best)
            is_object[box] = True
    return is_object, ~in_crowd | is_object


def regression(features: np.ndarray, is_object: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Coefficients of a weighted logistic regression, drawn towards those that keep every score: `[FEATURES]`."""
    start = np.zeros(FEATURES)
    start[0] = 1.0
    # The fewer objects of a class there are, the less is read from them.
    ridge = RIDGE / max(1, is_object.sum())

    def loss(coefficients: np.ndarray) -> tuple[float, np.ndarray]:
        logits = np.clip(features @ coefficients, -50.0, 50.0)
        away = np.where(np.arange(FEATURES) != 1, coefficients - start, 0.0)
        errors = weights * (np.logaddexp(0.0, logits) - is_object * logits)
        value = errors.sum() / weights.sum() + ridge * (away**2).sum()
        slopes = weights * (1.0 / (1.0 + np.exp(-logits)) - is_object)
        return value, features.T @ slopes / weights.sum() + 2.0 * ridge * away

    # Whatever the size of the box and of the image's objects, a more certain box stays the more probable one.
    corners = np.array([(1.0, *at) for at in itertools.product(EXTREME_SIZES, repeat=2)])
    rows = np.pad(corners, ((0, 0), (0, FEATURES - corners.shape[1])))
    rising = LinearConstraint(rows, LEAST_SLOPE, np.inf)
    return minimize(loss, start, jac=True, method='SLSQP', constraints=[rising]).x


def calibration_in_use(network: Network) -> ScoreCalibration:
    """The calibration in the weights file, for labels that index `CLASSES`."""
    names = [name if name in network.class_names else '' for name in CLASSES]
    own = network.score_calibration
    if own is None:
        return ScoreCalibration((1.0,) * len(CLASSES), (0.0,) * len(CLASSES))
    places = [network.class_names.index(name) for name in names]
    return ScoreCalibration(
        tuple(own.slopes[at] for at in places), tuple(own.offsets[at] for at in places)
    )


def keep_calibration(calibration: ScoreCalibration) -> None:
    """Writes it into the weights file of the first look, whose licence, source and recipe stay; a motorbike has the
    curve of a bike."""
    file = find_weights(FIRST)
    metadata = read_metadata(file)[0]
    network = load_detector(file)
    places = [CLASSES.index(NAMES.get(name, name)) for name in network.class_names]
    network.score_calibration = ScoreCalibration(
        tuple(calibration.slopes[at] for at in places),
        tuple(calibration.offsets[at] for at in places),
    )
    save_yolox(network, file, **{name: metadata[name] for name in FACTS if name in metadata})


def keep_fusion(fusion: LookFusion) -> None:
    """Writes it into the passes file of the closer look; a motorbike has the coefficients of a bike."""
    file = find_weights(FINE).with_suffix(SUFFIX)
    content = json.loads(file.read_text())
    content['fusion'] = {
        look: {
            name: [round(float(one), 4) for one in table[CLASSES.index(NAMES.get(name, name))]]
            for name in load_network(FINE, 'cpu')[0].class_names
        }
        for look, table in (('coarse', fusion.coarse), ('fine', fusion.fine))
    }
    text = json.dumps(content, indent=1)
    file.write_text(re.sub(r'(?<=[\d,\[])\n\s+(?=[-\d\]])', ' ', text) + '\n')


def fusion_in_use() -> LookFusion:
    """That of the shipped passes."""
    record = PassesFile.load(find_weights(FINE).with_suffix(SUFFIX)).fusion
    of_looks = (
        {name: rows[name] for name in CLASSES if name in rows}
        for rows in (record.coarse, record.fine)
    )
    return LookFusion.from_record(FusionRecord(*of_looks), CLASSES)


if __name__ == '__main__':
    run_script(
        main,
        {
            '--data': option(Path('../shared/data')),
            '--fit': option(False, 'fit calibration and rule first'),
        },
        quick='four images of each kind',
    )
