// The TensorFlow this library was built for. Python finds the text in the file *before* it loads it: a library of another
// TensorFlow may not load at all, and says so in words that help nobody.

extern "C" __attribute__((visibility("default"), used)) const char ctrlab_built_for[] =
    "ctrlab built for TensorFlow <" CTRLAB_TENSORFLOW_VERSION ">";
