// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "fakes/fake.h"
#include "thunk/device.h"
#include "thunk/library.h"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstdint>

namespace gaudi::thunk {

/// A fake libhl-thunk, loaded as the product loads the real one, with the functions that control it.
class FakeLibrary {
public:
    explicit FakeLibrary(const char *path) : m_handle(::dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
        const Result<const Library *> library = Library::load(path);
        EXPECT_TRUE(library) << (library ? "" : library.error().text);
        m_library = library.value_or(nullptr);
        control<decltype(&fake_reset)>("fake_reset")();
    }
    FakeLibrary(const FakeLibrary &) = delete;
    FakeLibrary &operator=(const FakeLibrary &) = delete;
    ~FakeLibrary() { ::dlclose(m_handle); }

    const Library &operator*() const { return *m_library; }
    const Library *operator->() const { return m_library; }
    Device device() const { return Device(*m_library, descriptor); }

    void reply(const char *function, std::int64_t rc, int err = FAKE_KEEP_ERRNO, int times = 1) const {
        control<decltype(&fake_reply)>("fake_reply")(function, rc, err, times);
    }
    void set_wait_status(std::uint32_t status) const {
        control<decltype(&fake_set_wait_status)>("fake_set_wait_status")(status);
    }
    int calls(const char *function) const { return control<decltype(&fake_calls)>("fake_calls")(function); }
    std::uint64_t argument(const char *function, int index) const {
        return control<decltype(&fake_argument)>("fake_argument")(function, index);
    }

    static constexpr int descriptor = 42; // only an argument: nothing in this process opens or closes it

private:
    template <class Function>
    Function control(const char *name) const {
        return reinterpret_cast<Function>(::dlsym(m_handle, name));
    }

    void *m_handle;
    const Library *m_library = nullptr;
};

/// A test on one fake that has all functions.
class WithFake : public testing::Test {
protected:
    FakeLibrary fake{FAKE_FULL};
    Device device = fake.device();
};

template <class T>
testing::AssertionResult fails_with(const Result<T> &result, int code, const char *call) {
    if (result)
        return testing::AssertionFailure() << "it succeeded";
    const Error &error = result.error();
    if (error.code != code || std::string(error.call) != call || error.text.find(call) == std::string::npos)
        return testing::AssertionFailure() << error.call << " gave " << error.code << ": " << error.text;
    return testing::AssertionSuccess();
}

} // namespace gaudi::thunk
