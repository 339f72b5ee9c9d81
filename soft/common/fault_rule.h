// SPDX-License-Identifier: BSD-3-Clause
// Fault rules FUNCTION[@DEVICE][#NTH[+]]=ACTION: this file selects the calls, each library defines its actions.
#pragma once

#include "common/parsing.h"
#include "os/format.h"

#include <atomic>
#include <cstdint>
#include <vector>

namespace soft {

/// The calls that a rule applies to.
struct CallPattern {
    std::string function; // without the library's prefix; "*" is any function, where the library allows it
    std::optional<unsigned> device;
    uint64_t first = 1;   // the first call that the rule applies to
    bool onwards = false; // the rule applies to every later call too
};

/// The syntax of one library's rules.
struct FaultGrammar {
    const char *variable;
    std::string_view form;   // syntax of a rule, for messages
    std::string_view prefix; // prefix of function names, optional in a rule
    std::string_view device; // name of a device, for messages
    unsigned devices;
    bool (*is_known)(std::string_view function);
};

/// Parses the rule up to its action and returns the action; the error says what is wrong.
Expected<std::string_view> parse_calls(std::string_view rule, const FaultGrammar &grammar, CallPattern &calls);

/// Parses all rules of a variable. `act` parses the action into the rule and returns what is wrong, or nothing.
template <class Rule>
Expected<std::vector<Rule>> parse_rules(std::string_view text, const FaultGrammar &grammar,
                                        std::string_view (*act)(std::string_view action, Rule &rule)) {
    std::vector<Rule> rules;
    const auto done = split(text, ';', [&](std::string_view piece) -> Expected<void> {
        Rule rule;
        const auto action = parse_calls(piece, grammar, rule);
        const std::string why = action ? std::string(act(*action, rule)) : action.error();
        if (!why.empty())
            return Unexpected(gaudi::os::format("{}: '{}': {}", grammar.variable, piece, why));
        rules.push_back(std::move(rule));
        return {};
    });
    if (!done)
        return Unexpected(done.error());
    return rules;
}

/// Counts the matching calls of each rule in this process.
class FaultCounts {
public:
    explicit FaultCounts(size_t rules) : m_counts(rules) {}

    /// Counts the call if the rule matches it; returns whether the fault applies. `device` is empty for calls without
    /// one.
    bool count_call(size_t rule, const CallPattern &calls, std::string_view function, std::optional<unsigned> device);

private:
    std::vector<std::atomic<uint64_t>> m_counts;
};

} // namespace soft
