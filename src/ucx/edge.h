// SPDX-License-Identifier: BSD-3-Clause
// The edge between UCX's C and our C++. The tables of C functions are made from classes: a slot whose operation the
// class has calls that operation, under the same name, and every other slot answers "unsupported". Nothing is thrown
// across the edge, and an error becomes a ucs_status_t here and nowhere else.
//
// An operation takes the arguments of UCX's function after the handle, and returns what that function returns, or a
// Result:
//
//     class Md : public uct_md {
//         Result<void> mem_free(uct_mem_h memh);
//         ucs_status_t mem_query(const void *address, std::size_t length, uct_md_mem_attr_v2 *attr);
//         void failed(const Error &error) const noexcept; // optional: is called with each error
//     };
#pragma once

#include "host.h"
#include "status.h"
#include "thunk/current_exception.h"

#include <array>
#include <bit>
#include <type_traits>

namespace gaudi::ucx {
namespace edge {

// ---- from UCX's handle to our object

template <class Class>
Class &object(uct_md_h md) noexcept {
    return *static_cast<Class *>(md);
}

template <class Class>
Class &object(uct_component_h component) noexcept {
    return *static_cast<Class *>(component);
}

template <class Class>
Class &object(uct_ep_h ep) noexcept {
    return *static_cast<Class *>(ep);
}

/// An interface derives from uct_base_iface, and UCX's handle points to its first member.
template <class Class>
Class &object(uct_iface_h iface) noexcept {
    return *static_cast<Class *>(reinterpret_cast<uct_base_iface *>(iface));
}

// ---- from the result of an operation to the return value of the C function

template <class Class>
void notify(Class &self, const Error &error) noexcept {
    if constexpr (requires { self.failed(error); })
        self.failed(error);
}

template <class Returned>
constexpr Returned failure(const Error &error) noexcept {
    if constexpr (std::is_same_v<Returned, ucs_status_t> || std::is_same_v<Returned, ssize_t>)
        return status_from_errno(error.code);
    else
        return Returned(); // 0: not reachable, no progress
}

template <class Returned, class Class, class Value>
Returned translate(Class &self, const Result<Value> &result) noexcept {
    if (!result) {
        notify(self, result.error());
        return failure<Returned>(result.error());
    }
    if constexpr (std::is_void_v<Value>)
        return Returned(); // UCS_OK
    else
        return static_cast<Returned>(*result);
}

template <class Returned, class Class, class Value>
Returned translate(Class &, Value value) noexcept {
    return static_cast<Returned>(value);
}

template <class Returned, class Class, class Operation>
Returned run(const char *name, Class &self, Operation &&operation) noexcept {
    try {
        if constexpr (std::is_void_v<Returned>)
            operation(); // close and destroy end the object, so an error has no receiver
        else if constexpr (std::is_void_v<decltype(operation())>)
            return operation(), Returned();
        else
            return translate<Returned>(self, operation());
    } catch (...) {
        if constexpr (!std::is_void_v<Returned>) {
            const Error error = thunk::current_exception_error(name);
            notify(self, error);
            return failure<Returned>(error);
        }
    }
}

// ---- slots

// For slots of any type: the return register holds -22, or 0, however many of its bytes the caller reads.
inline long unsupported() noexcept { return UCS_ERR_UNSUPPORTED; }
inline long nothing() noexcept { return 0; }

template <class Slot>
Slot make_slot(long (*function)() noexcept) noexcept {
    return reinterpret_cast<Slot>(reinterpret_cast<void (*)()>(function));
}

template <class Ops>
Ops all_unsupported() noexcept {
    std::array<uct_unused_op, sizeof(Ops) / sizeof(uct_unused_op)> slots;
    slots.fill(make_slot<uct_unused_op>(unsupported));
    return std::bit_cast<Ops>(slots);
}

/// A string as a template argument.
template <std::size_t Size>
struct Name {
    char text[Size];
    constexpr Name(const char (&literal)[Size]) noexcept {
        for (std::size_t i = 0; i < Size; ++i)
            text[i] = literal[i];
    }
};

/// The C function for a slot of type `Slot` that runs `method` on the object behind the handle.
template <class Class, auto method, Name name, class Slot>
struct Entry;

template <class Class, auto method, Name name, class Returned, class Handle, class... Arguments>
struct Entry<Class, method, name, Returned (*)(Handle, Arguments...)> {
    static Returned function(Handle handle, Arguments... arguments) noexcept {
        Class &self = object<Class>(handle);
        return run<Returned>(name.text, self, [&] { return (self.*method)(arguments...); });
    }
};

/// The one slot without a handle: the interface is among the parameters, which its operation gets as well.
template <class Iface>
struct CreateEndpoint {
    static ucs_status_t function(const uct_ep_params *params, uct_ep_h *ep) noexcept {
        if ((params->field_mask & UCT_EP_PARAM_FIELD_IFACE) == 0)
            return UCS_ERR_INVALID_PARAM;
        Iface &self = object<Iface>(params->iface);
        return run<ucs_status_t>("ep_create", self, [&] { return self.create_ep(params, ep); });
    }
};

} // namespace edge

// Puts Class::method into the slot, if the class has that method. The base of the class, which is a struct of UCX, may
// have a data member of the same name.
#define GAUDI_UCX_EDGE(Class, table, slot, method)                                                                     \
    if constexpr (requires { requires std::is_member_function_pointer_v<decltype(&Class::method)>; })                  \
    (table).slot = edge::Entry<Class, &Class::method, #slot, decltype((table).slot)>::function

/// The table of a memory domain: slots and operations have the same names.
template <class Md>
uct_md_ops make_md_ops() noexcept {
    uct_md_ops ops = edge::all_unsupported<uct_md_ops>();
    GAUDI_UCX_EDGE(Md, ops, close, close);
    GAUDI_UCX_EDGE(Md, ops, query, query);
    GAUDI_UCX_EDGE(Md, ops, mem_alloc, mem_alloc);
    GAUDI_UCX_EDGE(Md, ops, mem_free, mem_free);
    GAUDI_UCX_EDGE(Md, ops, mem_advise, mem_advise);
    GAUDI_UCX_EDGE(Md, ops, mem_reg, mem_reg);
    GAUDI_UCX_EDGE(Md, ops, mem_dereg, mem_dereg);
    GAUDI_UCX_EDGE(Md, ops, mem_query, mem_query);
    GAUDI_UCX_EDGE(Md, ops, mkey_pack, mkey_pack);
    GAUDI_UCX_EDGE(Md, ops, mem_attach, mem_attach);
    GAUDI_UCX_EDGE(Md, ops, detect_memory_type, detect_memory_type);
    return ops;
}

/// Sets the functions of a component: query_md_resources, md_open, rkey_*. The caller sets names, tables and lists.
template <class Component>
void fill_component(uct_component &component) noexcept {
    component.query_md_resources = edge::make_slot<decltype(component.query_md_resources)>(edge::unsupported);
    component.md_open = edge::make_slot<decltype(component.md_open)>(edge::unsupported);
    component.cm_open = edge::make_slot<decltype(component.cm_open)>(edge::unsupported);
    component.rkey_unpack = edge::make_slot<decltype(component.rkey_unpack)>(edge::unsupported);
    component.rkey_ptr = edge::make_slot<decltype(component.rkey_ptr)>(edge::unsupported);
    component.rkey_release = edge::make_slot<decltype(component.rkey_release)>(edge::unsupported);
    component.rkey_compare = edge::make_slot<decltype(component.rkey_compare)>(edge::unsupported);
    component.md_vfs_init = edge::make_slot<decltype(component.md_vfs_init)>(edge::nothing);
    GAUDI_UCX_EDGE(Component, component, query_md_resources, query_md_resources);
    GAUDI_UCX_EDGE(Component, component, md_open, md_open);
    GAUDI_UCX_EDGE(Component, component, rkey_unpack, rkey_unpack);
    GAUDI_UCX_EDGE(Component, component, rkey_ptr, rkey_ptr);
    GAUDI_UCX_EDGE(Component, component, rkey_release, rkey_release);
    GAUDI_UCX_EDGE(Component, component, rkey_compare, rkey_compare);
}

/// Sets the functions of a transport, which are operations of its domain: query_devices and iface_open.
template <class Md>
void fill_tl(uct_tl &tl) noexcept {
    tl.query_devices = edge::make_slot<decltype(tl.query_devices)>(edge::unsupported);
    tl.iface_open = edge::make_slot<decltype(tl.iface_open)>(edge::unsupported);
    GAUDI_UCX_EDGE(Md, tl, query_devices, query_devices);
    GAUDI_UCX_EDGE(Md, tl, iface_open, iface_open);
}

/// The table of a transport. Operations have the names of their slots without the prefix: Ep::put_zcopy,
/// Iface::progress; Iface::create_ep(params, ep) is ep_create. A slot for which neither class has an operation holds
/// UCX's base function, where there is one.
template <class Iface, class Ep>
uct_iface_ops make_iface_ops(const Functions &uct) noexcept {
    uct_iface_ops ops = edge::all_unsupported<uct_iface_ops>();
    ops.iface_progress_enable = uct.uct_base_iface_progress_enable;
    ops.iface_progress_disable = uct.uct_base_iface_progress_disable;
    ops.iface_is_reachable = uct.uct_base_iface_is_reachable;
    ops.iface_progress = edge::make_slot<decltype(ops.iface_progress)>(edge::nothing);
    if constexpr (requires { &Iface::create_ep; })
        ops.ep_create = edge::CreateEndpoint<Iface>::function;
    GAUDI_UCX_EDGE(Ep, ops, ep_put_short, put_short);
    GAUDI_UCX_EDGE(Ep, ops, ep_put_bcopy, put_bcopy);
    GAUDI_UCX_EDGE(Ep, ops, ep_put_zcopy, put_zcopy);
    GAUDI_UCX_EDGE(Ep, ops, ep_get_short, get_short);
    GAUDI_UCX_EDGE(Ep, ops, ep_get_bcopy, get_bcopy);
    GAUDI_UCX_EDGE(Ep, ops, ep_get_zcopy, get_zcopy);
    GAUDI_UCX_EDGE(Ep, ops, ep_pending_add, pending_add);
    GAUDI_UCX_EDGE(Ep, ops, ep_pending_purge, pending_purge);
    GAUDI_UCX_EDGE(Ep, ops, ep_flush, flush);
    GAUDI_UCX_EDGE(Ep, ops, ep_fence, fence);
    GAUDI_UCX_EDGE(Ep, ops, ep_check, check);
    GAUDI_UCX_EDGE(Ep, ops, ep_destroy, destroy);
    GAUDI_UCX_EDGE(Ep, ops, ep_get_address, get_address);
    GAUDI_UCX_EDGE(Ep, ops, ep_connect_to_ep, connect_to_ep);
    GAUDI_UCX_EDGE(Iface, ops, iface_flush, flush);
    GAUDI_UCX_EDGE(Iface, ops, iface_fence, fence);
    GAUDI_UCX_EDGE(Iface, ops, iface_progress_enable, progress_enable);
    GAUDI_UCX_EDGE(Iface, ops, iface_progress_disable, progress_disable);
    GAUDI_UCX_EDGE(Iface, ops, iface_progress, progress);
    GAUDI_UCX_EDGE(Iface, ops, iface_event_fd_get, event_fd_get);
    GAUDI_UCX_EDGE(Iface, ops, iface_event_arm, event_arm);
    GAUDI_UCX_EDGE(Iface, ops, iface_close, close);
    GAUDI_UCX_EDGE(Iface, ops, iface_query, query);
    GAUDI_UCX_EDGE(Iface, ops, iface_get_device_address, get_device_address);
    GAUDI_UCX_EDGE(Iface, ops, iface_get_address, get_address);
    GAUDI_UCX_EDGE(Iface, ops, iface_is_reachable, is_reachable);
    return ops;
}

template <class Iface, class Ep>
uct_iface_internal_ops make_iface_internal_ops(const Functions &uct) noexcept {
    uct_iface_internal_ops ops = edge::all_unsupported<uct_iface_internal_ops>();
    ops.iface_query_v2 = uct.uct_iface_base_query_v2;
    ops.ep_is_connected = uct.uct_base_ep_is_connected;
    ops.iface_vfs_refresh = edge::make_slot<decltype(ops.iface_vfs_refresh)>(edge::nothing);
    ops.iface_is_reachable_v2 = edge::make_slot<decltype(ops.iface_is_reachable_v2)>(edge::nothing);
    GAUDI_UCX_EDGE(Iface, ops, iface_query_v2, query_v2);
    GAUDI_UCX_EDGE(Iface, ops, iface_estimate_perf, estimate_perf);
    GAUDI_UCX_EDGE(Iface, ops, iface_vfs_refresh, vfs_refresh);
    GAUDI_UCX_EDGE(Iface, ops, iface_is_reachable_v2, is_reachable_v2);
    GAUDI_UCX_EDGE(Ep, ops, ep_is_connected, is_connected);
    // A UCX without the dispatcher may have another operation in its slot, or none.
    if (uct.uct_ep_put_sgl_zcopy != nullptr)
        GAUDI_UCX_EDGE(Ep, ops, ep_put_sgl_zcopy, put_sgl_zcopy);
    if (uct.uct_ep_get_sgl_zcopy != nullptr)
        GAUDI_UCX_EDGE(Ep, ops, ep_get_sgl_zcopy, get_sgl_zcopy);
    return ops;
}

#undef GAUDI_UCX_EDGE

template <class Iface, class Ep>
uct_iface_ops make_iface_ops(const Host &host) noexcept {
    return make_iface_ops<Iface, Ep>(host.call());
}

template <class Iface, class Ep>
uct_iface_internal_ops make_iface_internal_ops(const Host &host) noexcept {
    return make_iface_internal_ops<Iface, Ep>(host.call());
}

} // namespace gaudi::ucx
