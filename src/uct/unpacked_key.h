// SPDX-License-Identifier: BSD-3-Clause
// The object behind UCX's unpacked remote key (uct_rkey_t): the range that the key names, and the mapping that held it when
// the key was unpacked. UCP unpacks a key per eager message, from any thread, so objects come from a list without a lock.
// They are never freed: a released key is recognised as such until the object holds the next key.
#pragma once

#include "remote_key.h"

#include <atomic>
#include <cstdint>

namespace gaudi::uct {

class UnpackedKey {
public:
    UnpackedKey() = default;
    UnpackedKey(const UnpackedKey &) = delete;
    UnpackedKey &operator=(const UnpackedKey &) = delete;

    static UnpackedKey *make(const RemoteKey &key, const Resolved &memory);
    void release();

    /// UCP's pipelines pass UCT_INVALID_RKEY, and callers without a key 0: such copies have no bounds.
    static bool is_none(ucx::uct_rkey_t rkey) { return rkey + 1 <= 1; }
    /// Null for a key that was released or is not of gaudi_copy.
    static UnpackedKey *from(ucx::uct_rkey_t rkey) {
        auto *key = reinterpret_cast<UnpackedKey *>(rkey);
        return key && key->m_magic == kMagic ? key : nullptr;
    }
    ucx::uct_rkey_t handle() const { return reinterpret_cast<ucx::uct_rkey_t>(this); }

    /// Whether copies may reach these bytes with it.
    bool covers(std::uint64_t address, std::uint64_t length) const {
        const std::uint64_t offset = address - m_key.address;
        return offset < m_reach && length <= m_reach - offset && is_current();
    }
    /// Whether a copy of these bytes is inside the memory that its key names, if it has one.
    static bool allows(ucx::uct_rkey_t rkey, std::uint64_t address, std::uint64_t length) {
        if (is_none(rkey))
            return true;
        const UnpackedKey *key = from(rkey);
        return key && key->covers(address, length);
    }
    /// Whether the mapping is the one that the key was unpacked for. Host memory has none.
    bool is_current() const { return !m_memory || m_memory.is_current(); }
    bool is_reachable() const { return m_reach != 0; }
    const RemoteKey &key() const { return m_key; }

    /// -1, 0 or 1 by what the keys name; those that name the same memory in the same mapping are equal.
    static int compare(const UnpackedKey &one, const UnpackedKey &other);

private:
    friend class UnpackedKeys;
    static constexpr std::uint32_t kMagic = 0x47415552;

    std::uint32_t m_magic = 0;
    std::uint32_t m_index = 0;            // in the list of all
    std::atomic<std::uint32_t> m_next{0}; // of those that are free, by index + 1
    RemoteKey m_key{};
    Resolved m_memory;
    std::uint64_t m_reach = 0; // bytes from the key's address that copies reach; 0 for memory that they do not
};

} // namespace gaudi::uct
