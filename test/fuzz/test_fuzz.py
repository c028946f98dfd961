import random
import zlib
from pathlib import Path

import pytest

for module in ('torch', 'openvino', 'rosbags', 'tflite'):
    pytest.importorskip(module)

from fuzz.mutation import mutated  # noqa: E402
from fuzz.readers import READERS, REFUSALS  # noqa: E402
from fuzz.seeds import seeds  # noqa: E402

HERE = Path(__file__).parent
MOST_GROWTH_MB = 256
CHANGES = 12


@pytest.mark.parametrize(
    'file', sorted((HERE / 'found').glob('*/*')), ids=lambda file: f'{file.parent.name}/{file.name}'
)
def test_found_files_are_read_or_refused(file, load_benchmark, tmp_path):
    """In a process of its own, for some of them ended theirs."""
    hostile, reader = load_benchmark('hostile'), READERS[file.parent.name]
    place = tmp_path / 'place'
    place.mkdir()
    copy = reader.prepared(place)
    copy.write_bytes(file.read_bytes())
    case = hostile.Case(file.parent.name, file.name, copy)
    verdict = hostile.try_case(case, reader.read, tmp_path)
    assert verdict.fine, verdict
    assert verdict.memory_mb < MOST_GROWTH_MB


@pytest.mark.filterwarnings('ignore')
@pytest.mark.parametrize('name', READERS)
def test_seeds_and_changes_of_them_are_read_or_refused(name, tmp_path):
    reader, ends = READERS[name], set()
    file = reader.prepared(tmp_path)
    kept = [file.read_bytes() for file in sorted((HERE / 'corpus' / name).glob('*'))]
    assert seeds(name)
    for content in [*seeds(name), *kept]:
        rng = random.Random(zlib.crc32(content))

        def change(part: bytes) -> bytes:
            if not part:
                return b'\xff'
            place = rng.randrange(len(part))
            return part[:place] + rng.choice((b'', b'\0', rng.randbytes(1))) + part[place + 1 :]

        for number in range(1 if content in kept else CHANGES):
            file.write_bytes(content if number == 0 else mutated(reader.form, content, rng, change))
            try:
                reader.read(file)
                ends.add('read')
            except REFUSALS as error:
                assert str(error)
    assert ends  # else fuzzing would not come beyond the first check
