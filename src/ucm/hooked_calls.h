// SPDX-License-Identifier: BSD-3-Clause
// The calls of a framework or the program to libhl-thunk, as the memory hooks see them. Each call notes in the session of
// its card what it changes, so that mappings are known before they are used and registrations end before they go.
#pragma once

#include "gaudi/card/cards.h"
#include "gaudi/memory/foreign_mappings.h"

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>

namespace gaudi::ucm {

/// The library's own functions.
struct RealCalls {
    decltype(&hlthunk_open) open = nullptr;
    decltype(&hlthunk_open_by_module_id) open_by_module_id = nullptr;
    decltype(&hlthunk_close) close = nullptr;
    decltype(&hlthunk_device_memory_alloc) device_memory_alloc = nullptr;
    decltype(&hlthunk_device_memory_free) device_memory_free = nullptr;
    decltype(&hlthunk_device_memory_map) device_memory_map = nullptr;
    decltype(&hlthunk_memory_unmap) memory_unmap = nullptr;
};

class HookedCalls {
public:
    HookedCalls(Cards &cards, const RealCalls &real) : m_cards(cards), m_real(real) {}
    HookedCalls(const HookedCalls &) = delete;
    HookedCalls &operator=(const HookedCalls &) = delete;

    // With the results of the library's functions, errno included.
    int open(hlthunk_device_name name, const char *bus_id) noexcept;
    int open_by_module_id(std::uint32_t module_id) noexcept;
    int close(int fd) noexcept;
    std::uint64_t alloc(int fd, std::uint64_t size, std::uint64_t page_size, bool contiguous, bool shared) noexcept;
    int free(int fd, std::uint64_t handle) noexcept;
    std::uint64_t map(int fd, std::uint64_t handle, std::uint64_t hint) noexcept;
    int unmap(int fd, std::uint64_t address) noexcept;

private:
    /// The file behind a descriptor: a number that was closed past the hooks and given out again is noticed by it.
    struct File {
        Card *card = nullptr; // null for a card that this process is not to use, and for other files
        dev_t device = 0;
        ino_t inode = 0;
        dev_t node = 0;
    };

    Card *find_card(int fd);
    Card *find_card_anew(int fd);
    ForeignMappings *find_mappings(int fd);
    bool release_if_owner_closed(Card &card);
    int hand_over_card(Card &card);
    bool is_new_refusal(const Card &card, const std::string &reason);
    void forget(int fd);
    void forget(const Card &card);
    template <class Open, class Matches>
    int open_or_hand_over(const Open &open, const Matches &matches) noexcept;

    Cards &m_cards;
    const RealCalls m_real;
    os::Mutex m_mutex{rank::kHookedFiles}; // never held while the library or UCX is called
    std::map<int, File> m_files GAUDI_GUARDED_BY(m_mutex);

    /// Why a card was not handed over at the last try.
    struct Refusal {
        const Session *session;
        std::string reason;
    };
    std::map<const Card *, Refusal> m_refusals GAUDI_GUARDED_BY(m_mutex);
};

} // namespace gaudi::ucm
