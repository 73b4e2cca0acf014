// The TensorFlow version that this library was built for. Python finds the text in the file *before* loading it: a library for
// another TensorFlow may fail to load with an unhelpful error.

extern "C" __attribute__((visibility("default"), used)) const char ctrlab_built_for[] =
    "ctrlab built for TensorFlow <" CTRLAB_TENSORFLOW_VERSION ">";
