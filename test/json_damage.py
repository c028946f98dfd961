REMOVED = object()


def put(content: object, place: str, value: object) -> None:
    """Changes decoded JSON at a place such as `images.0.id`; `REMOVED` is there no more."""
    *outer, name = (int(key) if key.isdigit() else key for key in place.split('.'))
    for key in outer:
        content = content[key]
    if value is REMOVED:
        del content[name]
    else:
        content[name] = value
