// SPDX-License-Identifier: BSD-3-Clause
// The beginning of every exported function: which card, is it counted, does a fault strike, may it be answered.
#pragma once

#include "functions.h"
#include "server.h"

#include <cerrno>

#define SOFTGAUDI_API extern "C" __attribute__((visibility("default")))

namespace softgaudi {

/// Index of a function, checked when this library is compiled.
struct Function {
    size_t index;
    template <size_t N>
    consteval Function(const char (&name)[N]) : index(function_index(name)) {
        if (index == kFunctions.size())
            throw "no such function";
    }
};

/// What a call needs of its descriptor.
enum class Needs {
    descriptor,   // served even when the card is gone: letting go of it, and hearing why
    anything,     // answered on both nodes, even in reset
    working_card, // information that needs a card in operation, on both nodes
    compute,      // everything else: the compute node and a card in operation
};

class Call {
public:
    /// A call that names no descriptor.
    explicit Call(Function function, Card *card = nullptr);
    Call(Function function, int fd, Needs needs);

    /// 0, or the errno to fail with.
    int error() const { return m_error; }
    explicit operator bool() const { return m_error == 0; }
    bool has_card() const { return m_card != nullptr; }
    Card &card() const { return *m_card; }
    bool control() const { return m_control; }
    bool hang() const { return m_hang; }
    bool skip() const { return m_skip; }

private:
    void begin(Function function);

    Card *m_card = nullptr;
    bool m_control = false;
    bool m_hang = false;
    bool m_skip = false;
    int m_error = 0;
};

/// The libraries' two conventions for failure: the negative errno, with errno set as the system call left it.
inline int fail(int error) {
    errno = error;
    return -error;
}
inline int result(int negative_or_value) {
    return negative_or_value < 0 ? fail(-negative_or_value) : negative_or_value;
}

/// Says once, by name, that a function is not modelled.
int not_modelled(Function function, int error);

} // namespace softgaudi
