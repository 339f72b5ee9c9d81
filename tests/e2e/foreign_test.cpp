// SPDX-License-Identifier: BSD-3-Clause
// Memory of a program that uses only libhl-thunk, allocated before and after UCX starts, freed and allocated again, is
// sent, received, put and got. The program checks every byte.
#include "conversation.h"
#include "foreign_program.h"
#include "owner.h"
#include "read_counters.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <thread>

using namespace e2e;

namespace {

constexpr std::size_t kSize = (3 << 20) + 5;
constexpr std::size_t kOffset = 12345; // not aligned

#ifdef __SANITIZE_THREAD__ // under TSan UCX runs without its memory hooks, caches no registrations and receives staged
constexpr bool kKeepsRegistrations = false;
#else
constexpr bool kKeepsRegistrations = true;
#endif

struct Case {
    const char *name;
    const char *transports; // null: UCX chooses
    Program::Calls calls;
    bool module; // with libucm_gaudi

    /// Whether the hooks see the allocation.
    bool hooked() const { return module && calls == Program::Calls::linked; }
    const char *quirks = "";
    bool zero_copy() const { return transports && std::string(transports).starts_with("rc_v"); }
};

/// One side: the program and its UCX.
class Peer {
public:
    Peer(Side &side, bool first, std::unique_ptr<Program> &program, const Case &one)
        : m_side(side), m_first(first), m_program(program), m_case(one) {}

    /// Transfers from the first side to the second by tag, put and get.
    void transfer(const Program::Memory &memory, unsigned seed) {
        for (unsigned way = 0; way < 3; ++way) {
            const std::vector<char> bytes = pattern(kSize, seed * 3 + way);
            m_program->write(memory, m_first ? bytes : std::vector<char>(kSize), kOffset);
            m_side.meet();
            const bool counts = m_first && m_case.zero_copy() && (way != 0 || kKeepsRegistrations);
            const Moved before = counts ? read_counters() : Moved{};
            m_side.meet();
            if (way == 0)
                send(memory);
            else
                put_or_get(memory, way == 1);
            m_side.meet();
            if (counts) {
                const Moved moved = read_counters() - before;
                require(moved.staged() == 0, "bytes were staged");
                require(moved.direct >= kSize, "the HCA did not access the card's memory");
            }
            m_side.meet();
            require(m_program->read(memory, kSize, kOffset) == bytes, "wrong bytes");
        }
    }

    /// Transfers memory, frees it, and transfers a new allocation at its address.
    void transfer_and_reuse(Program::Memory a) {
        const Program::Memory b = m_program->allocate(2 * kSize);
        transfer(a, 1);
        transfer(b, 2);
        trigger_deregistration(m_side);
        free(a);
        trigger_deregistration(m_side);
        const Program::Memory c = m_program->allocate(kSize + kOffset);
        require(c.address == a.address, "the new allocation has another address");
        transfer(c, 3);
        transfer(b, 4);
        trigger_deregistration(m_side);
        free(b);
        free(c);
        m_program->close();
    }
    void free(const Program::Memory &memory) { require(m_program->free(memory), "the driver refused to unmap"); }

private:
    void send(const Program::Memory &memory) {
        ucp_request_param_t param{};
        if (m_first)
            m_side.finish(ucp_tag_send_nbx(m_side.peer(), memory.data(kOffset), kSize, 1, &param), "tag send");
        else
            m_side.finish(ucp_tag_recv_nbx(m_side.worker(), memory.data(kOffset), kSize, 1, ~0ull, &param),
                          "tag receive");
    }
    /// The first side puts, or the second gets.
    void put_or_get(const Program::Memory &memory, bool put) {
        const MappedRange mapped(m_side, memory.data(kOffset), kSize);
        const Place remote = m_side.trade({mapped.key(), memory.address + kOffset});
        if (m_first == put) {
            const RemoteKey key = unpack_key(m_side.peer(), remote.key);
            ucp_request_param_t param{};
            m_side.finish(
                put ? ucp_put_nbx(m_side.peer(), memory.data(kOffset), kSize, remote.address, key.get(), &param)
                    : ucp_get_nbx(m_side.peer(), memory.data(kOffset), kSize, remote.address, key.get(), &param),
                "put or get");
            m_side.flush(m_side.peer());
        }
        m_side.meet();
    }

    Side &m_side;
    const bool m_first;
    std::unique_ptr<Program> &m_program;
    const Case &m_case;
};

/// Hides libucm_gaudi from UCX unless `hooks`. libucs reads the plugin path before main, so the process executes itself
/// again with another path.
class Modules {
public:
    explicit Modules(bool hooks) {
        constexpr const char *kVariable = "E2E_MODULES";
        if (hooks)
            return;
        if (const char *copied = std::getenv(kVariable)) {
            m_directory = copied;
            return;
        }
        const std::string all = std::getenv("UCX_PLUGIN_PATH");
        const std::size_t end = std::min(all.find(':'), all.size());
        char name[] = "/tmp/ucx-gaudi-modules-XXXXXX";
        const std::filesystem::path directory = mkdtemp(name);
        for (const auto &file : std::filesystem::directory_iterator(all.substr(0, end)))
            if (file.path().filename().string().find("libucm_") != 0)
                std::filesystem::copy(file.path(), directory / file.path().filename());
        setenv(kVariable, directory.c_str(), 1);
        setenv("UCX_PLUGIN_PATH", (directory.string() + all.substr(end)).c_str(), 1);
        const auto *test = ::testing::UnitTest::GetInstance()->current_test_info();
        const std::string only = std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name();
        execl("/proc/self/exe", "foreign_test", only.c_str(), nullptr);
        throw Failure("execl of the test failed");
    }
    ~Modules() {
        std::error_code ignored;
        if (!m_directory.empty())
            std::filesystem::remove_all(m_directory, ignored);
    }
    Modules(const Modules &) = delete;
    Modules &operator=(const Modules &) = delete;

private:
    std::filesystem::path m_directory;
};

class ForeignMemory : public ::testing::TestWithParam<Case> {
protected:
    ForeignMemory() {
        if (GetParam().transports)
            setenv("UCX_TLS", GetParam().transports, 1);
        if (*GetParam().quirks)
            setenv("SOFTGAUDI_QUIRKS", GetParam().quirks, 1);
    }

    Modules m_modules{GetParam().module};
    soft::FreshDirectory m_cards{"SOFTGAUDI_DIR", "softgaudi"}, m_fabric{"SOFTHCA_DIR", "softhca"};
};

/// A thread of the program that maps and unmaps at full speed until end().
class Load {
public:
    explicit Load(const Program &program)
        : m_thread([this, &program] {
              try {
                  for (; !m_over; ++m_times)
                      // A probe for other memory may have this one exported, which makes unmap fail for a moment.
                      for (const Program::Memory memory = program.allocate(kSize); !program.free(memory);)
                          std::this_thread::yield();
              } catch (const Failure &) {
                  m_failed = true;
              }
          }) {}
    ~Load() { end(); }
    Load(const Load &) = delete;
    Load &operator=(const Load &) = delete;

    void end() {
        m_over = true;
        if (m_thread.joinable())
            m_thread.join();
    }
    bool succeeded() const { return !m_failed && m_times > 0; }

private:
    std::atomic<bool> m_over{false}, m_failed{false};
    std::atomic<unsigned> m_times{0};
    std::thread m_thread;
};

TEST_P(ForeignMemory, arrives_and_is_reused_with_card_opened_before_ucx) {
    std::unique_ptr<Program> program;
    Program::Memory a;
    Options options;
    options.before = [&](bool) {
        program = std::make_unique<Program>(GetParam().calls);
        a = program->allocate(kSize + kOffset);
    };
    run_pair([&](Side &side, bool first) { Peer(side, first, program, GetParam()).transfer_and_reuse(a); }, options);
}

TEST_P(ForeignMemory, arrives_and_is_reused_with_card_opened_after_ucx) {
    std::unique_ptr<Program> program;
    run_pair([&](Side &side, bool first) {
        side.meet();
        if (first)
            program = std::make_unique<Program>(GetParam().calls);
        side.meet(); // the sides open one after the other: each takes the first free card
        if (!first)
            program = std::make_unique<Program>(GetParam().calls);
        Peer(side, first, program, GetParam()).transfer_and_reuse(program->allocate(kSize + kOffset));
    });
}

/// Expects that a query for one byte returns the mapping of `length` bytes and a dma-buf with that byte at its offset.
void expect_export(const uct_side::Domain &domain, const Program::Memory &memory, std::size_t offset,
                   std::size_t length, const std::vector<char> &bytes) {
    const auto seen = domain.query(memory.data(offset), 1, 0x7f);
    require(seen && seen->mem_type == UCS_MEMORY_TYPE_GAUDI, "the memory is not recognised");
    require(seen->base_address == memory.data() && seen->alloc_length == length, "the query returns another range");
    char byte = 0;
    const ssize_t got = pread(seen->dmabuf_fd, &byte, 1, static_cast<off_t>(seen->dmabuf_offset));
    close(seen->dmabuf_fd);
    require(got == 1 && seen->dmabuf_offset == offset && byte == bytes[offset], "the dma-buf has other bytes");
}

TEST_P(ForeignMemory, query_returns_exact_range_and_offset) {
    Program program(GetParam().calls);
    const Program::Memory early = program.allocate(kSize);
    ucp_context_h context = init_ucp();
    {
        const uct_side::Domain domain;
        const Program::Memory late = program.allocate(kSize);
        for (const Program::Memory *memory : {&early, &late}) {
            const std::vector<char> bytes = pattern(kSize, 1);
            program.write(*memory, bytes);
            // The length of memory that no hook saw is known in whole pages only.
            const std::size_t length = memory == &late && GetParam().hooked() ? kSize : uct_side::kPage;
            for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{4095}, kOffset, kSize - 1})
                expect_export(domain, *memory, offset, length, bytes);
        }
    }
    ucp_cleanup(context);
}

TEST_P(ForeignMemory, reused_address_never_uses_a_stale_registration) {
    std::unique_ptr<Program> program;
    Options options;
    options.before = [&](bool) { program = std::make_unique<Program>(GetParam().calls); };
    run_pair(
        [&](Side &side, bool first) {
            Peer peer(side, first, program, GetParam());
            Load load(*program);
            std::set<std::uint64_t> addresses;
            constexpr unsigned kRounds = 4;
            for (unsigned round = 0; round < kRounds; ++round) {
                const Program::Memory memory = program->allocate(kSize + kOffset);
                addresses.insert(memory.address);
                peer.transfer(memory, round);
                trigger_deregistration(side);
                peer.free(memory);
                trigger_deregistration(side);
            }
            load.end();
            require(load.succeeded(), "an allocation of the other thread failed");
            require(addresses.size() < kRounds, "no address was used again");
        },
        options);
}

constexpr Case kCases[] = {
    {"as_ucx_chooses", nullptr, Program::Calls::linked, true},
    {"zero_copy_without_hooks", "rc_v,gaudi_cpy", Program::Calls::linked, false},
    {"staged", "tcp,gaudi_cpy", Program::Calls::linked, true},
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // the others run the same code of ours for minutes
    {"as_ucx_chooses_without_hooks", nullptr, Program::Calls::linked, false},
    {"as_ucx_chooses_by_looked_up_calls", nullptr, Program::Calls::looked_up, true},
    {"zero_copy", "rc_v,gaudi_cpy", Program::Calls::linked, true},
    {"zero_copy_mainline_posted", "rc_v,gaudi_cpy", Program::Calls::linked, true, "mainline,posted"},
    {"zero_copy_by_looked_up_calls", "rc_v,gaudi_cpy", Program::Calls::looked_up, true},
    {"staged_without_hooks", "tcp,gaudi_cpy", Program::Calls::looked_up, false},
#endif
};

void PrintTo(const Case &one, std::ostream *out) { *out << one.name; }

INSTANTIATE_TEST_SUITE_P(, ForeignMemory, ::testing::ValuesIn(kCases),
                         [](const auto &one) { return std::string(one.param.name); });

} // namespace
