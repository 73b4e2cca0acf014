# Arrow's and Parquet's C++ libraries as pyarrow brings them, asked for at each configuration.
#
# Sets ARROW_INCLUDE and ARROW_LINK.

execute_process(
  COMMAND ${Python_EXECUTABLE} -c
    "import importlib.metadata as m, importlib.util as u; print(m.version('pyarrow'), u.find_spec('pyarrow').origin, sep=';')"
  OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
if(failed)
  message(FATAL_ERROR
    "ctrlab builds against the pyarrow of ${Python_EXECUTABLE}, which has none; run: pip install 'pyarrow>=26,<27'")
endif()
list(GET found 0 version)
list(GET found 1 origin)
cmake_path(GET origin PARENT_PATH folder)
# Files by their whole names: the wheel has none that `-larrow` finds.
file(GLOB ARROW_LINK ${folder}/libarrow.so.* ${folder}/libparquet.so.*)
set(ARROW_INCLUDE ${folder}/include)
message(STATUS "pyarrow ${version}")
