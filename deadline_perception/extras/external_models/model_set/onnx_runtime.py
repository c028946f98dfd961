"""An ONNX file run by ONNX Runtime, on the best of its execution providers that works on this device.

Providers are tried in turn. One that its libraries keep from loading is passed over by ONNX Runtime itself, without an
error: so what a session says that it runs on is looked at. One that fails while it runs (a GPU that has gone) makes
place for the next. What a provider compiles is kept by file, device, provider, precision and versions, and used again
only as it was written: it is code. Needs no torch.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import re
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from platformdirs import user_cache_path

from deadline_perception.core.errors import DeadlinePerceptionError, printable
from deadline_perception.core.json_file import JsonFileError, read_object
from deadline_perception.core.replaced_file import replace_file
from deadline_perception.engines.foreign_writer import foreign_writer

TENSOR_RT, CUDA, CPU = 'TensorrtExecutionProvider', 'CUDAExecutionProvider', 'CPUExecutionProvider'
PROVIDERS = {'cuda': (TENSOR_RT, CUDA, CPU), 'cpu': (CPU,)}  # by kind of device, the fastest first
PRECISIONS = ('float32', 'float16')
_MANIFEST, _OPTIMISED = 'files.json', 'optimised.onnx'
# Of an ONNX tensor whose values lie in another file: `location`, and the length and name of that.
_ELSEWHERE = re.compile(rb'\x08location\x12([\x01-\x7f])([^\n]*)', re.DOTALL)
_BLOCK = 2**20
_WORKSPACE_BYTES = 2**30  # that TensorRT may use as it tries kernels


class OnnxRuntimeError(DeadlinePerceptionError):
    """ONNX Runtime is not installed, or none of its execution providers can run a file."""


@dataclass(frozen=True)
class SessionOptions:
    """How a file is to be run.

    Attributes:
        device: `cpu`, `cuda` or `cuda:INDEX`.
        threads: of the CPU, that one layer is distributed over.
        precision: `float32`, or `float16` where the provider converts to it (TensorRT).
        providers: tried in turn; empty: those of the device.

    Raises:
        ValueError: a value is none of these.
    """

    device: str = 'cpu'
    threads: int = 1
    precision: str = 'float32'
    providers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        kind = self.device.partition(':')[0]
        if kind not in PROVIDERS or self.precision not in PRECISIONS or self.threads < 1:
            raise ValueError(
                f'device is {self.device!r}, precision {self.precision!r} and threads {self.threads}, '
                f'expected cpu or cuda, one of {", ".join(PRECISIONS)}, and at least 1'
            )
        object.__setattr__(self, 'providers', tuple(self.providers) or PROVIDERS[kind])

    @property
    def index(self) -> int:
        """Number of the GPU."""
        return int(self.device.partition(':')[2] or 0)


class OnnxSession:
    """See the module. One thread at a time.

    Args:
        file: ONNX.
        options: how to run it.
        cache: folder that compiled forms are kept in; None: nothing is kept.

    Attributes:
        provider: that runs it now.
        refused: why earlier ones do not, by their names.

    Raises:
        OnnxRuntimeError: it cannot be run; says what each provider said.
    """

    def __init__(
        self, file: Path, options: SessionOptions = SessionOptions(), cache: Path | None = None
    ) -> None:
        self._runtime = load_onnx_runtime()
        self._file, self._options, self._cache = Path(file), options, cache
        self.refused: dict[str, str] = {}
        self._left = list(options.providers)
        self._open_next()

    @property
    def identity(self) -> str:
        """What execution times hold for: `onnxruntime 1.20.0 CPUExecutionProvider float32`."""
        return f'onnxruntime {self._runtime.__version__} {self.provider} {self._options.precision}'

    @property
    def notice(self) -> str:
        """Why a faster provider is not used; empty where none was tried in vain."""
        return '; '.join(
            f'{self._file.name} is not run by {provider}: {reason}'
            for provider, reason in self.refused.items()
        )

    @property
    def inputs(self) -> dict[str, tuple[tuple[int | str | None, ...], str]]:
        """Shape and type of each input, by name; of a size that the file leaves open a text or None."""
        return {
            value.name: (tuple(value.shape), value.type) for value in self._session.get_inputs()
        }

    def run(self, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        """The outputs, in the order of the file.

        Raises:
            OnnxRuntimeError: no provider is left that can run it.
        """
        while True:
            try:
                return self._session.run(None, feeds)
            except Exception as error:  # each provider has errors of its own
                self.refused[self.provider] = _told(error)
                self._open_next()

    def _open_next(self) -> None:
        """A session on the next provider that works."""
        while self._left:
            provider = self._left.pop(0)
            try:
                self._session = self._session_on(provider)
            except Exception as error:  # as above
                self.refused[provider] = _told(error)
                continue
            if self._session.get_providers()[0] == provider:
                self.provider = provider
                return
            available = self._runtime.get_available_providers()
            self.refused[provider] = (
                'its libraries cannot be loaded'
                if provider in available
                else f'this build has {", ".join(available)} alone'
            )
        raise OnnxRuntimeError(
            f'{self._file} cannot be run by ONNX Runtime: '
            + '; '.join(f'{provider}: {reason}' for provider, reason in self.refused.items())
        )

    def _session_on(self, provider: str) -> Any:
        folder = self._checked_cache(provider)
        try:
            session = self._opened(provider, folder)
        except Exception:  # as above
            if folder is None:
                raise
            shutil.rmtree(folder, ignore_errors=True)  # a full disk may be what it failed on
            return self._opened(provider, None)
        if folder is not None:
            with contextlib.suppress(OSError):  # it is compiled anew at the next start
                replace_file(folder / _MANIFEST, json.dumps(_digests(folder), indent=1) + '\n')
        return session

    def _opened(self, provider: str, folder: Path | None) -> Any:
        """An `onnxruntime.InferenceSession` that keeps what is compiled in a folder, and takes it from there."""
        settings = self._runtime.SessionOptions()
        settings.intra_op_num_threads, settings.inter_op_num_threads = self._options.threads, 1
        settings.log_severity_level = 4  # what matters comes as an error, or is looked at
        settings.add_session_config_entry(
            'session.intra_op.allow_spinning', '0'
        )  # other programs need the cores
        file, given = self._file, {}
        if folder is not None and provider == TENSOR_RT:
            given = {
                'trt_engine_cache_enable': True,
                'trt_engine_cache_path': str(folder),
                'trt_timing_cache_enable': True,
                'trt_timing_cache_path': str(folder),
            }
        elif folder is not None and provider == CPU:
            if (folder / _OPTIMISED).exists():
                file = folder / _OPTIMISED
                settings.graph_optimization_level = (
                    self._runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
                )
            else:
                settings.optimized_model_filepath = str(folder / _OPTIMISED)
        if provider == TENSOR_RT:
            given |= {
                'trt_fp16_enable': self._options.precision == 'float16',
                'trt_max_workspace_size': _WORKSPACE_BYTES,
                'device_id': self._options.index,
            }
        elif provider == CUDA:
            given |= {'device_id': self._options.index}
        providers = [(provider, given)] + ([(CPU, {})] if provider != CPU else [])
        with warnings.catch_warnings():  # of a provider that this build lacks, which is noted
            warnings.simplefilter('ignore', UserWarning)
            return self._runtime.InferenceSession(
                str(file), settings, providers=providers, enable_fallback=False
            )

    def _checked_cache(self, provider: str) -> Path | None:
        """The folder of what a provider compiled of this file, emptied where it is not as it was written; None where
        nothing can be kept."""
        if self._cache is None or files_of_values(
            self._file
        ):  # which an optimised form would look for beside itself
            return None
        device = 'cpu' if provider == CPU else self._options.device
        origin = {
            'file': file_digest(self._file),
            'provider': provider,
            'precision': self._options.precision,
            'version': self._runtime.__version__,
            'device': _device_name(device),
        }
        folder = (
            self._cache
            / hashlib.sha256(json.dumps(origin, sort_keys=True).encode()).hexdigest()[:16]
        )
        try:
            if foreign_writer(folder):
                return None
            if folder.exists() and not _is_as_written(folder):
                shutil.rmtree(folder)
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:  # no space, or no place: it is compiled at every start
            return None
        return folder


def load_onnx_runtime() -> ModuleType:
    """The module `onnxruntime`, which reports to nobody what it is used for.

    Raises:
        OnnxRuntimeError: it is not installed, or cannot be loaded.
    """
    try:
        import onnxruntime
    except (ImportError, OSError) as error:
        raise OnnxRuntimeError(
            f'ONNX Runtime cannot be loaded: {error}; install it: pip install onnxruntime, or '
            f'onnxruntime-gpu where there is a GPU'
        ) from error
    onnxruntime.disable_telemetry_events()
    return onnxruntime


def default_cache_folder() -> Path:
    """Where compiled forms lie: `$XDG_CACHE_HOME/deadline_perception/engine/onnxruntime`."""
    return user_cache_path('deadline_perception') / 'engine' / 'onnxruntime'


def files_of_values(file: Path) -> list[Path]:
    """Files beside an exported network that hold its values: the `.bin` of OpenVINO IR, and those that an ONNX file
    names."""
    file = Path(file)
    if file.suffix == '.xml':
        beside = [file.with_suffix('.bin')]
    elif file.suffix == '.onnx' and file.stat().st_size:
        with (
            file.open('rb') as stream,
            mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            named = {name[: size[0]] for size, name in _ELSEWHERE.findall(content)}
        beside = [file.parent / os.fsdecode(name) for name in sorted(named)]
    else:
        beside = []
    return [one for one in beside if one.is_file()]


def file_digest(file: Path) -> str:
    """Identifies what a file holds."""
    digest = hashlib.sha256()
    with Path(file).open('rb') as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _device_name(device: str) -> str:
    from deadline_perception.core.device import read_device_facts

    facts = read_device_facts(device)
    return f'{facts.name} {facts.cpu_capability} {facts.multiprocessors}'


def _digests(folder: Path) -> dict[str, str]:
    return {
        file.name: file_digest(file) for file in sorted(folder.iterdir()) if file.name != _MANIFEST
    }


def _is_as_written(folder: Path) -> bool:
    try:
        return read_object(folder / _MANIFEST, 'list of compiled files') == _digests(folder)
    except (JsonFileError, OSError):
        return False


def _told(error: Exception) -> str:
    return printable((str(error).strip().splitlines() or [type(error).__name__])[0], 200)


def feed_of(shape: Sequence[int | str | None], kind: str, pixels: np.ndarray) -> np.ndarray:
    """Values `[h, w, 3]` as an input of that shape and type reads them, by planes or not, with or without a batch."""
    by_planes = shape[-1] != 3 or shape[-3] == 3
    values = pixels.transpose(2, 0, 1) if by_planes else pixels
    types = {
        'tensor(float)': np.float32,
        'tensor(float16)': np.float16,
        'tensor(uint8)': np.uint8,
        'tensor(int8)': np.int8,
        'tensor(double)': np.float64,
    }
    if kind not in types:
        raise OnnxRuntimeError(f'input is of type {kind}, expected one of {", ".join(types)}')
    values = np.ascontiguousarray(values, types[kind])
    return values[None] if len(shape) == 4 else values
