from deadline_perception.core.execution_path import ExecutionPath, PathSpace


def continuations(space: PathSpace, path: ExecutionPath, segment: int) -> list[ExecutionPath]:
    """All paths that are set as `path` is before segment number `segment`, itself among them."""
    prefix = space.prefix(path, segment)
    return [other for other in space if space.prefix(other, segment) == prefix]
