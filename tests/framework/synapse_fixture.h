// SPDX-License-Identifier: BSD-3-Clause
// A fixture that uses SynapseAI as a program does: it loads the library, acquires a card, allocates and releases.
#pragma once

#include "framework/standin/synapse.h"
#include "gaudi/framework/synapse.h"
#include "gaudi/gaudi.h"

#include <dlfcn.h>

namespace gaudi::test {

class SynapseTest : public GaudiTest {
protected:
    SynapseTest() {
        unsetenv("STANDIN_FAULT");
        unsetenv("STANDIN_SPARES_A_PAGE");
    }
    ~SynapseTest() override {
        unsetenv("STANDIN_FAULT");
        if (m_acquired)
            find_function<vendor::synDeviceRelease>("synDeviceRelease")(0);
    }

    static bool is_loaded(const char *name) { return dlopen(name, RTLD_NOLOAD | RTLD_LAZY) != nullptr; }

    void load(const char *path = STANDIN_SYNAPSE) {
        m_library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (m_library == nullptr)
            throw std::runtime_error(dlerror());
    }
    void unload() { dlclose(std::exchange(m_library, nullptr)); }

    template <class Function>
    Function *find_function(const char *name) const {
        return reinterpret_cast<Function *>(dlsym(m_library, name));
    }

    void initialize() { require_success(find_function<vendor::synInitialize>("synInitialize")()); }

    /// Loads and initializes SynapseAI and acquires a card.
    const Synapse &acquire(std::uint32_t module = 0, const char *path = STANDIN_SYNAPSE) {
        load(path);
        initialize();
        vendor::DeviceId device = 99;
        require_success(
            find_function<vendor::synDeviceAcquireByModuleId>("synDeviceAcquireByModuleId")(&device, module));
        EXPECT_EQ(device, Synapse::kDevice);
        m_acquired = true;
        return *Synapse::loaded();
    }
    void release() {
        m_acquired = false;
        require_success(find_function<vendor::synDeviceRelease>("synDeviceRelease")(0));
    }
    /// The test has released the card by itself.
    void forget_card() { m_acquired = false; }
    std::uint64_t allocate(std::uint64_t size) const {
        std::uint64_t address = 0;
        require_success(find_function<vendor::synDeviceMalloc>("synDeviceMalloc")(0, size, 0, 0, &address));
        return address;
    }

    static thunk::Device device(int fd) { return thunk::Device(*value(thunk::Library::find()), fd); }

    static void require_success(vendor::Status status) {
        if (status != vendor::synSuccess)
            throw std::runtime_error("the stand-in returned status " + std::to_string(status));
    }

private:
    void *m_library = nullptr;
    bool m_acquired = false;
};

} // namespace gaudi::test
