// SPDX-License-Identifier: BSD-3-Clause
// Where the parts of the product are. All but the engines are found from the program's own file, so that a copy of the
// whole tree works wherever it is put.
#pragma once

#include "sentence.h"

#include <filesystem>

namespace gaudi::cli {

/// What belongs into UCX_PLUGIN_PATH.
OrSentence<std::filesystem::path> module_directory();

/// The software Gaudi's libhl-thunk.
OrSentence<std::filesystem::path> softgaudi_library();

/// The software HCA, for LD_PRELOAD.
OrSentence<std::filesystem::path> softhca_library();

/// The fetched UCX builds: GAUDI_ENGINES, else where the build had them. Empty where there are none.
std::filesystem::path engines_directory();

} // namespace gaudi::cli
