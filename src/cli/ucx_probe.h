// SPDX-License-Identifier: BSD-3-Clause
// Which UCX a libucp belongs to, and whether the modules work in it.
#pragma once

#include "child_answer.h"
#include "sentence.h"

#include <string>

namespace gaudi::cli {

struct ProbedUcx {
    std::string libucs;      // the file that was loaded
    std::string version;     // as in "1.22.0"
    bool statistics = false; // built with --enable-stats, which changes the size of UCX's structures
};

/// UCX reads UCX_PLUGIN_PATH from 1.22 on.
bool reads_plugin_path(const std::string &version);

/// Why the modules do not work in this UCX and what to do, to follow the name of the UCX in a sentence; empty if they do.
std::string explain_unusable(const ProbedUcx &ucx);

/// Loads a libucp (a path, or a name for the loader) in a child process and reads its version: in this process UCX
/// could not be unloaded. UCX starts slowly, so several probes are best started together.
class UcxProbe {
public:
    explicit UcxProbe(const std::string &libucp);

    /// Waits for the child. The error is the loader's, or says what the library lacks. To be called once.
    OrSentence<ProbedUcx> read_answer();

private:
    ChildAnswer m_child;
};

} // namespace gaudi::cli
