// SPDX-License-Identifier: BSD-3-Clause
// The directory in which the processes of one user publish their counters, a file each. A process holds a lock on its file
// through the mapping, so the lock ends with the process or with its exec, however they come: a file without a lock is
// stale. That needs no process ids, which differ between containers and are used again.
#pragma once

#include "thunk/fd.h"

#include <functional>
#include <string>

namespace gaudi {

class CounterDirectory {
public:
    /// /dev/shm/ucx-gaudi-UID, or what GAUDI_COUNTERS_DIR names; empty where that is set to nothing: no page is wanted.
    static std::string path();

    /// Opens it; `create` makes it if need be. Refuses a directory that other users can enter or that another user owns.
    static thunk::Result<CounterDirectory> open(bool create);

    int fd() const { return m_fd.get(); }
    /// The name of a page that this process publishes now.
    static std::string make_page_name();

    /// Calls `visit` with the descriptor and the name of each page that a living process has published, and removes the stale
    /// ones. Looks at `limit` files at most; false where there are more. Files of other names or contents are left alone.
    bool for_each(std::size_t limit, const std::function<void(int file, const std::string &name)> &visit) const;

private:
    explicit CounterDirectory(thunk::Fd fd) : m_fd(std::move(fd)) {}

    thunk::Fd m_fd;
};

} // namespace gaudi
