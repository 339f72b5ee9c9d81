// SPDX-License-Identifier: BSD-3-Clause
// Steps of the tests of copies.
#pragma once

#include "gaudi.h"
#include "random.h"

#include "gaudi/copy/cs_engine.h"
#include "gaudi/copy/mover.h"
#include "gaudi/copy/transfer.h"
#include "thunk/owners.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace gaudi::test {

/// Device memory seen past the engine: through an export that only the test knows of.
class Window {
public:
    explicit Window(const Region &region)
        : m_base(region.base()),
          m_export(value(region.session().device().export_dmabuf(region.base(), region.size()))) {}

    Bytes read(std::uint64_t address, std::size_t length) const {
        Bytes bytes(length);
        for (std::size_t done = 0; done < length;)
            done += moved(pread(m_export.get(), bytes.data() + done, length - done, offset(address + done)));
        return bytes;
    }
    void write(std::uint64_t address, const Bytes &bytes) const {
        for (std::size_t done = 0; done < bytes.size();)
            done += moved(pwrite(m_export.get(), bytes.data() + done, bytes.size() - done, offset(address + done)));
    }

private:
    static std::size_t moved(ssize_t result) {
        if (result <= 0)
            throw std::runtime_error("the export cannot be read or written");
        return static_cast<std::size_t>(result);
    }
    off_t offset(std::uint64_t address) const { return static_cast<off_t>(address - m_base); }

    std::uint64_t m_base;
    thunk::Fd m_export;
};

/// Host memory from whole pages, untouched ones for free. It is never unmapped: a card pins what it copies, but the queue
/// of a software card that is reset or lost may be at its last copy yet when the test ends.
class HostBuffer {
public:
    explicit HostBuffer(std::size_t size)
        : m_size(size),
          m_memory(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
        if (m_memory == MAP_FAILED)
            throw std::bad_alloc();
    }
    HostBuffer(const HostBuffer &) = delete;
    HostBuffer &operator=(const HostBuffer &) = delete;

    unsigned char *data() const { return static_cast<unsigned char *>(m_memory); }
    std::size_t size() const { return m_size; }
    std::uint64_t address(std::uint64_t offset = 0) const { return reinterpret_cast<std::uint64_t>(data() + offset); }
    void write(std::uint64_t offset, const Bytes &bytes) const {
        if (!bytes.empty())
            std::memcpy(data() + offset, bytes.data(), bytes.size());
    }
    Bytes read(std::uint64_t offset, std::size_t length) const {
        return Bytes(data() + offset, data() + offset + length);
    }

private:
    std::size_t m_size;
    void *m_memory;
};

/// Counts how operations ended.
struct Tally {
    unsigned ended = 0, failed = 0;
    std::string problem; // of the last that failed
    static void count(void *user, const Error *error) {
        auto &tally = *static_cast<Tally *>(user);
        ++tally.ended;
        tally.failed += error ? 1 : 0;
        if (error)
            tally.problem = error->text;
    }
};

/// Whether an engine, which submits by itself, reads the end of a copy from its completion flag.
inline bool uses_completion_flags(const Engine &engine) {
    return dynamic_cast<const CsEngine &>(engine).uses_completion_flags();
}

/// Progresses a mover until all its copies have ended.
inline bool finish(Mover &mover) {
    return until([&] {
        mover.progress();
        return mover.outstanding() == 0;
    });
}

/// Posts a copy and waits for its end; the error is that of either.
inline Result<void> run_copy(Mover &mover, std::uint64_t destination, std::uint64_t source, std::uint64_t length,
                             HostRange *range = nullptr) {
    struct End {
        bool seen = false;
        Result<void> result;
    } end;
    const auto done = [](void *user, const Error *error) {
        auto &noted = *static_cast<End *>(user);
        noted.seen = true;
        if (error)
            noted.result = tl::unexpected(*error);
    };
    const auto posted = mover.post({destination, source, length, range, done, &end});
    if (!posted)
        return tl::unexpected(posted.error());
    EXPECT_FALSE(end.seen) << "a copy ends from progress(), never inside the call that posts it";
    if (*posted == Mover::Posted::started && !until([&] {
            mover.progress();
            return end.seen;
        }))
        throw std::runtime_error("a copy does not end");
    return end.result;
}

/// One card's engine with a channel of its own, and host and device memory to copy between, at the card's addresses.
class EngineUser {
public:
    explicit EngineUser(Card &card_, std::size_t host_size = 16 * kMiB, std::uint64_t device_size = 64 * kMiB)
        : card(card_), shared(value(start_engine(card_))), engine(*shared), host(host_size),
          mapping(value(thunk::map_host(value(card_.open())->device(), host.data(), host.size()))),
          device(value(allocate(card_, {.length = device_size}))), m_submitted(engine.submissions()) {}
    ~EngineUser() { engine.settle(); } // no thread uses the channel after this
    EngineUser(const EngineUser &) = delete;
    EngineUser &operator=(const EngineUser &) = delete;

    void post(Direction direction, std::uint64_t source, std::uint64_t destination, std::uint64_t length,
              bool flush = false) {
        Transfer *transfer = channel.take();
        if (!transfer)
            throw std::runtime_error("the channel is full");
        transfer->source = source;
        transfer->destination = destination;
        transfer->length = length;
        transfer->flush = flush;
        transfer->user = this;
        transfer->done = [](Transfer &over) {
            auto &user = *static_cast<EngineUser *>(over.user);
            ++user.ended;
            if (over.failure) {
                ++user.failed;
                user.error = over.failure->code;
                user.problem = over.failure->text;
            }
        };
        ++posted;
        engine.post(direction, *transfer);
    }
    void down(std::uint64_t host_offset, std::uint64_t device_offset, std::uint64_t length) {
        post(Direction::down, mapping.get() + host_offset, device + device_offset, length);
    }
    void up(std::uint64_t device_offset, std::uint64_t host_offset, std::uint64_t length) {
        post(Direction::up, device + device_offset, mapping.get() + host_offset, length);
    }
    void on_card(std::uint64_t from, std::uint64_t to, std::uint64_t length) {
        post(Direction::on_card, device + from, device + to, length);
    }
    /// Until everything that was posted has ended.
    bool finish() {
        return until([this] {
            engine.progress();
            channel.dispatch();
            return channel.outstanding() == 0;
        });
    }
    std::uint64_t submissions() const { return engine.submissions() - m_submitted; }

    Card &card;
    std::shared_ptr<Engine> shared;
    Engine &engine;
    Channel channel;
    HostBuffer host;
    thunk::Mapping mapping;
    std::uint64_t device;
    unsigned posted = 0, ended = 0, failed = 0;
    int error = 0; // of the last that failed
    std::string problem;

private:
    std::uint64_t m_submitted;
};

} // namespace gaudi::test
