// SPDX-License-Identifier: BSD-3-Clause
// Memory of a program that never heard of us, allocated before and after UCX starts, freed and allocated again: all of it
// is sent, received, put into and got from, and the program itself checks every byte.
#include "conversation.h"
#include "counted.h"
#include "foreign_program.h"
#include "owner.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <thread>

using namespace e2e;

namespace {

constexpr std::size_t kSize = (3 << 20) + 5;
constexpr std::size_t kOffset = 12345; // nobody's addresses are aligned

void expect(bool held, const char *what) {
    if (!held)
        throw Failure(what);
}

#ifdef __SANITIZE_THREAD__ // there UCX runs without its memory hooks: it keeps none, and receives through host memory
constexpr bool kKeepsRegistrations = false;
#else
constexpr bool kKeepsRegistrations = true;
#endif

struct Case {
    const char *name;
    const char *transports; // null: as UCX chooses
    Program::Calls calls;
    bool module; // with libucm_gaudi

    /// Whether anybody tells UCX that memory goes.
    bool seen() const { return module && calls == Program::Calls::linked; }
    const char *quirks = "";
    bool zero_copy() const { return transports && std::string(transports).starts_with("rc_v"); }
};

/// What was freed stays registered until UCX looks after its registrations, and so long its address is not given away.
void have_ucx_let_go(Side &side) {
    std::vector<char> host(1 << 20);
    const Mapped mapped(side, host.data(), host.size());
}

/// One side: the program and its UCX.
class Both {
public:
    Both(Side &side, bool first, std::unique_ptr<Program> &program, const Case &one)
        : m_side(side), m_first(first), m_program(program), m_case(one) {}

    /// The first sends its memory into the second's, in three ways.
    void transfer(const Program::Memory &memory, unsigned seed) {
        for (unsigned way = 0; way < 3; ++way) {
            const std::vector<char> bytes = pattern(kSize, seed * 3 + way);
            m_program->write(memory, m_first ? bytes : std::vector<char>(kSize), kOffset);
            m_side.meet();
            const bool looks = m_first && m_case.zero_copy() && (way != 0 || kKeepsRegistrations);
            const Moved before = looks ? counted() : Moved{};
            m_side.meet();
            if (way == 0)
                send(memory);
            else
                put_or_get(memory, way == 1);
            m_side.meet();
            if (looks) {
                const Moved moved = counted() - before;
                expect(moved.staged() == 0, "bytes went through host memory");
                expect(moved.direct >= kSize, "the NIC did not touch the card's memory");
            }
            m_side.meet();
            expect(m_program->read(memory, kSize, kOffset) == bytes, "wrong bytes");
        }
    }

    /// Sent, freed, and another in its place.
    void whole_life(Program::Memory a) {
        const Program::Memory b = m_program->allocate(2 * kSize);
        transfer(a, 1);
        transfer(b, 2);
        have_ucx_let_go(m_side);
        free(a);
        have_ucx_let_go(m_side);
        const Program::Memory c = m_program->allocate(kSize + kOffset);
        expect(c.address == a.address, "its address");
        transfer(c, 3);
        transfer(b, 4);
        have_ucx_let_go(m_side);
        free(b);
        free(c);
        m_program->close();
    }
    void free(const Program::Memory &memory) { expect(m_program->free(memory), "the program cannot free its memory"); }

private:
    void send(const Program::Memory &memory) {
        ucp_request_param_t param{};
        if (m_first)
            m_side.finish(ucp_tag_send_nbx(m_side.peer(), memory.data(kOffset), kSize, 1, &param), "tag send");
        else
            m_side.finish(ucp_tag_recv_nbx(m_side.worker(), memory.data(kOffset), kSize, 1, ~0ull, &param),
                          "tag receive");
    }
    /// The first puts, or the second gets.
    void put_or_get(const Program::Memory &memory, bool put) {
        const Mapped mapped(m_side, memory.data(kOffset), kSize);
        const Place theirs = m_side.trade({mapped.key(), memory.address + kOffset});
        if (m_first == put) {
            const RemoteKey key = unpack_key(m_side.peer(), theirs.key);
            ucp_request_param_t param{};
            m_side.finish(
                put ? ucp_put_nbx(m_side.peer(), memory.data(kOffset), kSize, theirs.address, key.get(), &param)
                    : ucp_get_nbx(m_side.peer(), memory.data(kOffset), kSize, theirs.address, key.get(), &param),
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

/// The modules that UCX finds: all, or all but the hooks. libucs reads where they are before main, so without them this
/// process starts anew, with this test.
class Modules {
public:
    explicit Modules(bool hooks) {
        constexpr const char *kMade = "E2E_MODULES";
        if (hooks)
            return;
        if (const char *made = std::getenv(kMade)) {
            m_directory = made;
            return;
        }
        const std::string all = std::getenv("UCX_PLUGIN_PATH");
        const std::size_t end = std::min(all.find(':'), all.size());
        char name[] = "/tmp/ucx-gaudi-modules-XXXXXX";
        const std::filesystem::path directory = mkdtemp(name);
        for (const auto &file : std::filesystem::directory_iterator(all.substr(0, end)))
            if (file.path().filename().string().find("libucm_") != 0)
                std::filesystem::copy(file.path(), directory / file.path().filename());
        setenv(kMade, directory.c_str(), 1);
        setenv("UCX_PLUGIN_PATH", (directory.string() + all.substr(end)).c_str(), 1);
        const auto *test = ::testing::UnitTest::GetInstance()->current_test_info();
        const std::string only = std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name();
        execl("/proc/self/exe", "foreign_test", only.c_str(), nullptr);
        throw Failure("the test cannot start itself");
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

/// Another thread of the program that maps and unmaps at full speed, for as long as it lives.
class Load {
public:
    explicit Load(const Program &program)
        : m_thread([this, &program] {
              try {
                  for (; !m_over; ++m_times)
                      // A search of UCX's for other memory may have it exported for the moment.
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
    bool went_well() const { return !m_failed && m_times > 0; }

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
    run_pair([&](Side &side, bool first) { Both(side, first, program, GetParam()).whole_life(a); }, options);
}

TEST_P(ForeignMemory, arrives_and_is_reused_with_card_opened_after_ucx) {
    std::unique_ptr<Program> program;
    run_pair([&](Side &side, bool first) {
        side.meet();
        if (first)
            program = std::make_unique<Program>(GetParam().calls);
        side.meet(); // one after the other: each takes the first card that is free
        if (!first)
            program = std::make_unique<Program>(GetParam().calls);
        Both(side, first, program, GetParam()).whole_life(program->allocate(kSize + kOffset));
    });
}

/// The domain's answer for one byte of the memory, whose mapping has that length; and the dma-buf has the byte.
void expect_export(const uct_side::Domain &domain, const Program::Memory &memory, std::size_t offset,
                   std::size_t length, const std::vector<char> &bytes) {
    const auto seen = domain.query(memory.data(offset), 1, 0x7f);
    expect(seen && seen->mem_type == UCS_MEMORY_TYPE_GAUDI, "it is not recognised");
    expect(seen->base_address == memory.data() && seen->alloc_length == length, "its range is another");
    char byte = 0;
    const ssize_t got = pread(seen->dmabuf_fd, &byte, 1, static_cast<off_t>(seen->dmabuf_offset));
    close(seen->dmabuf_fd);
    expect(got == 1 && seen->dmabuf_offset == offset && byte == bytes[offset], "the dma-buf is of something else");
}

TEST_P(ForeignMemory, query_returns_exact_range_and_offset) {
    Program program(GetParam().calls);
    const Program::Memory early = program.allocate(kSize);
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG;
    ucp_context_h context = nullptr;
    check(ucp_init(&params, nullptr, &context), "ucp_init");
    {
        const uct_side::Domain domain;
        const Program::Memory late = program.allocate(kSize);
        for (const Program::Memory *memory : {&early, &late}) {
            const std::vector<char> bytes = pattern(kSize, 1);
            program.write(*memory, bytes);
            // What nobody saw being allocated is known by the pages that it takes.
            const std::size_t length = memory == &late && GetParam().seen() ? kSize : uct_side::kPage;
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
            Both both(side, first, program, GetParam());
            Load load(*program);
            std::set<std::uint64_t> addresses;
            constexpr unsigned kLives = 4;
            for (unsigned life = 0; life < kLives; ++life) {
                const Program::Memory memory = program->allocate(kSize + kOffset);
                addresses.insert(memory.address);
                both.transfer(memory, life);
                have_ucx_let_go(side);
                both.free(memory);
                have_ucx_let_go(side);
            }
            load.end();
            expect(load.went_well(), "the other thread's memory");
            expect(addresses.size() < kLives, "addresses that were used again");
        },
        options);
}

constexpr Case kCases[] = {
    {"as_ucx_chooses", nullptr, Program::Calls::linked, true},
    {"as_ucx_chooses_without_hooks", nullptr, Program::Calls::linked, false},
    {"as_ucx_chooses_by_looked_up_calls", nullptr, Program::Calls::looked_up, true},
    {"zero_copy", "rc_v,gaudi_cpy", Program::Calls::linked, true},
    {"zero_copy_mainline_posted", "rc_v,gaudi_cpy", Program::Calls::linked, true, "mainline,posted"},
    {"zero_copy_without_hooks", "rc_v,gaudi_cpy", Program::Calls::linked, false},
    {"zero_copy_by_looked_up_calls", "rc_v,gaudi_cpy", Program::Calls::looked_up, true},
    {"staged", "tcp,gaudi_cpy", Program::Calls::linked, true},
    {"staged_without_hooks", "tcp,gaudi_cpy", Program::Calls::looked_up, false},
};

void PrintTo(const Case &one, std::ostream *out) { *out << one.name; }

INSTANTIATE_TEST_SUITE_P(, ForeignMemory, ::testing::ValuesIn(kCases),
                         [](const auto &one) { return std::string(one.param.name); });

} // namespace
