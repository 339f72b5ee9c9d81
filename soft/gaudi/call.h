// SPDX-License-Identifier: BSD-3-Clause
// The prologue of every exported function: finds the card, counts the call, applies faults, checks the card's state.
#pragma once

#include "functions.h"
#include "server.h"

#include <cerrno>

#define SOFTGAUDI_API extern "C" __attribute__((visibility("default")))

namespace softgaudi {

/// Index of a function, checked at compile time.
struct Function {
    size_t index;
    template <size_t N>
    consteval Function(const char (&name)[N]) : index(function_index(name)) {
        if (index == kFunctions.size())
            throw "no such function";
    }
};

/// What a call requires of its descriptor and card.
enum class Needs {
    descriptor,   // works even on a lost card: closing, and reading events
    anything,     // works on both nodes, even during a reset
    working_card, // works on both nodes of a card in operation
    compute,      // works on the compute node of a card in operation
};

class Call {
public:
    /// For functions without a descriptor.
    explicit Call(Function function, Card *card = nullptr);
    Call(Function function, int fd, Needs needs);
    ~Call();
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;

    /// 0, or the errno that the function must fail with.
    int error() const { return m_error; }
    explicit operator bool() const { return m_error == 0; }
    bool has_card() const { return m_card != nullptr; }
    /// Whether the descriptor is that of no card of the server.
    bool is_stray() const { return m_stray; }
    Card &card() const { return *m_card; }
    bool control() const { return m_control; }
    bool hang() const { return m_hang; }
    bool skip() const { return m_skip; }
    /// The timeout of a submission that hangs; 0: its own.
    uint64_t timeout_ns() const { return m_timeout_ns; }

private:
    void begin(Function function);

    Card *m_card = nullptr;
    bool m_control = false;
    bool m_stray = false;
    bool m_hang = false;
    bool m_skip = false;
    bool m_acts = false; // counted by the virtual clock
    uint64_t m_timeout_ns = 0;
    int m_error = 0;
};

/// The library's convention for failure: returns the negative errno and sets errno too.
inline int fail(int error) {
    errno = error;
    return -error;
}
inline int result(int negative_or_value) {
    return negative_or_value < 0 ? fail(-negative_or_value) : negative_or_value;
}

/// Fails with `error`; the first call of each function prints its name.
int not_modelled(Function function, int error);

} // namespace softgaudi
