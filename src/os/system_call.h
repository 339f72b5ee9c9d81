// SPDX-License-Identifier: BSD-3-Clause
// System calls without the C library: it has no function for some of them, and sanitizers wrap its functions and would
// report what a software device does as a mistake of the program.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <type_traits>

namespace gaudi::os {

/// The argument as the kernel reads it: a register of 64 bits, all of them defined.
template <class T>
unsigned long call_argument(T value) {
    static_assert(sizeof(unsigned long) == 8, "a system call takes registers of 64 bits");
    if constexpr (std::is_null_pointer_v<T>) {
        return 0;
    } else if constexpr (std::is_pointer_v<T>) {
        return reinterpret_cast<unsigned long>(value);
    } else {
        static_assert(std::is_integral_v<T>, "a system call takes integers and pointers");
        return static_cast<unsigned long>(value);
    }
}

/// The C library's syscall() for arguments of any width; returns -1 and sets errno on failure. syscall() itself is
/// variadic and reads the sixth argument from the stack as 64 bits, of which an int defines only half. A test checks
/// that no other code in this project calls syscall().
template <class... Arguments>
long system_call(long number, Arguments... arguments) {
    static_assert(sizeof...(Arguments) <= 6, "a system call takes six arguments at most");
    return ::syscall(number, call_argument(arguments)...);
}

} // namespace gaudi::os
