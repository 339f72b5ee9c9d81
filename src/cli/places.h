// SPDX-License-Identifier: BSD-3-Clause
// Where the parts of the product are. All but the fetched UCX builds are found relative to this program, so a copy of
// the whole tree works anywhere.
#pragma once

#include "sentence.h"

#include <filesystem>
#include <string>

namespace gaudi::cli {

/// The directory for UCX_PLUGIN_PATH.
OrSentence<std::filesystem::path> find_module_directory();

/// The libhl-thunk of the software Gaudi.
OrSentence<std::filesystem::path> find_softgaudi_library();

/// The libhl-thunk that records calls.
OrSentence<std::filesystem::path> find_recorder_library();

/// The software HCA, for LD_PRELOAD.
OrSentence<std::filesystem::path> find_softhca_library();

/// A program of ours: beside this one, or where those are that people do not start themselves.
OrSentence<std::filesystem::path> find_program(const std::string &name);

/// The directory of the fetched UCX builds: GAUDI_ENGINES, else the one of this build; empty in a build without them.
std::filesystem::path fetched_ucx_directory();

} // namespace gaudi::cli
