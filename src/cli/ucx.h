// SPDX-License-Identifier: BSD-3-Clause
// Finds UCX builds: installed ones, the wheels of RAPIDS, and those inside the wheels of NIXL.
#pragma once

#include "sentence.h"

#include <filesystem>
#include <string>
#include <vector>

namespace gaudi::cli {

struct Ucx {
    std::filesystem::path libraries; // the directory of libucs, libuct and libucp
    std::filesystem::path libucs;
    std::filesystem::path libucp;
    bool hashed = false;            // file names as libucs-14c218c5.so.0.0.0: a program does not find libucs.so.0
    std::filesystem::path programs; // the directory of ucx_info, if it has one
};

/// All UCX in an installation prefix, a directory of libraries, or a directory of Python packages.
std::vector<Ucx> find_ucx_in(const std::filesystem::path &directory);

struct FetchedUcx {
    std::string name;
    Ucx ucx;
};
/// The fetched UCX builds by name; "rapids" is a second name of the newest rapids-* one.
std::vector<FetchedUcx> list_fetched_ucx();

/// The UCX that --ucx names: a fetched one, or one in a directory.
OrSentence<Ucx> resolve_ucx(const std::string &name);

} // namespace gaudi::cli
