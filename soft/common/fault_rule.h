// SPDX-License-Identifier: BSD-3-Clause
// Rules FUNCTION[@DEVICE][#NTH[+]]=ACTION: which call something happens to. What happens is each library's own.
#pragma once

#include "common/words.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace soft {

/// The calls that a rule strikes.
struct StruckCalls {
    std::string function; // without the library's prefix; "*" is any, where the library has that
    std::optional<unsigned> device;
    uint64_t first = 1;   // the first call it applies to
    bool onwards = false; // and to every later one
};

/// What rules are about in one library.
struct FaultGrammar {
    const char *variable;
    std::string_view form;   // of a rule
    std::string_view prefix; // of functions, which a rule may leave out
    std::string_view device; // what it calls one
    unsigned devices;
    bool (*knows)(std::string_view function);
};

/// Reads all before the action, which it returns; else what is wrong with it.
OrSentence<std::string_view> read_calls(std::string_view rule, const FaultGrammar &grammar, StruckCalls &calls);

/// All rules of a variable. `act` reads the action into a rule that has its calls; it returns what is wrong, or nothing.
template <class Rule>
OrSentence<std::vector<Rule>> read_rules(std::string_view text, const FaultGrammar &grammar,
                                         std::string_view (*act)(std::string_view action, Rule &rule)) {
    std::vector<Rule> rules;
    const auto done = split(text, ';', [&](std::string_view piece) -> OrSentence<void> {
        Rule rule;
        const auto action = read_calls(piece, grammar, rule);
        const std::string why = action ? std::string(act(*action, rule)) : action.error();
        if (!why.empty())
            return Sentence(fmt::format("{}: '{}': {}", grammar.variable, piece, why));
        rules.push_back(std::move(rule));
        return {};
    });
    if (!done)
        return Sentence(done.error());
    return rules;
}

/// How often each of a process's rules was met.
class FaultCounts {
public:
    explicit FaultCounts(size_t rules) : m_counts(rules) {}

    /// Counts the call if it is one of the rule's; whether it is struck. `device` is none for calls that name none.
    bool strikes(size_t rule, const StruckCalls &calls, std::string_view function, std::optional<unsigned> device);

private:
    std::vector<std::atomic<uint64_t>> m_counts;
};

} // namespace soft
