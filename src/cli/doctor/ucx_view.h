// SPDX-License-Identifier: BSD-3-Clause
// What a UCX itself says about the distances of devices and about the settings that choose NICs.
#pragma once

#include "facts.h"
#include "thunk/fd.h"

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace gaudi::cli::doctor {

/// Loads a libucp in a child process, which outlives the constructor: it is forked before this process loads the libraries
/// of vendors, and asked when the bus ids are known.
class UcxView {
public:
    explicit UcxView(const std::string &libucp);
    UcxView(const UcxView &) = delete;
    UcxView &operator=(const UcxView &) = delete;
    ~UcxView();

    /// Fills in settings and the distances of pairs of bus ids (card and NIC), or why they are not known. To be called
    /// once.
    void ask(const std::vector<std::pair<std::string, std::string>> &pairs, UcxViewFacts &facts);

private:
    void reap();

    pid_t m_child = -1;
    thunk::Fd m_socket;
};

} // namespace gaudi::cli::doctor
