// SPDX-License-Identifier: BSD-3-Clause
// Finding UCX builds: installed ones, the wheels of RAPIDS, and those inside the wheels of NIXL.
#pragma once

#include "sentence.h"

#include <filesystem>
#include <string>
#include <vector>

namespace gaudi::cli {

struct Ucx {
    std::filesystem::path libraries; // the directory of libucs and its sisters
    std::filesystem::path libucs;
    std::filesystem::path libucp;
    bool hashed = false;            // named as in libucs-14c218c5.so.0.0.0: a program that needs libucs.so.0 misses it
    std::filesystem::path programs; // the directory of ucx_info, if it has one
};

/// All UCX in a directory that is an installation prefix, a directory of libraries, or one of Python packages.
std::vector<Ucx> ucx_in(const std::filesystem::path &directory);

struct Engine {
    std::string name;
    Ucx ucx;
};
/// The fetched builds that are there, each by its names: "rapids" is the newest of the rapids-* ones.
std::vector<Engine> engines();

/// What --ucx means: an engine's name, or a directory.
OrSentence<Ucx> ucx_named(const std::string &name);

} // namespace gaudi::cli
