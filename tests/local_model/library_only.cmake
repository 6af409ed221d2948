# Leaves out of llama.cpp what the tests never load; the build takes less than half the time.
#   CMAKE_ARGS="-DLLAVA_BUILD=OFF -DGGML_NATIVE=OFF -DCMAKE_PROJECT_llama.cpp_INCLUDE=$PWD/tests/local_model/library_only.cmake"
set(LLAMA_BUILD_COMMON OFF CACHE BOOL "the helpers of llama.cpp's own programs" FORCE)
