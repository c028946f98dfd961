"""A detector that you already have (ONNX, OpenVINO IR, TensorFlow Lite).   python examples/own_onnx_model.py FILE

Its head, classes and input are read from the file. `deadline-perception adopt FILE --data ...` finds out on images what
the file leaves open, and puts several detectors behind one choice; give the set.yaml that it writes to this script.
"""

import sys

import image

if __name__ == '__main__':
    image.main('', sys.argv[1])
