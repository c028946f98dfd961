import os

import pytest

from deadline_perception.engines.foreign_writer import foreign_writer
from deadline_perception.engines.segment_store import SegmentStore, StoreError, default_store_folder
from deadline_perception.extras.preparation.store_writer import StoreWriter


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    return default_store_folder('compact', 'ab')


def test_a_folder_that_everybody_may_write_is_not_used(folder):
    StoreWriter.resume(folder, {})
    assert foreign_writer(folder) == '' and SegmentStore.load(folder, {}).segments == {}
    for place in (folder, folder.parent):
        place.chmod(0o777)
        with pytest.raises(
            StoreError, match='since they are code: .* may be written by everybody, .* chmod o-w'
        ):
            SegmentStore.load(folder, {})
        place.chmod(0o755)
    assert SegmentStore.load(folder, {}).segments == {}


@pytest.mark.skipif(os.geteuid() != 0, reason='needs to give files away')
@pytest.mark.parametrize('mode', [0o664, 0o666])
def test_files_and_folders_that_others_may_write_are_not_used(folder, mode):
    StoreWriter.resume(folder, {})
    (folder / 'blob').write_bytes(b'code')
    for place in (folder, folder / 'blob'):
        before = place.stat().st_mode
        place.chmod(mode | (0o111 if place.is_dir() else 0))
        os.chown(place, -1, 12345)
        assert foreign_writer(folder).startswith(f'{place} may be written by ')
        place.chmod(before & 0o777 & ~0o022)
        assert foreign_writer(folder) == ''
        os.chown(place, -1, os.getegid())
    os.chown(folder / 'blob', 12345, -1)
    assert foreign_writer(folder) == f'{folder / "blob"} belongs to the user 12345, expected 0'
    (folder / 'blob').unlink()
    (folder / 'blob').symlink_to('/etc/hostname')
    assert 'is a link' in foreign_writer(folder)
    os.chown(folder, 12345, -1)
    with pytest.raises(StoreError, match='belongs to the user 12345, expected 0'):
        SegmentStore.load(folder, {})
    assert foreign_writer(folder / 'below').startswith(str(folder))
