import subprocess
import sys


def run_python(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs this interpreter with words and keeps what it says; options are those of `subprocess.run`."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, **options)
