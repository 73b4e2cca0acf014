# simdjson's one header and one source, as pysimdjson brings them.
#
# Sets SIMDJSON_FOLDER.

execute_process(
  COMMAND ${Python_EXECUTABLE} -c
    "import importlib.metadata as m; print(next(p.locate().parent for p in m.files('pysimdjson') if p.name == 'simdjson.h'))"
  OUTPUT_VARIABLE SIMDJSON_FOLDER OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
if(failed)
  message(FATAL_ERROR
    "ctrlab parses JSON with the simdjson of ${Python_EXECUTABLE}'s pysimdjson, which has none; run: pip install 'pysimdjson>=7,<8'")
endif()
