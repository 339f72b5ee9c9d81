// SPDX-License-Identifier: BSD-3-Clause
#include "settings.h"

#include "lock_ranks.h"
#include "os/mutex.h"

namespace gaudi {
namespace {

constinit os::Mutex g_mutex{rank::kSettings};
constinit Settings g_settings GAUDI_GUARDED_BY(g_mutex);

} // namespace

Settings settings() {
    const os::MutexLock lock(g_mutex);
    return g_settings;
}

void change_settings(const std::function<void(Settings &)> &change) {
    const os::MutexLock lock(g_mutex);
    change(g_settings);
}

} // namespace gaudi
