// SPDX-License-Identifier: BSD-3-Clause
// What the steps have found. Each finding is printed when it is added.
#pragma once

#include "register.h"
#include "thunk/error.h"

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace gaudi::cli::verify {

enum class Verdict { held, failed, not_testable };
const char *name_of(Verdict verdict);
inline Verdict verdict_of(bool held) { return held ? Verdict::held : Verdict::failed; }

struct Finding {
    std::string step;
    std::vector<std::string> ids; // of assumptions
    Verdict verdict;
    std::string did, saw;
};

/// One fact about the behaviour of the card or its driver, for softgaudi to behave likewise (SOFTGAUDI_PROFILE).
struct Measurement {
    std::string step;
    std::string name; // with the unit
    std::variant<bool, std::uint64_t, std::string> value;
};

/// "success" or the name of the errno, as measurements have it.
template <class T>
std::string outcome_of(const thunk::Result<T> &result) {
    return result ? "success" : thunk::errno_name(result.error().code);
}

class Findings {
public:
    void add(Finding finding);
    /// A fact of the machine or the card, for the report; printed too.
    void note(const std::string &name, const std::string &value);

    /// Not printed: a finding says the same to people.
    void measure(Measurement measurement) { m_measurements.push_back(std::move(measurement)); }

    const std::vector<Measurement> &measurements() const { return m_measurements; }
    const std::vector<Finding> &all() const { return m_all; }
    const std::vector<std::pair<std::string, std::string>> &notes() const { return m_notes; }
    /// Failed if any finding about it failed, held if any held.
    Verdict about(const Assumption &assumption) const;
    bool any_failed() const;

private:
    std::vector<Finding> m_all;
    std::vector<Measurement> m_measurements;
    std::vector<std::pair<std::string, std::string>> m_notes;
};

/// What the product does about an assumption with this verdict.
std::string consequence_of(const Assumption &assumption, Verdict verdict);

/// A line that is overwritten, on a terminal only.
class Progress {
public:
    static void show(const std::string &text);
    static void clear();
};

} // namespace gaudi::cli::verify
