// SPDX-License-Identifier: BSD-3-Clause
#include "blocks.h"

#include "os/format.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace softgaudi {

using gaudi::os::Mutex;
using gaudi::os::MutexLock;

namespace {

constexpr size_t kOpenBlocks = 24;

/// Copies the parts of `from` that hold data over `to`.
void copy_data(int from, int to, Mutex &sides) {
    std::array<char, 65536> buffer;
    off_t at = 0;
    while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
        const off_t end = lseek(from, at, SEEK_HOLE);
        while (at < end) {
            const MutexLock lock(sides);
            const size_t want = std::min(buffer.size(), static_cast<size_t>(end - at));
            const ssize_t got = pread(from, buffer.data(), want, at);
            if (got <= 0 || pwrite(to, buffer.data(), static_cast<size_t>(got), at) != got)
                return;
            at += got;
        }
    }
}

} // namespace

std::string Blocks::path(uint64_t context, uint32_t handle) const {
    return gaudi::os::format("{}/block-{}-{}", m_dir, context, handle);
}

std::string Blocks::view_path(uint64_t context, uint32_t handle) const {
    return gaudi::os::format("{}/view-{}-{}", m_dir, context, handle);
}

bool Blocks::create(uint64_t context, uint32_t handle, uint64_t size) {
    const auto make = [&](const std::string &name) {
        const File file(open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        return file && ftruncate(file.get(), static_cast<off_t>(size)) == 0;
    };
    return make(path(context, handle)) && (!m_posted || make(view_path(context, handle)));
}

void Blocks::remove(uint64_t context, uint32_t handle) {
    {
        const MutexLock lock(m_mutex);
        m_cache.remove_if([&](const Cached &entry) { return entry.context == context && entry.handle == handle; });
    }
    unlink(path(context, handle).c_str());
    if (m_posted)
        unlink(view_path(context, handle).c_str());
}

bool Blocks::remove_unexported() {
    {
        const MutexLock lock(m_mutex);
        m_cache.clear();
    }
    return scan(true);
}

/// Whether an export holds a block of this card.
bool Blocks::scan(bool remove_free) const {
    DIR *listing = opendir(m_dir.c_str());
    if (!listing)
        return false;
    bool held = false;
    while (const dirent *entry = readdir(listing)) {
        const std::string name = gaudi::os::format("{}/{}", m_dir, entry->d_name);
        if (std::strncmp(entry->d_name, "block-", 6) == 0) {
            const File file(open(name.c_str(), O_RDWR | O_CLOEXEC));
            if (file && is_any_byte_locked(file.get())) {
                held = true;
                continue;
            }
            if (remove_free)
                unlink(name.c_str());
        } else if (remove_free &&
                   (std::strncmp(entry->d_name, "view-", 5) == 0 || std::strncmp(entry->d_name, "dmabuf-", 7) == 0)) {
            unlink(name.c_str());
        }
    }
    closedir(listing);
    return held;
}

int Blocks::export_block(uint64_t context, uint32_t handle, uint32_t mapping, uint64_t offset, uint64_t size) {
    // An importer must learn which part of the block is exported. The name through which a file was opened is the only
    // data that travels with a descriptor, also to other processes.
    static std::atomic<uint32_t> count{0};
    const std::string name =
        gaudi::os::format("{}/dmabuf-{}-{}-{}.{}", m_dir, offset, size, getpid(), count.fetch_add(1));
    if (link(path(context, handle).c_str(), name.c_str()) != 0)
        return -errno;
    File file(open(name.c_str(), O_RDWR | O_CLOEXEC));
    const int error = errno;
    unlink(name.c_str());
    if (!file)
        return -error;
    if (!lock_byte(file.get(), mapping))
        return -errno;
    return file.release();
}

bool Blocks::is_exported(uint64_t context, uint32_t handle, uint32_t mapping) {
    const File file(open(path(context, handle).c_str(), O_RDWR | O_CLOEXEC));
    return file && is_byte_locked(file.get(), mapping);
}

std::shared_ptr<const Blocks::View> Blocks::view(uint64_t context, uint32_t handle) {
    const MutexLock lock(m_mutex);
    const auto known = std::find_if(m_cache.begin(), m_cache.end(), [&](const Cached &entry) {
        return entry.context == context && entry.handle == handle;
    });
    if (known != m_cache.end()) {
        m_cache.splice(m_cache.begin(), m_cache, known);
        return m_cache.front().view;
    }
    auto view = std::make_shared<View>();
    File block(open(path(context, handle).c_str(), O_RDWR | O_CLOEXEC));
    if (!block)
        return nullptr;
    if (m_posted) {
        File inner(open(view_path(context, handle).c_str(), O_RDWR | O_CLOEXEC));
        if (!inner)
            return nullptr;
        view->engine = std::make_unique<BlockMemory>(std::move(inner));
        view->outer = std::make_unique<BlockMemory>(std::move(block));
    } else {
        view->engine = std::make_unique<BlockMemory>(std::move(block));
    }
    m_cache.push_front({context, handle, view});
    if (m_cache.size() > kOpenBlocks)
        m_cache.pop_back();
    return view;
}

void Blocks::flush(uint64_t context, const std::vector<uint32_t> &handles) {
    if (!m_posted)
        return;
    for (const uint32_t handle : handles) {
        if (const auto blocks = view(context, handle))
            copy_data(blocks->outer->file(), blocks->engine->file(), m_sides);
    }
}

} // namespace softgaudi
