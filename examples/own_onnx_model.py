"""A detector that you already have (ONNX, OpenVINO IR, TensorFlow Lite).

.venv/bin/python examples/own_onnx_model.py FILE [PHOTO]

Its head, classes and input are read from the file. `deadline-perception adopt FILE --data ...` finds out on images what
the file leaves open, and puts several detectors behind one choice; give the set.yaml that it writes to this script.
"""

import sys

import image

if __name__ == '__main__':
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    image.main(*sys.argv[2:3] or [image.STREET], sys.argv[1])
