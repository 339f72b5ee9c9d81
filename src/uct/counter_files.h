// SPDX-License-Identifier: BSD-3-Clause
// The counters as files of UCX's VFS: gaudi/card0/direct_bytes and others. `ucx_vfs` mounts it where UCX was built with
// FUSE.
#pragma once

#include "gaudi/card/cards.h"
#include "ucx/host.h"

namespace gaudi::uct {

/// What the files of one UCX show.
struct CounterFiles {
    const ucx::Host &host;
    Cards &cards;
};

/// Adds the directory; its files are made when it is first listed. `files` is never freed: UCX may read a file as long as the
/// process lives. Does nothing with a UCX that has no VFS.
void add_counter_files(CounterFiles &files);

} // namespace gaudi::uct
