# Shared build rules: one set of flags, one way to declare a layer and its tests.

# The kernels ask for -O3 themselves; elsewhere it makes the program larger and nothing faster.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

add_library(colibri_flags INTERFACE)
target_include_directories(colibri_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
# -ffp-contract=off: a fused multiply-add appears only where the code says so; results must not depend on the compiler.
target_compile_options(colibri_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
  -ffp-contract=off -fvisibility=hidden)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU") # g++ 12 gives false alarms on "text" + std::string (GCC bug 105651)
  target_compile_options(colibri_flags INTERFACE -Wno-restrict)
endif()
# With -O1, g++ 12 does not see that short strings are copied within their bounds.
set(false_alarms_at_o1 -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
if(COLIBRI_WERROR)
  target_compile_options(colibri_flags INTERFACE -Werror)
endif()
if(COLIBRI_SANITIZE)
  target_compile_options(colibri_flags INTERFACE -fsanitize=${COLIBRI_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(colibri_flags INTERFACE -fsanitize=${COLIBRI_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU") # the instrumentation hides initialisations from g++ 12's analysis
    target_compile_options(colibri_flags INTERFACE -Wno-maybe-uninitialized ${false_alarms_at_o1})
  endif()
endif()
if(COLIBRI_FUZZ)
  target_compile_options(colibri_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
find_package(Threads REQUIRED)
target_link_libraries(colibri_flags INTERFACE Threads::Threads)

# For files whose speed nobody waits for: tests and replays (light: quick to compile), the program's own parts (small).
function(colibri_optimization name level)
  add_library(${name} INTERFACE)
  if(COLIBRI_SANITIZE)
    set(level -O0)
  endif()
  target_compile_options(${name} INTERFACE $<$<NOT:$<CONFIG:Debug>>:${level}>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${name} INTERFACE ${false_alarms_at_o1})
  endif()
endfunction()
colibri_optimization(colibri_light -O1)
colibri_optimization(colibri_small -Os)

# Precompiled headers: one for the test programs, in sanitizer builds one for the layers too. The layers of other builds, and
# everything in builds with a compiler cache (which cannot store what used one), do without and show what lacks an #include.
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()
set(standard_headers <algorithm> <cmath> <cstring> <functional> <limits> <map> <memory> <optional> <span> <string> <variant>
  <vector>)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/only_headers.cc CONTENT "// Nothing but its precompiled headers.\n")
if(COLIBRI_SANITIZE)
  add_library(layer_headers STATIC EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/only_headers.cc)
  target_link_libraries(layer_headers PRIVATE colibri_flags)
  target_precompile_headers(layer_headers PRIVATE ${standard_headers})
endif()

# colibri_unity(TARGET [REGEX]): in sanitizer builds, where the headers take longest, compiles the files of TARGET eight at a
# time (asan: 2250 to 1500 seconds of one core); those whose names match REGEX alone, for they use names of their neighbours.
function(colibri_unity target)
  if(NOT COLIBRI_SANITIZE)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  if(ARGC GREATER 1)
    get_target_property(alone ${target} SOURCES)
    list(FILTER alone INCLUDE REGEX "${ARGV1}")
    set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# colibri_test_program(NAME SOURCES...): a program of tests.
if(COLIBRI_TESTS)
  add_library(colibri_gtest INTERFACE)
  target_link_libraries(colibri_gtest INTERFACE colibri_light GTest::gtest GTest::gtest_main)
  add_executable(test_headers EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/only_headers.cc)
  target_link_libraries(test_headers PRIVATE colibri_flags colibri_gtest)
  target_precompile_headers(test_headers PRIVATE <gtest/gtest.h> ${standard_headers} <filesystem> <fstream> <random> <thread>)
endif()
function(colibri_test_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE colibri_gtest)
  target_precompile_headers(${name} REUSE_FROM test_headers)
endfunction()

# colibri_layer(NAME deps...): object library colibri_NAME from every .cc of the folder (subfolders named in
# COLIBRI_SUBDIRS included) except *_test.cc; the *_test.cc become one test program NAME_test.
function(colibri_layer name)
  cmake_parse_arguments(ARG "" "" "SUBDIRS;DEPS;LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  foreach(sub IN LISTS ARG_SUBDIRS)
    file(GLOB more CONFIGURE_DEPENDS ${sub}/*.cc)
    list(APPEND sources ${more})
  endforeach()
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  add_library(colibri_${name} STATIC ${sources})
  target_link_libraries(colibri_${name} PUBLIC colibri_flags ${ARG_DEPS} PRIVATE ${ARG_LIBS})
  if(COLIBRI_SANITIZE)
    target_precompile_headers(colibri_${name} REUSE_FROM layer_headers)
  endif()
  if(COLIBRI_TESTS AND tests)
    colibri_test_program(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE colibri_${name})
    target_compile_definitions(${name}_test PRIVATE COLIBRI_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    add_test(NAME ${name} COMMAND ${name}_test)
    set_tests_properties(${name} PROPERTIES LABELS unit)
  endif()
endfunction()
