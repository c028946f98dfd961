from deadline_perception.nodes.stamp_cache import StampCache


def test_cache_gives_each_item_once_and_counts_what_went_unused():
    cache = StampCache(2)
    for stamp_ns in (1, 2, 3):
        cache.put(stamp_ns, f'item {stamp_ns}')
    assert cache.unused == 1 and cache.take(1) is None
    assert cache.take(3) == 'item 3' and cache.take(3) is None
    cache.put(2, 'newer')
    assert cache.take(2) == 'newer'
