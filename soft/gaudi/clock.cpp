// SPDX-License-Identifier: BSD-3-Clause
#include "clock.h"

#include "os/format.h"
#include "store.h"

#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <tuple>
#include <utility>

namespace softgaudi {
namespace {

// A host that polls memory makes no calls: after this much of its processor time without a call it counts as waiting.
constexpr uint64_t kQuietCpuNs = 5'000'000;
// A host that sleeps between two polls has this long to look at what it did not see yet.
constexpr uint64_t kQuietNs = 10'000'000;
constexpr uint64_t kCheckNs = 1'000'000; // between two checks of a thread that waits
constexpr uint64_t kLookNs = 200'000;    // between two looks at /proc
constexpr uint64_t kDropNs = 10'000'000; // between two looks for processes that were killed

bool is_alive(int32_t pid) { return pid != 0 && (kill(pid, 0) == 0 || errno != ESRCH); }

/// 0 if there is no such clock.
uint64_t read_clock(clockid_t clock) {
    timespec time{};
    if (clock_gettime(clock, &time) != 0)
        return 0;
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(time.tv_nsec);
}

/// The processor time of a process; 0 if it has exited.
uint64_t cpu_ns(int32_t pid) {
    clockid_t clock{};
    return clock_getcpuclockid(pid, &clock) == 0 ? read_clock(clock) : 0;
}

/// Adds what this thread, one of a model, has used since the last time.
void count_model_time(ClockState::Process &process) {
    thread_local uint64_t t_counted = 0;
    const uint64_t used = read_clock(CLOCK_THREAD_CPUTIME_ID);
    process.model_cpu_ns.fetch_add(used - std::exchange(t_counted, used));
}

/// A number of the program that this process runs: exec(2) changes it, fork(2) changes the process id.
uint64_t image_number() {
    uint64_t number = 0;
    if (const auto *random = reinterpret_cast<const void *>(getauxval(AT_RANDOM)))
        std::memcpy(&number, random, sizeof number);
    return number;
}

/// The state of a process or thread in /proc; `stat` is its file. '\0' where there is none.
char read_state(const std::string &stat) {
    std::ifstream file(stat);
    std::string line;
    std::getline(file, line);
    const size_t end = line.rfind(") ");
    return end == std::string::npos || end + 2 >= line.size() ? '\0' : line[end + 2];
}

/// Whether a process has ended and its parent has not waited for it yet. Where only its first thread has ended there are others.
bool is_zombie(int32_t pid) {
    const std::string directory = gaudi::os::format("/proc/{}", pid);
    const char state = read_state(directory + "/stat");
    if (state != 'Z' && state != 'X')
        return false;
    std::error_code error;
    std::filesystem::directory_iterator thread(directory + "/task", error), end;
    size_t threads = 0;
    for (; !error && thread != end; thread.increment(error))
        ++threads;
    return threads <= 1;
}

/// Whether a thread sleeps or belongs to a model; `stat` is its file in /proc.
bool is_thread_asleep(const std::string &stat) {
    constexpr std::string_view kModels[] = {"(softgaudi)", "(softhca)"}; // they wait in the clock
    std::ifstream file(stat);
    std::string line;
    if (!std::getline(file, line))
        return true; // it has ended
    const size_t name = line.find('('), end = line.rfind(") ");
    if (name == std::string::npos || end == std::string::npos || end + 2 >= line.size())
        return false;
    const std::string_view of = std::string_view(line).substr(name, end + 1 - name);
    if (std::find(std::begin(kModels), std::end(kModels), of) != std::end(kModels))
        return true;
    return std::string_view("STtZXI").find(line[end + 2]) != std::string_view::npos;
}

} // namespace

ClockState *map_clock(const std::string &dir) {
    auto *state = static_cast<ClockState *>(map_shared(dir + "/clock", sizeof(ClockState), [](void *memory) {
        auto *fresh = static_cast<ClockState *>(memory);
        fresh->mutex.init();
        fresh->now.store(ClockState::kBegin);
        fresh->magic.store(ClockState::kMagic);
    }));
    if (state && state->magic.load() != ClockState::kMagic) {
        munmap(state, sizeof(ClockState));
        errno = EPROTO;
        return nullptr;
    }
    return state;
}

class GAUDI_SCOPED_CAPABILITY Clock::Guard {
public:
    /// `self` is null while the process has no entry.
    Guard(ClockState &state, ClockState::Process *self) GAUDI_ACQUIRE(state.mutex) : m_state(state), m_self(self) {
        if (m_self)
            m_self->locking.fetch_add(1); // a host that waits for this lock is not asleep
        (void)m_state.mutex.lock();
    }
    ~Guard() GAUDI_RELEASE() {
        m_state.mutex.unlock();
        if (m_self)
            m_self->locking.fetch_sub(1);
    }
    Guard(const Guard &) = delete;
    Guard &operator=(const Guard &) = delete;

private:
    ClockState &m_state;
    ClockState::Process *m_self;
};

Clock::Clock(ClockState *state) : m_state(state) {
    if (!m_state)
        return;
    const Guard guard(*m_state, nullptr);
    enter();
}

/// Finds the entry of this process, or makes one. The two models in one process share it.
void Clock::enter() {
    const int32_t pid = getpid();
    const uint64_t image = image_number();
    m_self = find(pid);
    if (m_self && m_self->image == image)
        return;
    if (!m_self) {
        const auto unused = std::find_if(m_state->processes.begin(), m_state->processes.end(),
                                         [](const auto &process) { return !is_alive(process.pid); });
        m_self = unused == m_state->processes.end() ? &m_state->processes.back() : &*unused;
    }
    // Threads that a program had before it called exec left their entries here, too.
    for (auto &sleeper : m_state->sleepers)
        if (sleeper.pid == pid)
            sleeper = {};
    m_self->pid = pid;
    m_self->image = image;
    m_self->running = 0;
    m_self->calls = m_self->acting = 0;
    m_self->model_cpu_ns.store(0);
    m_self->news.store(0);
    m_self->locking.store(0);
    m_self->waits = ClockState::kBusy;
    m_self->quiet_calls = m_self->quiet_news = UINT32_MAX;
}

ClockState::Process *Clock::find(int32_t pid) {
    const auto found = std::find_if(m_state->processes.begin(), m_state->processes.end(),
                                    [&](const auto &process) { return process.pid == pid; });
    return found == m_state->processes.end() ? nullptr : &*found;
}

bool Clock::is_idle() {
    return std::none_of(m_state->processes.begin(), m_state->processes.end(),
                        [](const auto &process) { return process.running != 0 && is_alive(process.pid); });
}

/// Forgets processes that were killed while they kept the clock from moving, and that nobody has waited for: they have a
/// process id still.
void Clock::drop_zombies() {
    const uint64_t real = monotonic_ns();
    if (real < m_next_drop_ns)
        return;
    m_next_drop_ns = real + kDropNs;
    for (auto &process : m_state->processes) {
        if (&process == m_self || process.pid == 0 || (process.running == 0 && process.acting == 0) ||
            !is_zombie(process.pid))
            continue;
        for (auto &sleeper : m_state->sleepers)
            if (sleeper.pid == process.pid)
                sleeper = {};
        process.running = process.acting = 0;
        process.pid = 0;
    }
}

ClockState::Sleeper *Clock::next_sleeper() {
    ClockState::Sleeper *first = nullptr;
    for (auto &sleeper : m_state->sleepers) {
        if (sleeper.ticket == 0)
            continue;
        if (!is_alive(sleeper.pid))
            sleeper = {};
        else if (!first || std::tie(sleeper.wake, sleeper.order) < std::tie(first->wake, first->order))
            first = &sleeper;
    }
    return first;
}

ClockState::Sleeper *Clock::add_sleeper(uint64_t when, uint64_t order, bool is_host) {
    const auto entry = std::find_if(m_state->sleepers.begin(), m_state->sleepers.end(),
                                    [](const auto &sleeper) { return sleeper.ticket == 0; });
    if (entry == m_state->sleepers.end())
        return nullptr; // more threads than any program uses
    *entry = {getpid(), std::max(when, now()), order, ++m_state->tickets, is_host};
    return &*entry;
}

/// Wakes the hosts and the next stream that are due, if no other stream runs. The stream counts as running from now on,
/// not from when its thread wakes.
void Clock::wake_next_due() {
    while (is_idle()) {
        ClockState::Sleeper *next = next_sleeper();
        if (!next || next->wake > now())
            return;
        if (ClockState::Process *process = find(next->pid)) {
            if (next->is_host)
                process->news.fetch_add(1);
            else
                ++process->running;
        }
        *next = {};
        m_state->changed.signal();
    }
}

/// Whether all threads of a host sleep in the kernel. A thread that another one has just woken does not.
bool Clock::is_asleep(const ClockState::Process &process) const {
    const uint32_t own = &process == m_self ? 1 : 0; // this thread holds the lock
    if (process.locking.load() > own)
        return false;
    std::error_code error;
    std::filesystem::directory_iterator thread(gaudi::os::format("/proc/{}/task", process.pid), error), end;
    for (; !error && thread != end; thread.increment(error))
        if (!is_thread_asleep(thread->path().string() + "/stat"))
            return false;
    return true;
}

/// Whether a host that says nothing of itself waits: it polls memory, or it sleeps.
bool Clock::is_quiet(ClockState::Process &process) {
    const uint32_t news = process.news.load();
    const uint64_t real = monotonic_ns(), all = cpu_ns(process.pid), models = process.model_cpu_ns.load();
    const uint64_t used = all - std::min(all, models);
    if (process.acting != 0)
        return false;
    if (process.quiet_ns > real) // written in another time namespace, or before the machine was booted
        process.quiet_ns = real;
    if (process.quiet_calls == process.calls && process.quiet_news == news)
        return used >= process.quiet_cpu_ns + kQuietCpuNs ||
               (real - process.quiet_ns >= kQuietNs && is_asleep(process));
    process.quiet_calls = process.calls;
    process.quiet_news = news;
    process.quiet_ns = real;
    process.quiet_cpu_ns = used;
    return false;
}

/// Whether no host can do anything before the clock moves. A host that says nothing of itself is looked at from outside. What
/// counts is what it does, not how much time it gets on a loaded machine.
bool Clock::do_hosts_wait() {
    std::array<ClockState::Process *, ClockState::kProcesses> silent{};
    size_t count = 0;
    for (auto &process : m_state->processes)
        if (process.pid != 0 && process.waits != process.news.load() && is_alive(process.pid))
            silent.at(count++) = &process;
    if (count == 0)
        return true;
    const uint64_t real = monotonic_ns();
    // A time further ahead is of another monotonic clock: another time namespace, or before the machine was booted.
    if (real < m_state->next_look_ns && m_state->next_look_ns - real <= kLookNs)
        return false;
    m_state->next_look_ns = real + kLookNs;
    bool all = true;
    for (size_t i = 0; i < count; ++i)
        all = is_quiet(*silent.at(i)) && all; // of each, because it takes the time
    return all;
}

bool Clock::try_move() {
    drop_zombies();
    if (!is_idle())
        return false;
    const ClockState::Sleeper *next = next_sleeper();
    if (!next || (next->wake > now() && !do_hosts_wait()))
        return false;
    move_to(next->wake);
    return true;
}

void Clock::move_to(uint64_t when) {
    if (when > now())
        m_state->now.store(when, std::memory_order_release);
    wake_next_due();
    m_state->changed.signal();
}

/// Marks one stream of this process as not running. Its time is the model's: else a host whose thread gets no time on a
/// loaded machine would look as if it polled.
void Clock::stop_stream() {
    count_model_time(*m_self);
    --m_self->running;
    wake_next_due();
    m_state->changed.signal();
}

void Clock::job_begins() {
    if (!m_state)
        return;
    const Guard guard(*m_state, m_self);
    ++m_self->running;
}

void Clock::job_ends() {
    if (!m_state)
        return;
    const Guard guard(*m_state, m_self);
    stop_stream();
}

void Clock::sleep_until(uint64_t when, uint64_t order, const Event &wake, const std::function<bool()> &cancelled) {
    if (!m_state) {
        while (monotonic_ns() < when && !cancelled()) {
            const uint32_t seen = wake.seen();
            if (!cancelled())
                wake.wait(seen, when);
        }
        return;
    }
    ClockState::Sleeper *sleeper = nullptr;
    uint64_t ticket = 0;
    {
        const Guard guard(*m_state, m_self);
        if (cancelled())
            return; // before the clock can move
        sleeper = add_sleeper(when, order, false);
        if (!sleeper)
            return;
        ticket = sleeper->ticket;
        stop_stream();
    }
    while (true) {
        const uint32_t seen = m_state->changed.seen();
        {
            const Guard guard(*m_state, m_self);
            if (sleeper->ticket != ticket)
                return; // wake_next_due already counts this stream as running
            if (cancelled()) {
                *sleeper = {};
                ++m_self->running;
                return;
            }
            count_model_time(*m_self);
            if (try_move())
                continue;
        }
        m_state->changed.wait(seen, monotonic_ns() + kCheckNs);
    }
}

void Clock::wake_sleeper(uint64_t order) {
    if (!m_state)
        return;
    const Guard guard(*m_state, m_self);
    for (auto &sleeper : m_state->sleepers)
        if (sleeper.ticket != 0 && !sleeper.is_host && sleeper.pid == m_self->pid && sleeper.order == order) {
            sleeper = {};
            ++m_self->running;
        }
    m_state->changed.signal();
}

uint32_t Clock::park(unsigned card) {
    if (!m_state)
        return 0;
    const Guard guard(*m_state, m_self);
    ++m_state->parked.at(card);
    stop_stream();
    return m_state->generation.at(card);
}

void Clock::resume(unsigned card, uint32_t generation) {
    if (!m_state)
        return;
    const Guard guard(*m_state, m_self);
    if (m_state->generation.at(card) != generation)
        return; // wake_parked already counts it
    --m_state->parked.at(card);
    ++m_self->running;
}

void Clock::wake_parked(unsigned card) {
    if (!m_state)
        return;
    const Guard guard(*m_state, m_self);
    // Counts all parked streams as this process's; in practice they are.
    m_self->running += m_state->parked.at(card);
    m_state->parked.at(card) = 0;
    ++m_state->generation.at(card);
    m_state->changed.signal(); // sleeping streams check whether they are cancelled
}

void Clock::notify_host(int32_t pid) {
    if (!m_state)
        return;
    const Guard guard(*m_state, m_self);
    if (ClockState::Process *process = find(pid))
        process->news.fetch_add(1);
    m_state->changed.signal();
}

void Clock::begin_host_call() {
    if (!m_state)
        return;
    const Guard guard(*m_state, m_self); // the clock does not move between this and what the host does next
    m_self->waits = ClockState::kBusy;
    ++m_self->calls;
    ++m_self->acting;
}

void Clock::end_host_call() {
    if (!m_state)
        return;
    const Guard guard(*m_state, m_self);
    --m_self->acting;
    ++m_self->calls; // its processor time counts from here on
}

void Clock::count_host_query() {
    if (!m_state)
        return;
    const Guard guard(*m_state, m_self);
    m_self->waits = ClockState::kBusy;
}

void Clock::wait_until_idle() {
    if (!m_state)
        return;
    while (true) {
        const uint32_t seen = m_state->changed.seen();
        {
            const Guard guard(*m_state, m_self);
            drop_zombies();
            wake_next_due();
            if (is_idle())
                return;
        }
        m_state->changed.wait(seen, monotonic_ns() + kCheckNs);
    }
}

void Clock::advance(uint32_t news) {
    if (!m_state)
        return;
    wait_until_idle();
    const uint32_t seen = m_state->changed.seen();
    bool moved = false;
    {
        const Guard guard(*m_state, m_self);
        m_self->waits = news;
        if (m_self->news.load() != news || !next_sleeper())
            return;
        moved = try_move();
    }
    if (moved)
        wait_until_idle();
    else
        m_state->changed.wait(seen, monotonic_ns() + kCheckNs); // leaves the processor to a host that has work
}

void Clock::wait_until(uint64_t when, const std::function<bool()> &done) {
    ClockState::Sleeper *sleeper = nullptr;
    uint64_t ticket = 0;
    if (when != kForever) {
        const Guard guard(*m_state, m_self);
        sleeper = add_sleeper(when, UINT64_MAX, true); // after the streams that are due at the same time
        if (!sleeper)
            return;
        ticket = sleeper->ticket;
    }
    while (true) {
        const uint32_t seen = m_state->changed.seen(), seen_news = news();
        const bool is_done = done();
        {
            const Guard guard(*m_state, m_self);
            if (sleeper && sleeper->ticket != ticket)
                return;
            if (is_done) {
                if (sleeper)
                    *sleeper = {};
                return;
            }
            m_self->waits = seen_news;
            if (try_move())
                continue;
        }
        m_state->changed.wait(seen, monotonic_ns() + kCheckNs);
    }
}

void Clock::spend_host_time(uint64_t ns) {
    if (ns == 0)
        return;
    if (!m_state) {
        const uint64_t until = monotonic_ns() + ns;
        while (monotonic_ns() < until) {
        }
        return;
    }
    wait_until(now() + ns, [] { return false; });
}

} // namespace softgaudi
