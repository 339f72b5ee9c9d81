// SPDX-License-Identifier: BSD-3-Clause
// The module of another vendor: a domain with memory of its own type, exported as dma-bufs, and a transport that copies
// it. Tests show that gaudi_copy does not affect such memory.
#include "plain_module.h"

namespace {

using namespace gaudi::ucx;

struct Ep : plain::Ep<Ep> {
    using plain::Ep<Ep>::Ep;

    ucs_status_t put_short(const void *buffer, unsigned length, std::uint64_t remote, uct_rkey_t) {
        std::memcpy(reinterpret_cast<void *>(remote), buffer, length);
        return UCS_OK;
    }
    ucs_status_t get_short(void *buffer, unsigned length, std::uint64_t remote, uct_rkey_t) {
        std::memcpy(buffer, reinterpret_cast<const void *>(remote), length);
        return UCS_OK;
    }
    ucs_status_t put_zcopy(const uct_iov *iov, std::size_t, std::uint64_t remote, uct_rkey_t, uct_completion *) {
        std::memcpy(reinterpret_cast<void *>(remote), iov->buffer, iov->length);
        return UCS_OK;
    }
    ucs_status_t get_zcopy(const uct_iov *iov, std::size_t, std::uint64_t remote, uct_rkey_t, uct_completion *) {
        std::memcpy(iov->buffer, reinterpret_cast<const void *>(remote), iov->length);
        return UCS_OK;
    }
};

struct Iface : plain::Iface<Iface, Ep> {
    using plain::Iface<Iface, Ep>::Iface;

    static constexpr ucs_memory_type_t kType = UCS_MEMORY_TYPE_ROCM;
    static constexpr double kBandwidth = 1e10, kLatency = 1e-6, kOverhead = 0;
};

struct Md : plain::Md<Md, Iface> {
    using plain::Md<Md, Iface>::Md;

    static constexpr plain::Names kNames{"other", "other_cpy", "OTHER_", "OTHER_CPY_"};

    ucs_status_t query(uct_md_attr_v2 *attr) {
        const ucs_status_t status = plain::Md<Md, Iface>::query(attr);
        attr->dmabuf_mem_types = memory_type_bit(Iface::kType);
        return status;
    }
    static void *map(std::size_t length, int &file) {
        file = memfd_create("other", MFD_CLOEXEC);
        if (ftruncate(file, static_cast<off_t>(length)) != 0)
            return MAP_FAILED;
        return mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
};

} // namespace

extern "C" __attribute__((visibility("protected"))) signed char ucs_module_global_init() {
    return plain::start<Md>(__builtin_return_address(0));
}
