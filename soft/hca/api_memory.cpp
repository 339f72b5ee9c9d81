// SPDX-License-Identifier: BSD-3-Clause
// Protection domains, memory regions, address handles.
#include "api.h"
#include "dmabuf.h"
#include "gaudi/host_memory.h"
#include "os/mutex.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <map>
#include <memory>
#include <utility>

using namespace softhca;

namespace {

constexpr int kKnownAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr uint64_t kPage = 4096;

int check_access(unsigned access) {
    if ((access & IBV_ACCESS_ON_DEMAND) != 0)
        return EOPNOTSUPP;
    if ((access & ~static_cast<unsigned>(kKnownAccess | IBV_ACCESS_OPTIONAL_RANGE)) != 0)
        return EINVAL;
    const unsigned writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    return (access & writes) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0 ? EINVAL : 0;
}

struct Region {
    Kind kind;
    void *address; // in the program
    uint64_t iova, length, base;
    bool kernel;
};

/// A duplicate of the descriptor, shared by all regions of the dma-buf: a real NIC uses none of the program's
/// descriptors. Null, with errno, on failure.
std::shared_ptr<const File> share_duplicate(int fd) {
    struct stat info {};
    if (fstat(fd, &info) != 0)
        return nullptr;
    struct Held {
        gaudi::os::Mutex mutex{Rank::dmabufs};
        std::map<std::pair<dev_t, ino_t>, std::weak_ptr<const File>> files GAUDI_GUARDED_BY(mutex);
    };
    static Held &held = *new Held; // regions are used until the very end
    const gaudi::os::MutexLock lock(held.mutex);
    std::erase_if(held.files, [](const auto &entry) { return entry.second.expired(); });
    std::weak_ptr<const File> &known = held.files[{info.st_dev, info.st_ino}];
    if (auto file = known.lock())
        return file;
    File own(fcntl(fd, F_DUPFD_CLOEXEC, 3));
    if (!own)
        return nullptr;
    auto file = std::make_shared<const File>(std::move(own));
    known = file;
    return file;
}

int register_region(ibv_pd *pd, const Region &region, unsigned access, std::shared_ptr<const File> descriptor,
                    ibv_mr *&out) {
    Hca *hca = hca_of(pd->context);
    auto mr = std::make_unique<Mr>();
    mr->descriptor = std::move(descriptor);
    const unsigned device = Context::of(pd->context).device;
    uint32_t key = 0;
    mr->entry = hca->fabric().take(hca->state().mrs, [&](MrEntry &fresh, uint32_t id) {
        key = id;
        fresh.device = device;
        fresh.pd = Pd::of(pd).id;
        fresh.access = access & kKnownAccess;
        fresh.kind = region.kind;
        fresh.iova = region.iova;
        fresh.length = region.length;
        fresh.base = region.base;
        fresh.fd = mr->descriptor ? mr->descriptor->get() : -1;
        fresh.kernel = region.kernel;
        fresh.imported.store(0);
        for (auto *counter : {&fresh.traffic.local_read, &fresh.traffic.local_written, &fresh.traffic.remote_read,
                              &fresh.traffic.remote_written})
            counter->store(0);
        hca->state().devices[device].regions.fetch_add(1);
        return 0;
    });
    if (!mr->entry)
        return errno;
    DeviceEntry &counters = hca->state().devices[device];
    (region.kind == Kind::dmabuf ? counters.dmabuf_registrations : counters.registrations).fetch_add(1);
    mr->verbs.context = pd->context;
    mr->verbs.pd = pd;
    mr->verbs.addr = region.address;
    mr->verbs.length = region.length;
    mr->verbs.handle = key;
    mr->verbs.lkey = key;
    mr->verbs.rkey = key;
    Pd::of(pd).users.fetch_add(1);
    out = &mr.release()->verbs;
    return 0;
}

ibv_mr *register_host(ibv_pd *pd, void *address, size_t length, uint64_t iova, unsigned access) {
    return make_object<ibv_mr>([&](ibv_mr *&out) {
        Hca *hca = hca_of(pd->context);
        if (!hca)
            return ENODEV;
        if (const int error = hca->match_faults("reg_mr", Context::of(pd->context).device).error)
            return error;
        if (const int error = check_access(access))
            return error;
        const auto begin = reinterpret_cast<uint64_t>(address);
        if (begin + length < begin || iova + length < iova)
            return EINVAL;
        if (length != 0 && !softgaudi::is_mapped_here(begin, length, (access & IBV_ACCESS_LOCAL_WRITE) != 0))
            return EFAULT;
        return register_region(pd, {Kind::host, address, iova, length, begin, false}, access, nullptr, out);
    });
}

} // namespace

SOFTHCA_API ibv_pd *ibv_alloc_pd(ibv_context *context) {
    return make_object<ibv_pd>([&](ibv_pd *&out) {
        Hca *hca = hca_of(context);
        if (!hca)
            return ENODEV;
        if (const int error = hca->match_faults("alloc_pd", Context::of(context).device).error)
            return error;
        auto pd = std::make_unique<Pd>();
        pd->id = hca->state().next_pd.fetch_add(1) + 1;
        pd->verbs.context = context;
        pd->verbs.handle = pd->id;
        out = &pd.release()->verbs;
        return 0;
    });
}

SOFTHCA_API int ibv_dealloc_pd(ibv_pd *pd) {
    if (Pd::of(pd).users.load() != 0)
        return EBUSY;
    delete &Pd::of(pd);
    return 0;
}

SOFTHCA_API ibv_mr *ibv_reg_mr(ibv_pd *pd, void *address, size_t length, int access) {
    return register_host(pd, address, length, reinterpret_cast<uint64_t>(address), static_cast<unsigned>(access));
}

SOFTHCA_API ibv_mr *ibv_reg_mr_iova(ibv_pd *pd, void *address, size_t length, uint64_t iova, int access) {
    return register_host(pd, address, length, iova, static_cast<unsigned>(access));
}

SOFTHCA_API ibv_mr *ibv_reg_mr_iova2(ibv_pd *pd, void *address, size_t length, uint64_t iova, unsigned access) {
    return register_host(pd, address, length, iova, access);
}

SOFTHCA_API ibv_mr *ibv_reg_dmabuf_mr(ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access) {
    return make_object<ibv_mr>([&](ibv_mr *&out) {
        Hca *hca = hca_of(pd->context);
        if (!hca)
            return ENODEV;
        if (const int error = hca->match_faults("reg_dmabuf_mr", Context::of(pd->context).device).error)
            return error;
        if (const int error = check_access(static_cast<unsigned>(access)))
            return error;
        if (offset % kPage != iova % kPage || iova + length < iova)
            return EINVAL;
        const auto buffer = inspect_dmabuf(fd);
        if (!buffer)
            return buffer.error();
        if (length == 0 || offset > buffer->size || length > buffer->size - offset)
            return EINVAL;
        // An importer keeps the exporter's memory in use.
        auto own = share_duplicate(fd);
        if (!own)
            return errno;
        const Region region{Kind::dmabuf, reinterpret_cast<void *>(iova), iova,
                            length,       buffer->base + offset,          buffer->kernel};
        return register_region(pd, region, static_cast<unsigned>(access), std::move(own), out);
    });
}

SOFTHCA_API int ibv_rereg_mr(ibv_mr *, int, ibv_pd *, void *, size_t, int) {
    errno = EOPNOTSUPP;
    return IBV_REREG_MR_ERR_INPUT;
}

SOFTHCA_API int ibv_dereg_mr(ibv_mr *verbs) {
    return guarded([&] {
        Mr &mr = Mr::of(verbs);
        if (Hca *hca = hca_of(verbs->context)) {
            hca->fabric().destroy(*mr.entry);
            hca->engine().peers().close_deregistered();
        }
        Pd::of(verbs->pd).users.fetch_sub(1);
        delete &mr;
        return 0;
    });
}

SOFTHCA_API ibv_ah *ibv_create_ah(ibv_pd *pd, ibv_ah_attr *attr) {
    return make_object<ibv_ah>([&](ibv_ah *&out) {
        Hca *hca = hca_of(pd->context);
        if (!hca)
            return ENODEV;
        if (const int error = hca->match_faults("create_ah", Context::of(pd->context).device).error)
            return error;
        if (attr->port_num != 1)
            return EINVAL;
        auto ah = std::make_unique<Ah>();
        ah->verbs.context = pd->context;
        ah->verbs.pd = pd;
        ah->attr = *attr;
        Pd::of(pd).users.fetch_add(1);
        out = &ah.release()->verbs;
        return 0;
    });
}

SOFTHCA_API int ibv_init_ah_from_wc(ibv_context *, uint8_t port, ibv_wc *wc, ibv_grh *grh, ibv_ah_attr *attr) {
    *attr = {};
    attr->dlid = wc->slid;
    attr->sl = wc->sl;
    attr->src_path_bits = wc->dlid_path_bits;
    attr->port_num = port;
    if ((wc->wc_flags & IBV_WC_GRH) != 0) {
        attr->is_global = 1;
        attr->grh.dgid = grh->sgid;
        attr->grh.hop_limit = 0xff;
    }
    return 0;
}

SOFTHCA_API ibv_ah *ibv_create_ah_from_wc(ibv_pd *pd, ibv_wc *wc, ibv_grh *grh, uint8_t port) {
    ibv_ah_attr attr;
    ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr);
    return ibv_create_ah(pd, &attr);
}

SOFTHCA_API int ibv_destroy_ah(ibv_ah *ah) {
    Pd::of(ah->pd).users.fetch_sub(1);
    delete &Ah::of(ah);
    return 0;
}
