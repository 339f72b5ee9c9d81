// SPDX-License-Identifier: BSD-3-Clause
#include "transfer.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <new>

namespace bench {

using namespace e2e;

const char *name(Way way) { return way == Way::tag ? "tag" : way == Way::put ? "put" : "get"; }

std::uint64_t read_steady_clock() {
    using namespace std::chrono;
    return static_cast<std::uint64_t>(duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count());
}

Party::Shared &Party::share() {
    void *page = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        throw Failure("cannot map shared memory for the two processes");
    return *new (page) Shared{};
}

void Party::meet() {
    constexpr unsigned kSpins = 1000; // then the core is left to the other process
    ++m_meetings;
    m_shared.arrived[m_first ? 0 : 1] = m_meetings;
    const std::atomic<std::uint64_t> &other = m_shared.arrived[m_first ? 1 : 0];
    for (unsigned idle = 0; other < m_meetings;) {
        idle = ucp_worker_progress(m_side.worker()) != 0 ? 0 : idle + 1;
        if (idle <= kSpins)
            continue;
        sched_yield();
        try {
            m_side.pipe().check_peer();
        } catch (const Failure &) {
            if (other < m_meetings) // else it arrived and ended since
                throw;
        }
    }
}

Route::Route(Party &party, ucs_memory_type_t from, ucs_memory_type_t to, std::size_t size)
    : m_party(party), m_memory(party.side(), party.first() ? from : to, size) {
    m_memory.write(std::vector<char>(size, 'x')); // pages that were never written move for nothing
    m_remote = party.side().trade(m_memory.place());
    m_key = unpack_key(party.side().peer(), m_remote.key);
}

void Route::move(Way way, std::size_t size) {
    Side &side = m_party.side();
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH;
    param.memh = m_memory.handle();
    if (way == Way::tag) {
        side.finish(m_party.first() ? ucp_tag_send_nbx(side.peer(), m_memory.data(), size, 1, &param)
                                    : ucp_tag_recv_nbx(side.worker(), m_memory.data(), size, 1, ~0ull, &param),
                    "message");
    } else if (m_party.first() == (way == Way::put)) {
        side.finish(way == Way::put
                        ? ucp_put_nbx(side.peer(), m_memory.data(), size, m_remote.address, m_key.get(), &param)
                        : ucp_get_nbx(side.peer(), m_memory.data(), size, m_remote.address, m_key.get(), &param),
                    name(way));
        side.flush(side.peer());
    }
}

std::uint64_t Route::time(Way way, std::size_t size, Clock clock) {
    Party::Shared &shared = m_party.shared();
    const unsigned self = m_party.first() ? 0 : 1, initiator = way == Way::get ? 1 : 0;
    m_party.meet();
    const std::uint64_t begin = clock();
    move(way, size);
    shared.begin[self] = begin;
    shared.end[self] = way == Way::tag || self == initiator ? clock() : begin;
    m_party.meet();
    return std::max<std::uint64_t>(shared.end[0], shared.end[1]) - shared.begin[initiator];
}

void Route::check_bytes(Way way, std::size_t size) {
    const std::vector<char> bytes = pattern(size, ++m_seed);
    m_memory.write(m_party.first() ? bytes : std::vector<char>(size, 'o'));
    m_party.meet();
    move(way, size);
    m_party.meet();
    if (!m_party.first() && m_memory.read(size) != bytes)
        throw Failure(std::string(name(way)) + " of " + std::to_string(size) + " bytes: wrong bytes arrived");
}

} // namespace bench
