# What tf.sysconfig says, asked once for each TensorFlow: importing it takes seconds, reading its version does not.
#
# Sets TENSORFLOW_VERSION, TENSORFLOW_INCLUDE, TENSORFLOW_FLAGS, TENSORFLOW_LINK.

execute_process(
  COMMAND ${Python_EXECUTABLE} -c
    "import importlib.metadata as m, importlib.util as u; print(m.version('tensorflow'), u.find_spec('tensorflow').origin, sep=';')"
  OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
if(failed)
  message(FATAL_ERROR
    "ctrlab builds against the TensorFlow of ${Python_EXECUTABLE}, which has none; run: pip install 'tensorflow>=2.21,<2.22'")
endif()

if(NOT "${found}" STREQUAL "${CTRLAB_TENSORFLOW_FOUND}")
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env TF_CPP_MIN_LOG_LEVEL=3 ${Python_EXECUTABLE} -c
      "import tensorflow as tf; s = tf.sysconfig; print(tf.__version__, s.get_include(), ' '.join(s.get_compile_flags()), ' '.join(s.get_link_flags()), sep='|')"
    OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "|" ";" answer "${answer}")
  list(GET answer 0 version)
  list(GET answer 1 include)
  list(GET answer 2 flags)
  list(GET answer 3 link)
  separate_arguments(flags)
  separate_arguments(link)
  list(FILTER flags INCLUDE REGEX "^-D")
  set(TENSORFLOW_VERSION "${version}" CACHE INTERNAL "")
  set(TENSORFLOW_INCLUDE "${include}" CACHE INTERNAL "")
  set(TENSORFLOW_FLAGS "${flags}" CACHE INTERNAL "")
  set(TENSORFLOW_LINK "${link}" CACHE INTERNAL "")
  set(CTRLAB_TENSORFLOW_FOUND "${found}" CACHE INTERNAL "")
endif()
message(STATUS "TensorFlow ${TENSORFLOW_VERSION}")
