// SPDX-License-Identifier: BSD-3-Clause
// One card of this machine. It is known from its control node alone; it is opened at the first allocation or copy that
// needs it, once per process, and kept until exit, because closing a card resets it. Where somebody else in the process
// has it open already, their context is shared, until they close it.
#pragma once

#include "arena.h"
#include "copier.h"
#include "forks.h"
#include "thunk/owners.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace gaudi {

class Cards;

class Card {
public:
    Card(Cards &cards, unsigned index, std::string bus_id, const hlthunk_hw_ip_info &info);
    Card(const Card &) = delete;
    Card &operator=(const Card &) = delete;

    Cards &cards() const { return m_cards; }
    unsigned index() const { return m_index; } // in our order
    const std::string &bus_id() const { return m_bus_id; }
    std::uint32_t module_id() const { return m_info.module_id; }
    const hlthunk_hw_ip_info &info() const { return m_info; }
    std::uint64_t page_size() const { return m_info.device_mem_alloc_default_page_size; }
    /// What is taken from the driver at once. Small pages are taken many at a time: each block costs a descriptor when
    /// it is exported, and there are few of those.
    std::uint64_t block_size() const {
        constexpr std::uint64_t kEnough = 512ull << 20;
        return page_size() >= kEnough ? page_size() : (kEnough + page_size() - 1) / page_size() * page_size();
    }

    /// Whether it takes copies: by command submission, which not every generation does, or else by the framework that has
    /// it, once find_copy_path() has found that one. Frameworks are not asked from inside their own calls.
    bool can_copy() const { return takes_submissions() || m_framework_copies.load(std::memory_order_relaxed); }
    bool find_copy_path();

    /// The addresses that its memory can have. None of them is one that a processor has too; empty where that is not so.
    Range window() const;

    /// Opens the card at the first call, or shares it with who has it open in this process. A card that is being reset is
    /// waited for, within the limit that all cards share (OpenWait); one in use by another process is not.
    Result<thunk::Device> open();
    /// As open(), but a card that is being reset is not waited for: EAGAIN.
    Result<thunk::Device> try_open();
    /// As open(), but takes nothing that the process does not hold already.
    std::optional<thunk::Device> if_held();
    bool is_open() const { return m_opened.load(std::memory_order_acquire); }
    /// Whether it was opened before this process was forked off: then it is the parent's, with all that is on it.
    bool inherited() const { return is_open() && m_forks.load(std::memory_order_relaxed) != forks(); }
    Error of_the_parent() const;
    /// Whether it was opened by somebody else.
    bool adopted() const { return m_adopted.load(std::memory_order_acquire); }
    /// Whether somebody else has it too: by adoption, or because we lent it.
    bool shared() const { return adopted() || m_lent.load(std::memory_order_acquire); }

    /// A descriptor for somebody who would be refused a card that we have open: both share it, until they close theirs. -1
    /// where it is not ours to lend, or lent already.
    Result<int> lend();

    /// Whether a card that is shared was reset meanwhile. Its notifier belongs to who opened it, so we count.
    bool reset_since_shared(const thunk::Device &device) const;

    /// They are about to close their descriptor `fd`. If it is their last one, everything on a card that they opened ends
    /// here: copies, our memory, theirs, and our duplicate. Until closed() nobody shares it again.
    enum class Kept { by_them, by_us, by_nobody };
    Kept closing(int fd);
    void closed(int fd);

    /// Grows each time that somebody closes the card: what was begun in an earlier life is of no use.
    std::uint64_t life() const { return m_life.load(std::memory_order_acquire); }
    /// Lets go of a card that only we hold any more, because its owner has closed it unseen; whether it was so.
    bool let_go_if_left();

    /// Whether the driver exports this card's memory: asked with the first block.
    enum class Exports { unknown, yes, no };
    Exports exports() const { return m_exports.load(std::memory_order_acquire); }
    void set_exports(const Result<void> &probed, std::uint64_t life);
    /// What the driver said, once exports() is no.
    std::string why_no_exports() const {
        const std::lock_guard guard(m_exports_mutex);
        return m_why_no_exports;
    }

    /// Whether its driver has refused to import another card's memory: the next time it would refuse too.
    bool refuses_imports() const { return m_refuses_imports.load(std::memory_order_relaxed); }
    void remember_refused_import() { m_refuses_imports.store(true, std::memory_order_relaxed); }

    Arena &arena() { return m_arena; }
    /// The engine that copies, started at the first call.
    Result<Copier *> copier();
    Copier *copier_if_started() const { return m_started.load(std::memory_order_acquire); }
    /// In a forked child, at once: asking at each copy would cost each copy.
    void forked() { m_started.store(nullptr, std::memory_order_release); }

private:
    void opened(const thunk::Device &device); // the mutex is held
    bool takes_submissions() const { return m_info.device_id == HL_PCI_ID_GAUDI2; }
    Result<thunk::Device> open_device();
    std::optional<thunk::Device> adopt(); // the mutex is held
    void let_go();
    void end_life();

    Cards &m_cards;
    const unsigned m_index;
    const std::string m_bus_id;
    const hlthunk_hw_ip_info m_info;

    // The engine's self-test allocates, and the arena opens the card: taken in this order.
    std::mutex m_copier_mutex, m_open_mutex;
    mutable std::mutex m_exports_mutex;
    std::atomic<bool> m_opened{false}, m_adopted{false}, m_lent{false}, m_framework_copies{false};
    std::atomic<unsigned> m_forks{0};       // when it was opened
    std::atomic<std::uint64_t> m_resets{0}; // that a shared card had gone through before
    std::vector<int> m_closing;             // descriptors of theirs, on their way out
    std::atomic<bool> m_letting_go{false};
    std::atomic<bool> m_calls_framework{false}; // with m_copier_mutex held
    std::atomic<std::uint64_t> m_life{0};
    std::atomic<Exports> m_exports{Exports::unknown};
    std::string m_why_no_exports;
    std::atomic<bool> m_refuses_imports{false};
    thunk::Device m_device; // our own is closed by the kernel, when the process ends
    thunk::Fd m_nothing;    // what takes the number of a duplicate that we let go of
    static constexpr std::size_t kParked = 8;
    std::vector<thunk::Fd> m_parked; // such numbers; no thread is about to call on one from so many lives ago
    Arena m_arena;
    std::unique_ptr<Copier> m_copier;
    std::vector<std::unique_ptr<Copier>> m_retired; // movers remember them
    std::optional<Error> m_no_copier;               // why a card that is shared has none
    std::atomic<Copier *> m_started{nullptr};
};

} // namespace gaudi
