// SPDX-License-Identifier: BSD-3-Clause
#include "peer_rows.h"

#include "transfer.h"

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <functional>
#include <optional>
#include <thread>

namespace bench {
namespace {

using namespace e2e;

constexpr std::size_t kSize = 4096;
constexpr unsigned kWindow = 64;

/// Processor time of all threads of this process.
double processor_ns() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

/// Processor time that `work` takes.
template <class Work>
double processor_ns_of(Work work) {
    const double before = processor_ns();
    work();
    return processor_ns() - before;
}

/// A row that is measured once per round, in turns with the others of its part.
struct Row {
    Json about;
    std::function<void(Json &samples)> measure; // appends to the arrays in it
};

Json measure_in_turns(unsigned rounds, std::vector<Row> rows) {
    Json result = Json::array();
    for (const Row &row : rows) {
        Json first; // not counted: connects, maps, fills caches
        row.measure(first);
        result.push_back(row.about);
    }
    for (unsigned round = 0; round < rounds; ++round)
        for (std::size_t i = 0; i < rows.size(); ++i) {
            const std::size_t next = (i + round) % rows.size(); // the order changes from round to round
            rows[next].measure(result[next]);
        }
    return result;
}

/// Puts through an endpoint to the own worker, at most kWindow at a time.
class Putter {
public:
    Putter(ucp_worker_h worker, ucp_ep_h ep, ucp_rkey_h key) : m_worker(worker), m_ep(ep), m_key(key) {}

    void put(const char *from, ucp_mem_h memh, std::uint64_t to) {
        ucp_request_param_t param{};
        param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH;
        param.memh = memh;
        ucs_status_ptr_t request = ucp_put_nbx(m_ep, from, kSize, to, m_key, &param);
        if (UCS_PTR_IS_ERR(request))
            check(UCS_PTR_STATUS(request), "put");
        if (request)
            m_requests.at(m_open++) = request;
        if (++m_posted == kWindow)
            finish();
    }
    /// Waits for all puts.
    void finish() {
        ucp_request_param_t none{};
        ucs_status_ptr_t flush = ucp_ep_flush_nbx(m_ep, &none);
        for (unsigned i = 0; i < m_open; ++i)
            wait(m_requests.at(i), "put");
        m_open = m_posted = 0;
        wait(flush, "flush");
    }

private:
    void wait(ucs_status_ptr_t request, const char *what) {
        ucs_status_t status = UCS_PTR_IS_PTR(request) ? UCS_INPROGRESS : UCS_PTR_STATUS(request);
        while (status == UCS_INPROGRESS) {
            ucp_worker_progress(m_worker);
            status = ucp_request_check_status(request);
        }
        if (UCS_PTR_IS_PTR(request))
            ucp_request_free(request);
        check(status, what);
    }

    ucp_worker_h m_worker;
    ucp_ep_h m_ep;
    ucp_rkey_h m_key;
    std::array<ucs_status_ptr_t, kWindow> m_requests{};
    unsigned m_open = 0, m_posted = 0;
};

std::uint64_t address_of(const char *data) { return reinterpret_cast<std::uint64_t>(data); }

void require_equal(const std::vector<char> &got, const std::vector<char> &wanted, const char *what) {
    if (got != wanted)
        throw Failure(std::string(what) + ": wrong bytes arrived");
}

/// Memory registered by ucp_mem_map, deregistered at the end.
class Registered {
public:
    Registered(ucp_context_h context, char *address, std::size_t size) : m_context(context) {
        ucp_mem_map_params_t params{};
        params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
        params.address = address;
        params.length = size;
        check(ucp_mem_map(context, &params, &m_memh), "registration");
    }
    ~Registered() { ucp_mem_unmap(m_context, m_memh); }
    Registered(const Registered &) = delete;
    Registered &operator=(const Registered &) = delete;

    ucp_mem_h handle() const { return m_memh; }

private:
    ucp_context_h m_context;
    ucp_mem_h m_memh = nullptr;
};

// ---- one process ----------------------------------------------------------------------------------------------------

Json measure_puts(const PeerOptions &options) {
    Side side(UCP_FEATURE_RMA);
    constexpr std::size_t kStride = 2 * kSize; // apart: none is merged with its neighbour
    Memory from(side, options.from, kWindow * kStride), to(side, options.to, kWindow * kStride);
    const RemoteKey key = unpack_key(side.self(), to.key());
    Putter putter(side.worker(), side.self(), key.get());
    const auto put = [&](unsigned count) {
        for (unsigned i = 0; i < count; ++i)
            putter.put(from.data() + i % kWindow * kStride, from.handle(),
                       address_of(to.data() + i % kWindow * kStride));
        putter.finish();
    };
    const std::vector<char> bytes = pattern(from.size(), 1);
    from.write(bytes);
    put(kWindow);
    for (std::size_t at = 0; at < std::min(options.check, to.size()); at += kStride)
        require_equal(to.read(kSize, at), {&bytes[at], &bytes[at] + kSize}, "put");
    return measure_in_turns(options.rounds,
                            {{{{"what", "put"}, {"size_bytes", kSize}, {"at_once", kWindow}}, [&](Json &samples) {
                                  samples["processor_ns"].push_back(processor_ns_of([&] { put(options.count); }) /
                                                                    options.count);
                              }}});
}

Json measure_allocations(const PeerOptions &options) {
    Side side(UCP_FEATURE_RMA);
    Memory kept(side, options.to, kSize); // the first one opens the card
    const unsigned count = std::max(1u, options.count / 8);
    Json rows = measure_in_turns(
        options.rounds, {{{{"what", "allocate and free"}, {"size_bytes", kSize}}, [&](Json &samples) {
                              std::deque<Memory> memory;
                              samples["allocate_ns"].push_back(processor_ns_of([&] {
                                                                   for (unsigned i = 0; i < count; ++i)
                                                                       memory.emplace_back(side, options.to, kSize);
                                                               }) /
                                                               count);
                              samples["free_ns"].push_back(processor_ns_of([&] { memory.clear(); }) / count);
                          }}});
    Json result = Json::array();
    for (const char *what : {"allocate", "free"})
        result.push_back({{"what", what}, {"size_bytes", kSize}, {"processor_ns", rows[0][std::string(what) + "_ns"]}});
    return result;
}

/// Without UCX's cache of registrations, in which ranges that were deregistered stay.
Json measure_registrations(const PeerOptions &options) {
    Side owner(UCP_FEATURE_RMA);
    setenv("UCX_RCACHE_ENABLE", "n", 1);
    Side side(UCP_FEATURE_RMA);
    const unsigned count = std::max(1u, options.count / 4);
    Memory memory(owner, options.from, count * kSize);
    memory.write(std::vector<char>(memory.size(), 'x'));
    Json samples;
    for (unsigned round = 0; round <= options.rounds; ++round) {
        std::deque<Registered> ranges;
        const double registering = processor_ns_of([&] {
            for (unsigned i = 0; i < count; ++i)
                ranges.emplace_back(side.context(), memory.data() + i * kSize, kSize);
        });
        const double deregistering = processor_ns_of([&] { ranges.clear(); });
        if (round == 0)
            continue;
        samples["register"].push_back(registering / count);
        samples["deregister"].push_back(deregistering / count);
    }
    Json result = Json::array();
    for (const char *what : {"register", "deregister"})
        result.push_back({{"what", what}, {"size_bytes", kSize}, {"processor_ns", samples[what]}});
    return result;
}

/// Puts in turn from so many registered ranges, side by side or on every other page.
class Ranges {
public:
    Ranges(Side &side, Side &owner, const PeerOptions &options, unsigned count, unsigned pages_apart)
        : m_stride(pages_apart * kSize), m_from(owner, options.from, count * m_stride),
          m_to(side, options.to, std::min<std::size_t>(count, kTargets) * kSize),
          m_key(unpack_key(side.self(), m_to.key())), m_putter(side.worker(), side.self(), m_key.get()) {
        m_from.write(std::vector<char>(m_from.size(), 'x'));
        for (unsigned i = 0; i < count; ++i)
            m_ranges.emplace_back(side.context(), m_from.data() + i * m_stride, kSize);
    }
    void put(unsigned puts) {
        for (unsigned i = 0; i < puts; ++i) {
            const unsigned next = m_next++ % static_cast<unsigned>(m_ranges.size());
            m_putter.put(m_from.data() + next * m_stride, m_ranges[next].handle(),
                         address_of(m_to.data() + next * kSize % m_to.size()));
        }
        m_putter.finish();
    }
    /// Compares the first ranges, each after its put.
    void check_bytes(std::size_t limit) {
        const std::size_t count = std::min({m_ranges.size(), m_to.size() / kSize, limit / kSize});
        if (count == 0)
            return;
        const std::vector<char> bytes = pattern(count * kSize, 2);
        for (std::size_t i = 0; i < count; ++i)
            m_from.write({&bytes[i * kSize], &bytes[i * kSize] + kSize}, i * m_stride);
        m_next = 0;
        put(static_cast<unsigned>(count));
        require_equal(m_to.read(bytes.size()), bytes, "put from ranges");
    }

private:
    static constexpr std::size_t kTargets = 1024;

    std::size_t m_stride;
    Memory m_from, m_to;
    RemoteKey m_key;
    Putter m_putter;
    std::deque<Registered> m_ranges;
    unsigned m_next = 0;
};

/// In turns with the same from one range. Alone in its process: limits of what stays mapped hold for all of a process.
Json measure_ranges(const PeerOptions &options, unsigned count, unsigned pages_apart) {
    Side owner(UCP_FEATURE_RMA), side(UCP_FEATURE_RMA);
    Ranges one(side, owner, options, 1, 1), many(side, owner, options, count, pages_apart);
    for (Ranges *each : {&one, &many})
        each->check_bytes(options.check);
    const unsigned puts = std::max(options.count, count); // each range at least once
    const auto put = [puts](Ranges &ranges) {
        return [&ranges, puts] { return processor_ns_of([&] { ranges.put(puts); }) / puts; };
    };
    const Samples samples = interleave(options.rounds, put(one), put(many));
    Json row{{"what", "put from ranges"}, {"size_bytes", kSize},        {"at_once", kWindow},
             {"ranges", count},           {"pages_apart", pages_apart}, {"processor_ns", samples.other}};
    row.update(samples.json());
    return row;
}

/// ucp_init in a fresh process, with the reading of its settings and the loading of modules.
Json measure_init() {
    ucp_context_h context = nullptr;
    Json samples;
    samples["wall_ns"] = nanoseconds([&] {
        samples["processor_ns"] = processor_ns_of([&] {
            ucp_params_t params{};
            params.field_mask = UCP_PARAM_FIELD_FEATURES;
            params.features = kAllFeatures;
            ucp_config_t *config = nullptr;
            check(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
            const ucs_status_t status = ucp_init(&params, config, &context);
            ucp_config_release(config);
            check(status, "ucp_init");
        });
    });
    ucp_cleanup(context);
    return samples;
}

// ---- threads --------------------------------------------------------------------------------------------------------

/// A worker for one thread, with an endpoint to itself and memory of its own in a block of all threads.
class ThreadWorker {
public:
    ThreadWorker(ucp_context_h context, const Memory &from, const Memory &to, unsigned index)
        : m_from(from.data() + index * kBlock), m_memh(from.handle()), m_to(address_of(to.data() + index * kBlock)) {
        ucp_worker_params_t params{};
        params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
        params.thread_mode = UCS_THREAD_MODE_SERIALIZED; // a thread after the other
        check(ucp_worker_create(context, &params, &m_worker), "ucp_worker_create");
        ucp_address_t *address = nullptr;
        std::size_t length = 0;
        check(ucp_worker_get_address(m_worker, &address, &length), "ucp_worker_get_address");
        ucp_ep_params_t ep{};
        ep.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        ep.address = address;
        const ucs_status_t status = ucp_ep_create(m_worker, &ep, &m_ep);
        ucp_worker_release_address(m_worker, address);
        check(status, "ucp_ep_create");
        m_key = unpack_key(m_ep, to.key());
        m_putter.emplace(m_worker, m_ep, m_key.get());
    }
    ~ThreadWorker() {
        m_key.reset();
        if (m_worker)
            ucp_worker_destroy(m_worker);
    }
    ThreadWorker(const ThreadWorker &) = delete;
    ThreadWorker &operator=(const ThreadWorker &) = delete;

    static constexpr std::size_t kBlock = 2 * kSize * kWindow;

    void put_window() {
        for (unsigned i = 0; i < kWindow; ++i)
            m_putter->put(m_from + 2 * i * kSize, m_memh, m_to + 2 * i * kSize);
        m_putter->finish();
    }

private:
    const char *m_from;
    ucp_mem_h m_memh;
    std::uint64_t m_to;
    ucp_worker_h m_worker = nullptr;
    ucp_ep_h m_ep = nullptr;
    RemoteKey m_key;
    std::optional<Putter> m_putter;
};

/// All threads put for the same while; appends puts per second of all, and the slowest thread's in the mean.
void run_threads(std::deque<ThreadWorker> &workers, unsigned count, unsigned ms, Json &samples) {
    using Steady = std::chrono::steady_clock;
    std::vector<double> puts(count);
    std::vector<std::string> problems(count);
    std::atomic<unsigned> ready{0};
    std::atomic<std::int64_t> end{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < count; ++i)
        threads.emplace_back([&, i] {
            try {
                ++ready;
                while (end == 0)
                    std::this_thread::yield();
                double done = 0;
                for (const Steady::time_point until{Steady::duration(end)}; Steady::now() < until; done += kWindow)
                    workers[i].put_window();
                puts[i] = done;
            } catch (const std::exception &error) {
                problems[i] = error.what();
            }
        });
    while (ready < count)
        std::this_thread::yield();
    const double before = processor_ns();
    end = (Steady::now() + std::chrono::milliseconds(ms)).time_since_epoch().count();
    for (std::thread &thread : threads)
        thread.join();
    const double processor = processor_ns() - before;
    for (const std::string &problem : problems)
        if (!problem.empty())
            throw Failure(problem);
    double sum = 0;
    for (const double done : puts)
        sum += done;
    samples["puts_per_s"].push_back(sum * 1000 / ms);
    samples["processor_ns"].push_back(sum == 0 ? 0 : processor / sum);
    samples["slowest_over_mean"].push_back(sum == 0 ? 0 : *std::ranges::min_element(puts) * count / sum);
}

Json measure_threads(const PeerOptions &options) {
    Options shared;
    shared.threads = true;
    const unsigned most = *std::ranges::max_element(options.threads);
    Side side(UCP_FEATURE_RMA, shared);
    Memory from(side, options.from, most * ThreadWorker::kBlock), to(side, options.to, most * ThreadWorker::kBlock);
    const std::vector<char> bytes = pattern(from.size(), 3);
    from.write(bytes);
    std::deque<ThreadWorker> workers;
    for (unsigned i = 0; i < most; ++i) {
        ThreadWorker &worker = workers.emplace_back(side.context(), from, to, i);
        worker.put_window();
        const std::size_t at = i * ThreadWorker::kBlock;
        if (at + kSize <= options.check)
            require_equal(to.read(kSize, at), {&bytes[at], &bytes[at] + kSize}, "put of a thread");
    }
    std::vector<Row> rows;
    for (const unsigned count : options.threads)
        rows.push_back({{{"what", "put by threads"}, {"size_bytes", kSize}, {"at_once", kWindow}, {"threads", count}},
                        [&, count](Json &samples) { run_threads(workers, count, options.thread_ms, samples); }});
    return measure_in_turns(options.rounds, std::move(rows));
}

// ---- two processes --------------------------------------------------------------------------------------------------

/// Each way in turns with the same between host and host memory.
Json measure_transfers(const PeerOptions &options, const std::string &transports) {
    Json rows = Json::array();
    Party::Shared &shared = Party::share();
    const Ended ended = run_in_two_processes([&](Pipe &pipe, bool first) {
        setenv("UCX_TLS", transports.c_str(), 1);
        Party party(pipe, shared, first);
        Route host(party, UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_HOST, options.transfer);
        Route route(party, options.from, options.to, options.transfer);
        for (const Way way : {Way::tag, Way::put, Way::get}) {
            for (Route *each : {&host, &route})
                each->check_bytes(way, options.transfer);
            if (first)
                progress(std::string(name(way)) + " over " + transports);
            const auto time = [&, way](Route &each) {
                return [&each, way, size = options.transfer] { return static_cast<double>(each.time(way, size)); };
            };
            const Samples samples = interleave(options.rounds, time(host), time(route));
            for (Route *each : {&host, &route})
                each->check_bytes(way, options.transfer);
            Json row{{"what", name(way)}, {"size_bytes", options.transfer}, {"transports", transports}};
            row.update(samples.json());
            rows.push_back(row);
        }
        party.meet();
    });
    if (!ended.problem.empty())
        throw Failure(ended.problem);
    if (!ended.second_good)
        throw Failure("the second process failed");
    return rows;
}

// ---- children -------------------------------------------------------------------------------------------------------

/// What `work` returns, made in a child process.
Json in_child(const std::function<Json()> &work) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0)
        throw Failure("cannot create a pipe");
    const pid_t child = fork();
    if (child == 0) {
        int code = 1;
        try {
            const std::string text = work().dump();
            code = write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1;
        } catch (const std::exception &error) {
            std::fprintf(stderr, "bench_peer: %s\n", error.what());
        }
        _exit(code);
    }
    close(ends[1]);
    std::string text;
    std::array<char, 4096> part{};
    for (ssize_t got = 0; (got = read(ends[0], part.data(), part.size())) > 0;)
        text.append(part.data(), static_cast<std::size_t>(got));
    close(ends[0]);
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        throw Failure("a process of the benchmark failed");
    return Json::parse(text);
}

} // namespace

const std::vector<std::string> kPeerParts = {"put", "allocate", "register", "ranges", "init", "threads", "transfer"};

Json measure_part(const std::string &part, const PeerOptions &options) {
    progress(part);
    if (part == "put")
        return in_child([&] { return measure_puts(options); });
    if (part == "allocate")
        return in_child([&] { return measure_allocations(options); });
    if (part == "register")
        return in_child([&] { return measure_registrations(options); });
    if (part == "threads")
        return in_child([&] { return measure_threads(options); });
    Json rows = Json::array();
    if (part == "ranges") {
        for (const unsigned count : options.ranges)
            for (const unsigned pages_apart : {1u, 2u})
                rows.push_back(in_child([&] { return measure_ranges(options, count, pages_apart); }));
    } else if (part == "init") {
        Json row{{"what", "ucp_init"}};
        for (unsigned round = 0; round < options.rounds; ++round) {
            const Json sample = in_child(measure_init);
            for (const char *name : {"processor_ns", "wall_ns"})
                row[name].push_back(sample.at(name));
        }
        rows.push_back(row);
    } else {
        for (const std::string &transports : options.transports)
            for (const Json &row : in_child([&] { return measure_transfers(options, transports); }))
                rows.push_back(row);
    }
    return rows;
}

} // namespace bench
