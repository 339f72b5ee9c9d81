// SPDX-License-Identifier: BSD-3-Clause
#include "measure.h"

#include "cli/verify/bench.h"
#include "cli/verify/interrupt.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace gaudi::cli::bench {

std::uint64_t choose_window(std::uint64_t size) {
    constexpr std::uint64_t kMost = 64, kBytes = 16 << 20;
    return std::clamp<std::uint64_t>(kBytes / size, 1, kMost);
}

Sampler::Sampler(Row row, bool with_latency, Clock clock)
    : m_row(std::move(row)), m_with_latency(with_latency), m_clock(clock) {
    m_row.window = choose_window(m_row.size);
    m_row.data_correct = true;
}

OrSentence<void> Sampler::take_one(Route &route, std::vector<double> &into, std::uint64_t count) {
    const double start = m_clock.now_us();
    auto done = route.transfer(m_row.size, count);
    into.push_back(m_clock.now_us() - start);
    return done;
}

OrSentence<void> Sampler::take_checked(Route &route) {
    const std::uint64_t length = m_row.size * m_row.window;
    const std::uint32_t seed = verify::fresh_seed();
    if (auto filled = route.fill(length, seed); !filled)
        return filled;
    if (auto taken = take_one(route, m_bursts, m_row.window); !taken)
        return taken;
    const auto same = route.check(length, seed);
    if (!same)
        return Sentence(same.error());
    m_row.data_correct = m_row.data_correct && *same;
    return {};
}

OrSentence<void> Sampler::take(Route &route, std::uint64_t samples, bool checked) {
    const auto ends = [](const OrSentence<void> &done) { return !done || verify::is_interrupted(); };
    m_row.burst_bytes = m_row.size * m_row.window * route.paths();
    // A burst that is no sample: the first one maps memory and starts engines, others find caches full of other data.
    OrSentence<void> done = route.transfer(m_row.size, m_row.window);
    const auto take_many = [&](std::vector<double> &into, std::uint64_t least, std::uint64_t count) {
        const auto end = std::chrono::steady_clock::now() + kLeastTime;
        for (std::uint64_t i = 0; !ends(done) && (i < least || std::chrono::steady_clock::now() < end); ++i)
            done = take_one(route, into, count);
    };
    if (m_with_latency)
        take_many(m_latencies, samples, 1);
    take_many(m_bursts, checked ? samples - 1 : samples, m_row.window);
    if (checked && !ends(done))
        done = take_checked(route);
    return done;
}

Row Sampler::finish() {
    if (m_row.data_correct && !m_latencies.empty())
        m_row.latency_us = summarize(std::move(m_latencies));
    if (m_row.data_correct && !m_bursts.empty())
        m_row.burst_us = summarize(std::move(m_bursts));
    return std::move(m_row);
}

} // namespace gaudi::cli::bench
