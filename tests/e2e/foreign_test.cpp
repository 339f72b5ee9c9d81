// SPDX-License-Identifier: BSD-3-Clause
// Memory of a program that never heard of us, allocated before and after UCX starts, freed and allocated again: all of it
// is sent, received, put into and got from, and the program itself checks every byte.
#include "conversation.h"
#include "foreign_program.h"
#include "owner.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
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

struct Case {
    const char *name;
    const char *transports; // null: as UCX chooses
    Program::Calls calls;
    bool module; // with libucm_gaudi

    /// Whether anybody tells UCX that memory goes. If not, what it has registered stays until the end: the driver refuses to
    /// unmap it, and nothing else gets its address.
    bool seen() const { return module && calls == Program::Calls::linked; }
    const char *quirks = "";
};

/// One side: the program and its UCX.
class Both {
public:
    Both(Side &side, bool first, std::unique_ptr<Program> &program)
        : m_side(side), m_first(first), m_program(program) {}

    /// The first sends its memory into the second's, in three ways.
    void transfer(const Program::Memory &memory, unsigned seed) {
        for (unsigned way = 0; way < 3; ++way) {
            const std::vector<char> bytes = pattern(kSize, seed * 3 + way);
            m_program->write(memory, m_first ? bytes : std::vector<char>(kSize), kOffset);
            m_side.meet();
            if (way == 0)
                send(memory);
            else
                put_or_get(memory, way == 1);
            m_side.meet();
            expect(m_program->read(memory, kSize, kOffset) == bytes, "wrong bytes");
        }
    }

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
};

class ForeignMemory : public ::testing::TestWithParam<Case> {
protected:
    ForeignMemory() {
        if (GetParam().transports)
            setenv("UCX_TLS", GetParam().transports, 1);
        if (*GetParam().quirks)
            setenv("SOFTGAUDI_QUIRKS", GetParam().quirks, 1);
        if (!GetParam().module)
            leave_out_the_hooks();
    }
    ~ForeignMemory() override {
        std::error_code ignored;
        if (!m_modules.empty())
            std::filesystem::remove_all(m_modules, ignored);
    }

    soft::FreshDirectory m_cards{"SOFTGAUDI_DIR", "softgaudi"}, m_fabric{"SOFTHCA_DIR", "softhca"};

private:
    /// A directory of modules without libucm_gaudi.
    void leave_out_the_hooks() {
        const std::string all = std::getenv("UCX_PLUGIN_PATH");
        const std::size_t end = std::min(all.find(':'), all.size());
        char name[] = "/tmp/ucx-gaudi-modules-XXXXXX";
        m_modules = mkdtemp(name);
        for (const auto &file : std::filesystem::directory_iterator(all.substr(0, end)))
            if (file.path().filename().string().find("libucm_") != 0)
                std::filesystem::copy(file.path(), m_modules / file.path().filename());
        setenv("UCX_PLUGIN_PATH", (m_modules.string() + all.substr(end)).c_str(), 1);
    }
    std::filesystem::path m_modules;
};

/// Whether freed memory is still registered until UCX looks after its registrations: then its address is not given away.
void have_ucx_let_go(Side &side) {
    std::vector<char> host(1 << 20);
    const Mapped mapped(side, host.data(), host.size());
}

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

TEST_P(ForeignMemory, from_before_and_after_ucx_starts_and_over_what_was_freed) {
    std::unique_ptr<Program> program;
    Program::Memory a;
    Options options;
    options.before = [&](bool) {
        program = std::make_unique<Program>(GetParam().calls);
        a = program->allocate(kSize + kOffset);
    };
    run_pair(
        [&](Side &side, bool first) {
            Both both(side, first, program);
            const Program::Memory b = program->allocate(2 * kSize);
            both.transfer(a, 1);
            both.transfer(b, 2);
            have_ucx_let_go(side);
            expect(program->free(a) || !GetParam().seen(), "the program cannot free its memory");
            have_ucx_let_go(side);
            const Program::Memory c = program->allocate(kSize + kOffset);
            both.transfer(c, 3);
            both.transfer(b, 4);
            have_ucx_let_go(side);
            for (const Program::Memory &memory : {b, c})
                expect(program->free(memory) || !GetParam().seen(), "the program cannot free its memory");
            program->close();
        },
        options);
}

TEST_P(ForeignMemory, of_a_card_that_was_opened_after_ucx_started) {
    std::unique_ptr<Program> program;
    run_pair([&](Side &side, bool first) {
        side.meet();
        if (first)
            program = std::make_unique<Program>(GetParam().calls);
        side.meet(); // one after the other: each takes the first card that is free
        if (!first)
            program = std::make_unique<Program>(GetParam().calls);
        Both both(side, first, program);
        const Program::Memory a = program->allocate(kSize + kOffset), b = program->allocate(kSize + kOffset);
        both.transfer(a, 1);
        both.transfer(b, 2);
    });
}

TEST_P(ForeignMemory, at_a_reused_address_never_goes_by_an_old_registration_under_load) {
    std::unique_ptr<Program> program;
    Options options;
    options.before = [&](bool) { program = std::make_unique<Program>(GetParam().calls); };
    run_pair(
        [&](Side &side, bool first) {
            Both both(side, first, program);
            Load load(*program);
            std::set<std::uint64_t> addresses;
            constexpr unsigned kLives = 8;
            for (unsigned life = 0; life < kLives; ++life) {
                const Program::Memory memory = program->allocate(kSize + kOffset);
                addresses.insert(memory.address);
                both.transfer(memory, life);
                have_ucx_let_go(side);
                expect(program->free(memory) || !GetParam().seen(), "the program cannot free its memory");
                have_ucx_let_go(side);
            }
            load.end();
            expect(load.went_well(), "the other thread's memory");
            expect(addresses.size() < kLives || !GetParam().seen(), "no address was used again");
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
